//! A file that gets its name only when it is complete.
//!
//! The file is created without a name (`O_TMPFILE`), so that it disappears however the program ends, including by
//! SIGKILL. It gets its name through `/proc`. On file systems without `O_TMPFILE`, or on a machine without `/proc`, it
//! is created as `PATH.part`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

/// Folder of the open files of this process, by number.
const OPEN_FILES: &str = "/proc/self/fd";

/// A file that is being written. It is removed on drop, unless it was published.
pub struct PartFile {
    file: File,
    path: PathBuf,
    part: PathBuf,
    name: Name,
    checksum: crc32fast::Hasher,
}

/// Name of the file so far.
#[derive(PartialEq, Eq)]
enum Name {
    None,
    Part,
    Published,
}

impl PartFile {
    /// Creates a file that will be published at `path`. An existing file at this path stays until then. A file called
    /// `PATH.part` is overwritten.
    ///
    /// # Errors
    /// If the file cannot be created there, or the path names something else than a regular file.
    pub fn create(path: &Path) -> io::Result<PartFile> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The target of a link is replaced, and not the link. A device or a pipe must not be replaced at all.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if path.exists() && !path.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut part_name = path.as_os_str().to_owned();
        part_name.push(".part");
        let part = PathBuf::from(part_name);
        let (file, name) = match nameless(folder_of(path)) {
            Ok(file) => (file, Name::None),
            Err(_) => (new_file(OFlags::NOFOLLOW).create(true).truncate(true).open(&part)?, Name::Part),
        };
        Ok(PartFile { file, path: path.clone(), part, name, checksum: crc32fast::Hasher::new() })
    }

    /// Returns the checksum of the bytes written since the last call.
    pub(crate) fn take_checksum(&mut self) -> u32 {
        std::mem::take(&mut self.checksum).finalize()
    }

    /// Makes the bytes durable and gives the file its name.
    ///
    /// # Errors
    /// If the bytes cannot be stored, or the file cannot get its name. A file that was not published is removed when it
    /// is dropped.
    pub fn publish(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.name == Name::None {
            self.link()?;
        }
        fs::rename(&self.part, &self.path)?;
        self.name = Name::Published;
        File::open(folder_of(&self.path))?.sync_all()
    }

    /// Gives the file the name `PATH.part`. A link cannot replace an existing file, but a rename can.
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

/// Creates a file without a name in this folder.
fn nameless(folder: &Path) -> io::Result<File> {
    if !Path::new(OPEN_FILES).is_dir() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    new_file(OFlags::TMPFILE).open(folder)
}

/// Returns options for a file that only its owner can read, because it contains names of tasks and kernel addresses.
fn new_file(flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

/// Returns the folder of a path; `.` if the path names none.
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
            // A failure cannot be reported here, and the name shows that the file is incomplete.
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file_names(folder: &Path) -> Vec<std::ffi::OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn part_file_is_visible_only_after_publish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        fs::write(&path, "old").unwrap();
        let mut file = PartFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        // Leaked, as after SIGKILL.
        std::mem::forget(PartFile::create(&path).unwrap());
        assert_eq!((file_names(folder.path()), fs::read(&path).unwrap()), (vec!["r".into()], b"old".to_vec()));
        file.publish().unwrap();
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((file_names(folder.path()), fs::read(&path).unwrap()), (vec!["r".into()], b"new".to_vec()));
    }

    #[test]
    fn part_file_follows_links_and_rejects_devices() {
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
