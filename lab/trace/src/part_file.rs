//! A file that has its name only when it is whole.
//!
//! It is made without a name (`O_TMPFILE`), so that nothing is left of it whatever ends the program, SIGKILL included.
//! File systems that cannot do that, or a machine without `/proc`, by which it gets its name, have it as `PATH.part`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

/// The open files of this process, by number.
const OPEN_FILES: &str = "/proc/self/fd";

/// A file on its way: removed when dropped, unless it was published.
pub struct PartFile {
    file: File,
    path: PathBuf,
    part: PathBuf,
    name: Name,
    checksum: crc32fast::Hasher,
}

/// What name the file has.
#[derive(PartialEq, Eq)]
enum Name {
    None,
    Part,
    Published,
}

impl PartFile {
    /// A file that will stand at `path`; an older one of this name stays until then.
    ///
    /// # Errors
    /// When it cannot be made there, or something else than a file has the name.
    pub fn create(path: &Path) -> io::Result<PartFile> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // What a link leads to is replaced, and not the link; a device or a pipe is not to be replaced at all.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if path.exists() && !path.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut part_name = path.as_os_str().to_owned();
        part_name.push(".part");
        let part = PathBuf::from(part_name);
        let (file, name) = match nameless(folder_of(path)) {
            Ok(file) => (file, Name::None),
            Err(_) => (File::create(&part)?, Name::Part),
        };
        Ok(PartFile { file, path: path.clone(), part, name, checksum: crc32fast::Hasher::new() })
    }

    /// Checksum of the bytes written since the last call.
    pub(crate) fn take_checksum(&mut self) -> u32 {
        std::mem::take(&mut self.checksum).finalize()
    }

    /// Makes the bytes durable and gives them their name.
    ///
    /// # Errors
    /// When there is no room for them; the file is gone then.
    pub fn publish(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.name == Name::None {
            self.link()?;
        }
        fs::rename(&self.part, &self.path)?;
        self.name = Name::Published;
        File::open(folder_of(&self.path))?.sync_all()
    }

    /// Gives the file the name `PATH.part`: a link cannot take the place of a file that is there, but a renamed file
    /// can.
    fn link(&mut self) -> io::Result<()> {
        match fs::remove_file(&self.part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let open = format!("{OPEN_FILES}/{}", self.file.as_raw_fd());
        linkat(CWD, open, CWD, &self.part, AtFlags::SYMLINK_FOLLOW)?;
        self.name = Name::Part;
        Ok(())
    }
}

/// A file without a name in this folder.
fn nameless(folder: &Path) -> io::Result<File> {
    if !Path::new(OPEN_FILES).is_dir() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    OpenOptions::new().write(true).custom_flags(OFlags::TMPFILE.bits().cast_signed()).mode(0o666).open(folder)
}

/// The folder that a file of this name is in, or will be.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.checksum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.name == Name::Part {
            // Nobody is left to tell about a failure, and the name says that the file is not whole.
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_names(folder: &Path) -> Vec<std::ffi::OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_has_a_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        fs::write(&path, "old").unwrap();
        let mut file = PartFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        // Leaked, as by SIGKILL.
        std::mem::forget(PartFile::create(&path).unwrap());
        assert_eq!((file_names(folder.path()), fs::read(&path).unwrap()), (vec!["r".into()], b"old".to_vec()));
        file.publish().unwrap();
        drop(file);
        assert_eq!((file_names(folder.path()), fs::read(&path).unwrap()), (vec!["r".into()], b"new".to_vec()));
    }

    #[test]
    fn links_are_followed_and_devices_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("r"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = PartFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.publish().unwrap();
        assert!(link.is_symlink() && fs::read(&path).unwrap() == b"new");
        assert!(PartFile::create(Path::new("/dev/null")).is_err());
    }
}
