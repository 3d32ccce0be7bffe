//! The library that is preloaded, and the place where the loader finds it.
//!
//! The order is: the library of an installed package; the library that this program carries, in the user's cache; if it
//! carries none, the library beside this program. If the cache cannot be used, the carried library is in a folder of
//! the user below TMPDIR or /tmp.

use std::env;
use std::fmt::Display;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use freehold_report::output::write_atomically;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

use crate::error::Error;

/// Library that this program carries; empty unless the program was built with the profile `dist`.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfreehold.so"));
/// Library of a package that installed this program, from the program's folder.
const INSTALLED: &str = "../lib/freehold/libfreehold.so";
/// Bits of a mode that let other users change a folder.
const OTHERS_WRITE: u32 = 0o022;
/// File name of the library in an installation.
const NAME: &str = "libfreehold.so";
/// File name under which cargo builds the library.
const CARGO_NAME: &str = "libfreehold_preload.so";

/// Returns the path of the library. Returns an error if there is none, or if the loader cannot use it.
pub(crate) fn find_library() -> Result<PathBuf, Error> {
    match find_existing()? {
        Some(path) => Ok(path),
        None => unpack(&folders(), LIBRARY),
    }
}

/// Returns the folders for the library that this program carries, the first choice first.
fn folders() -> Vec<PathBuf> {
    let cache = absolute_folder("XDG_CACHE_HOME").or_else(|| absolute_folder("HOME").map(|home| home.join(".cache")));
    let own = format!("freehold-{}", geteuid().as_raw());
    cache.map(|cache| cache.join("freehold")).into_iter().chain([env::temp_dir().join(own)]).collect()
}

/// Writes the library to the first of the folders that is usable.
fn unpack(folders: &[PathBuf], library: &[u8]) -> Result<PathBuf, Error> {
    let mut result = Err(Error::Input("there is no folder for the library; set XDG_CACHE_HOME".to_owned()));
    for folder in folders {
        result = unpack_to_folder(folder, library);
        if result.is_ok() {
            break;
        }
    }
    result
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

/// Writes the library to a folder unless it is already there. The file is written atomically, under a name that
/// contains a fingerprint of its contents. The folder must belong to the user, and other users must not be able to
/// write to it: programs will run the library with the user's rights.
fn unpack_to_folder(folder: &Path, library: &[u8]) -> Result<PathBuf, Error> {
    let place = folder.join(format!("libfreehold-{:016x}.so", fingerprint(library)));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unusable(&place, &error))?;
    let owner = fs::symlink_metadata(folder).map_err(|error| unusable(&place, &error))?;
    if !owner.is_dir() || owner.uid() != geteuid().as_raw() || owner.mode() & OTHERS_WRITE != 0 {
        return Err(unusable(&place, &"its folder does not belong to this user alone"));
    }
    if !fs::read(&place).is_ok_and(|there| there == library) {
        write_atomically(&place, library)?;
    }
    expect_loadable(&place)?;
    Ok(place)
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const BYTES: &[u8] = b"a library";

    #[test]
    fn library_is_unpacked_to_the_first_usable_folder() {
        let parent = tempfile::tempdir().unwrap();
        let [file, link, open, usable] = ["file", "link", "open", "usable"].map(|name| parent.path().join(name));
        fs::write(&file, "").unwrap();
        symlink(parent.path(), &link).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        // A file, a folder with a space in its path, a read-only file system, and folders that other users may change.
        for unusable in [file, parent.path().join("a b"), "/proc/freehold".into(), link, open] {
            let place = unpack(&[unusable.clone(), usable.clone()], BYTES).unwrap();
            assert!(place.starts_with(&usable), "{}", unusable.display());
            assert_eq!(fs::read(place).unwrap(), BYTES);
            let text = unpack(std::slice::from_ref(&unusable), BYTES).unwrap_err().to_string();
            assert!(text.contains("set XDG_CACHE_HOME"), "{text}");
        }
        assert!(unpack(&[], BYTES).is_err());
    }
}
