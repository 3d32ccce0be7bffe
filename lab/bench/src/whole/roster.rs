//! Finds the mallocs on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A malloc that can be preloaded, or the C library's malloc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malloc {
    /// Name in tables.
    pub name: String,
    /// Location of the code.
    pub place: Place,
    /// Freehold's options for the environment; empty for other mallocs.
    pub options: String,
}

/// Location of a malloc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The C library itself.
    Libc,
    /// A library to be preloaded.
    Library(PathBuf),
}

/// Name of Freehold's malloc, which is the first in every list.
pub(super) const OURS: &str = "freehold";
/// Name of the C library's malloc.
pub(super) const LIBC: &str = "libc";
/// Index of the C library's malloc in every list.
pub(super) const LIBC_PLACE: usize = 1;
/// Mallocs that Debian packages: name and file name. The file may have a further suffix after a dot.
const PACKAGED: [(&str, &str); 3] =
    [("jemalloc", "libjemalloc.so.2"), ("mimalloc 2", "libmimalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4")];
/// Mallocs that are Rust packages: name, and file name of the library that the build of `dev/peer-mallocs` makes.
const BUILT: [(&str, &str); 3] = [
    ("mimalloc 3", "libpreload_mimalloc_3.so"),
    ("snmalloc", "libpreload_snmalloc.so"),
    ("rpmalloc", "libpreload_rpmalloc.so"),
];
/// Folder of that build, relative to the current folder.
const BUILT_IN: &str = "dev/peer-mallocs/target/release";
/// Folders for libraries. The first one has a subfolder for each kind of machine.
const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// Returns Freehold's malloc, the C library's malloc, and all others that were found or named.
///
/// # Errors
/// When a library that was named does not exist, or two mallocs have the same name.
pub(crate) fn find_mallocs(library: &Path, named: &[Malloc]) -> Result<Vec<Malloc>, Error> {
    let ours = Malloc::from_library(OURS, library);
    let libc = Malloc { name: LIBC.to_owned(), place: Place::Libc, options: String::new() };
    let found = PACKAGED.into_iter().filter_map(|(name, file)| Some((name, find_packaged(file)?)));
    let found = found.chain(BUILT.into_iter().filter_map(|(name, file)| Some((name, find_built(file)?))));
    let found = found.filter(|(name, _)| named.iter().all(|malloc| malloc.name != *name));
    let found = found.map(|(name, path)| Malloc::from_library(name, &path));
    let all: Vec<Malloc> = [ours, libc].into_iter().chain(found).chain(named.iter().cloned()).collect();
    all.iter().enumerate().try_for_each(|(at, malloc)| malloc.expect(&all[..at]))?;
    Ok(all)
}

impl Malloc {
    /// Returns a malloc that is preloaded from a library, without options. The path becomes absolute, because programs
    /// run in other folders.
    pub fn from_library(name: &str, path: &Path) -> Malloc {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Malloc { name: name.to_owned(), place: Place::Library(absolute), options: String::new() }
    }

    /// Checks that the library exists, and that none of the mallocs in `before` has the same name.
    fn expect(&self, before: &[Malloc]) -> Result<(), Error> {
        if before.iter().any(|malloc| malloc.name == self.name) {
            return Err(Error::Input(format!("two mallocs are named `{}`; give each a different name", self.name)));
        }
        match &self.place {
            Place::Library(path) if !path.is_file() => Err(Error::Input(format!(
                "there is no library {}; give the path of a library that can be preloaded",
                path.display()
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns the path of a library from the build of `dev/peer-mallocs`, if it exists.
pub(crate) fn find_built(file: &str) -> Option<PathBuf> {
    Some(Path::new(BUILT_IN).join(file)).filter(|path| path.is_file())
}

/// Returns the path of a library with this file name, or with this name followed by a dot and a suffix.
pub(crate) fn find_packaged(file: &str) -> Option<PathBuf> {
    let kinds = list_entries(Path::new(FOLDERS[0])).filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    let folders = kinds.chain(FOLDERS.map(PathBuf::from));
    folders.into_iter().find_map(|folder| list_entries(&folder).filter(|path| is_named(path, file)).min())
}

/// Returns the entries of a folder; none if it cannot be read.
fn list_entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns whether the file name is `file`, or begins with `file` and a dot.
fn is_named(path: &Path, file: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(here: &Path, named: &[Malloc]) -> String {
        find_mallocs(here, named).unwrap_err().to_string()
    }

    #[test]
    fn named_mallocs_exist_and_differ() {
        let here = PathBuf::from(file!()).file_name().map(|_| std::env::current_exe().unwrap()).unwrap();
        let malloc = Malloc::from_library;
        let all = find_mallocs(&here, &[malloc("mine", &here)]).unwrap();
        let names: Vec<&str> = all.iter().map(|malloc| malloc.name.as_str()).collect();
        assert_eq!((names[0], names[1], names.last()), (OURS, LIBC, Some(&"mine")));
        assert!(refuse(&here, &[malloc("mine", Path::new("/nowhere"))]).starts_with("there is no library /nowhere"));
        assert!(refuse(&here, &[malloc("libc", &here)]).starts_with("two mallocs are named `libc`"));
    }
}
