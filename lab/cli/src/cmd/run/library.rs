//! The library that is preloaded, and the place where the loader finds it.
//!
//! The library of an installed package, or beside this program, is used in place. The library that this program carries
//! is written to the user's cache. If that is impossible, the library is a file in memory, or a temporary file.

use std::env;
use std::fmt::Display;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use freehold_report::output::write_atomically;
use rustix::fs::{MemfdFlags, StatVfsMountFlags, memfd_create, statvfs};

use crate::error::Error;

/// Library that this program carries; empty unless the program was built with the profile `dist`.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfreehold.so"));
/// Library of a package that installed this program, from the program's folder.
const INSTALLED: &str = "../lib/freehold/libfreehold.so";
/// File name of the library in an installation.
const NAME: &str = "libfreehold.so";
/// File name under which cargo builds the library.
const CARGO_NAME: &str = "libfreehold_preload.so";

/// The library, and its place until this value is dropped.
#[derive(Debug)]
pub(super) struct Library {
    path: PathBuf,
    place: Place,
}

/// Kind of place.
#[derive(Debug)]
enum Place {
    /// A file that stays.
    Lasting,
    /// A file in memory, which exists while this process has the descriptor.
    Memory { _file: File },
    /// A folder that is removed at the end.
    Temporary { folder: PathBuf },
}

impl Library {
    /// Finds the library, or puts the one that this program carries into a place where the loader finds it.
    pub(super) fn find() -> Result<Library, Error> {
        match find_existing()? {
            Some(path) => Ok(Library { path, place: Place::Lasting }),
            None => Library::unpack(cache(), LIBRARY),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the library exists only as long as this process.
    pub(super) fn is_brief(&self) -> bool {
        !matches!(self.place, Place::Lasting)
    }

    /// Writes the library to the cache; if that is impossible, to memory or to a temporary folder.
    fn unpack(cache: Option<PathBuf>, library: &[u8]) -> Result<Library, Error> {
        if let Ok(path) = unpack_to_cache(cache, library) {
            return Ok(Library { path, place: Place::Lasting });
        }
        Library::in_memory(library).or_else(|_| Library::in_folder(&env::temp_dir(), library))
    }

    /// Writes the library to a file in memory. Its path leads through this process, so child processes find it too, also
    /// if they close all descriptors.
    fn in_memory(library: &[u8]) -> std::io::Result<Library> {
        let mut file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC)?);
        file.write_all(library)?;
        let path = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()).into();
        Ok(Library { path, place: Place::Memory { _file: file } })
    }

    /// Writes the library to a new folder.
    fn in_folder(parent: &Path, library: &[u8]) -> Result<Library, Error> {
        let folder = parent.join(format!("freehold-library-{}", process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|error| unusable(&folder, &error))?;
        let made = Library { path: folder.join(NAME), place: Place::Temporary { folder } };
        fs::write(&made.path, library).map_err(|error| unusable(&made.path, &error))?;
        expect_loadable(&made.path)?;
        Ok(made)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Place::Temporary { folder } = &self.place {
            let _removed = fs::remove_dir_all(folder);
        }
    }
}

/// Returns the path of the library: the one that a package installed with this program; otherwise the one that this
/// program carries, unpacked into the user's cache; if this program carries none, the one that [`beside`] finds.
/// Returns an error if there is none, or if the loader cannot use it.
pub(crate) fn find_library() -> Result<PathBuf, Error> {
    match find_existing()? {
        Some(path) => Ok(path),
        None => unpack_to_cache(cache(), LIBRARY),
    }
}

/// Returns the path of the library that a package installed, or that is beside this program if it carries none.
fn find_existing() -> Result<Option<PathBuf>, Error> {
    let found = match installed() {
        None if LIBRARY.is_empty() => Some(beside().ok_or_else(missing)?),
        installed => installed,
    };
    if let Some(path) = &found {
        expect_loadable(path)?;
    }
    Ok(found)
}

fn missing() -> Error {
    Error::Input(format!(
        "cannot find {NAME} in this program or in its folder; `cargo build --release` in a checkout builds both"
    ))
}

