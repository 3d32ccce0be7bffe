//! The mallocs, with default settings and with their strictest checks.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::whole::{self, Malloc, Place};

/// A malloc with its settings.
#[derive(Clone, Debug)]
pub(super) struct MallocSetup {
    /// Name in tables.
    pub name: String,
    /// Library to be preloaded.
    pub library: Option<PathBuf>,
    /// Environment variables.
    pub variables: Vec<(&'static str, String)>,
}

/// Setting under which Freehold's malloc checks for misuse.
const HARDENED: Setting = ("freehold, hardened", &[(OPTIONS, "hardened=on")]);
const OPTIONS: &str = "FREEHOLD_OPTIONS";
/// Setting under which glibc checks for misuse. Since glibc 2.34 these checks are in a separate library.
const LIBC: Setting = ("libc, checking", &[("GLIBC_TUNABLES", "glibc.malloc.check=3")]);
const LIBC_LIBRARY: &str = "libc_malloc_debug.so";
/// Build of snmalloc with checks; see dev/peer-mallocs/README.md.
const SNMALLOC: (&str, &str) = ("snmalloc, checking", "libpreload_snmalloc_checks.so");

/// Name of a setting, and its environment variables.
type Setting = (&'static str, &'static [(&'static str, &'static str)]);

/// Returns Freehold's malloc, the C library's malloc, and all others that were found or named. Mallocs with a checking
/// mode appear twice.
///
/// # Errors
/// When a library that was named does not exist, or two mallocs have the same name.
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
