//! Fingerprints of files and folders. They distinguish two builds of a kernel, which may have the same release.

use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crc32fast::Hasher;

use crate::error::{Error, on_file};

/// Returns the fingerprint of these bytes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Returns the fingerprint of a file's contents.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn hash_file(path: &Path) -> Result<String, Error> {
    fs::read(path).map(|bytes| hash_bytes(&bytes)).map_err(on_file("read", path))
}

/// Returns the fingerprint of a folder: names, lengths and modification times of everything below it.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn hash_folder(path: &Path) -> Result<String, Error> {
    let mut hasher = Hasher::new();
    add(path, &mut hasher).map_err(on_file("read", path))?;
    Ok(format!("{:08x}", hasher.finalize()))
}

fn add(folder: &Path, hasher: &mut Hasher) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let metadata = entry.metadata()?;
        let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        hasher.update(entry.file_name().as_encoded_bytes());
        hasher.update(&metadata.len().to_le_bytes());
        hasher.update(&since.as_nanos().to_le_bytes());
        if metadata.is_dir() {
            add(&entry.path(), hasher)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_has_another_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        let before = (hash_file(&file).unwrap(), hash_folder(folder.path()).unwrap());
        assert_eq!(before, (hash_file(&file).unwrap(), hash_folder(folder.path()).unwrap()));
        fs::write(&file, "other").unwrap();
        assert_ne!(before.0, hash_file(&file).unwrap());
        assert_ne!(before.1, hash_folder(folder.path()).unwrap());
    }
}