/// Returns an error unless the loader accepts the path and can execute the file.
fn expect_loadable(library: &Path) -> Result<(), Error> {
    if !can_be_preloaded(library) {
        return Err(unusable(library, &"the loader accepts no space or colon in this path"));
    }
    if statvfs(library).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOEXEC)) {
        return Err(unusable(library, &"its file system is mounted with noexec"));
    }
    Ok(())
}

fn unusable(library: &Path, why: &dyn Display) -> Error {
    let library = library.display();
    Error::Input(format!("cannot preload {library}: {why}; set XDG_CACHE_HOME to another folder"))
}

/// Returns whether the dynamic loader accepts the path. It splits the list at spaces and colons.
fn can_be_preloaded(library: &Path) -> bool {
    !library.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':'))
}

/// Returns the library of the package that installed this program. A removal of the package removes this library too,
/// and leaves nothing in the user's cache.
fn installed() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let place = fs::canonicalize(program.parent()?.join(INSTALLED)).ok()?;
    can_be_preloaded(&place).then_some(place)
}

/// Searches the program's folder and the library folder of an installation for [`NAME`], and then the program's folder
/// for the library of a cargo build.
fn beside() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.parent()?;
    let places = [folder.join(NAME), folder.join("../lib").join(NAME), folder.join(CARGO_NAME)];
    places.into_iter().find(|place| place.is_file())
}

/// Writes the library to the user's cache unless it is already there. The file is written atomically, under a name that
/// contains a fingerprint of its contents.
fn unpack_to_cache(cache: Option<PathBuf>, library: &[u8]) -> Result<PathBuf, Error> {
    let Some(cache) = cache else {
        return Err(Error::Input("there is no home folder for the library; set XDG_CACHE_HOME".to_owned()));
    };
    let folder = cache.join("freehold");
    let place = folder.join(format!("libfreehold-{:016x}.so", fingerprint(library)));
    if !fs::read(&place).is_ok_and(|there| there == library) {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| unusable(&place, &error))?;
        write_atomically(&place, library)?;
    }
    expect_loadable(&place)?;
    Ok(place)
}

/// Returns the user's folder for caches.
fn cache() -> Option<PathBuf> {
    absolute_folder("XDG_CACHE_HOME").or_else(|| absolute_folder("HOME").map(|home| home.join(".cache")))
}

/// Returns the folder that an environment variable names, if the name is absolute.
fn absolute_folder(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// Returns a hash of the library, which most likely differs from that of any other library.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const BYTES: &[u8] = b"a library";

    /// Returns the contents that a child process of a child process reads. The first one has no descriptors beyond 2.
    fn read_by_child(path: &Path) -> Vec<u8> {
        let script = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; cat \"$0\"";
        Command::new("sh").args(["-c", script]).arg(path).output().unwrap().stdout
    }

    #[test]
    fn unpacked_library_is_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::unpack(Some(folder.path().to_owned()), BYTES).unwrap();
        assert!(library.path().starts_with(folder.path()) && !library.is_brief());
        assert_eq!(fs::read(library.path()).unwrap(), BYTES);
    }

    #[test]
    fn library_without_a_cache_is_in_memory_and_found_by_child_processes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        // There is no folder, none can be created, the path has a space, and the file system has noexec or is read-only.
        let caches = [None, Some(file), Some(folder.path().join("a b")), Some("/proc".into())];
        for cache in caches {
            let library = Library::unpack(cache.clone(), BYTES).unwrap();
            assert!(library.is_brief() && can_be_preloaded(library.path()), "{cache:?}");
            assert_eq!(read_by_child(library.path()), BYTES, "{cache:?}");
            let path = library.path().to_owned();
            drop(library);
            assert!(read_by_child(&path).is_empty(), "{cache:?}");
        }
    }

    #[test]
    fn temporary_library_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::in_folder(folder.path(), BYTES).unwrap();
        assert_eq!(read_by_child(library.path()), BYTES);
        drop(library);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let text = Library::in_folder(Path::new("/proc"), BYTES).unwrap_err().to_string();
        assert!(text.contains("set XDG_CACHE_HOME"), "{text}");
    }
}
