//! Mallocs, as they come and as they can be set to look harder.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::whole::{self, Malloc, Place};

/// A malloc, and what is set for it.
#[derive(Clone, Debug)]
pub(super) struct MallocSetup {
    /// Its name in tables.
    pub name: String,
    /// What is preloaded.
    pub library: Option<PathBuf>,
    /// Variables of the environment.
    pub variables: Vec<(&'static str, String)>,
}

/// Ours when it looks for misuse.
const HARDENED: Setting = ("freehold, hardened", &[(OPTIONS, "hardened=on")]);
const OPTIONS: &str = "FREEHOLD_OPTIONS";
/// The C library's when it does, which is a library of its own since glibc 2.34.
const LIBC: Setting = ("libc, checking", &[("GLIBC_TUNABLES", "glibc.malloc.check=3")]);
const LIBC_LIBRARY: &str = "libc_malloc_debug.so";
/// snmalloc as it is built to check; see dev/peer-mallocs/README.md.
const SNMALLOC: (&str, &str) = ("snmalloc, checking", "libpreload_snmalloc_checks.so");

/// A name, and variables.
type Setting = (&'static str, &'static [(&'static str, &'static str)]);

/// Ours, the C library's and all others that are there or were named; those that can be set to look harder, twice.
///
/// # Errors
/// When one that was named is not there, or two have the same name.
pub(super) fn find_setups(library: &Path, named: &[Malloc]) -> Result<Vec<MallocSetup>, Error> {
    let mut all: Vec<MallocSetup> = whole::find_mallocs(library, named)?.into_iter().map(MallocSetup::plain).collect();
    all.insert(1, MallocSetup::new(HARDENED, library.to_owned()));
    if let Some(library) = whole::find_packaged(LIBC_LIBRARY) {
        all.insert(3, MallocSetup::new(LIBC, library));
    }
    let checking = whole::find_built(SNMALLOC.1);
    all.extend(checking.map(|library| MallocSetup::new((SNMALLOC.0, &[]), library)));
    Ok(all)
}

impl MallocSetup {
    fn new((name, variables): Setting, library: PathBuf) -> MallocSetup {
        let variables = variables.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        MallocSetup { name: name.to_owned(), library: Some(library), variables }
    }

    fn plain(malloc: Malloc) -> MallocSetup {
        let library = match malloc.place {
            Place::Libc => None,
            Place::Library(path) => Some(path),
        };
        let options = (!malloc.options.is_empty()).then_some((OPTIONS, malloc.options));
        MallocSetup { name: malloc.name, library, variables: options.into_iter().collect() }
    }
}
