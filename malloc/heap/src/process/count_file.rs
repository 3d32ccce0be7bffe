//! File that counts processes without a line of statistics.

use core::ffi::CStr;
use core::fmt;

/// File that gets one byte for each process without a line; its path has at most 255 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CountFile {
    path: [u8; CountFile::PATH_MAX + 1],
}

impl CountFile {
    const PATH_MAX: usize = 255;
    /// No file.
    pub const NONE: CountFile = CountFile { path: [0; CountFile::PATH_MAX + 1] };

    /// Returns the file at a path; `None` for an empty or too long path.
    pub(super) fn new(path: &[u8]) -> Option<CountFile> {
        let mut file = CountFile::NONE;
        let is_valid = !path.is_empty() && path.len() <= CountFile::PATH_MAX && !path.contains(&0);
        file.path.get_mut(..path.len()).filter(|_| is_valid)?.copy_from_slice(path);
        Some(file)
    }

    fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or_default()
    }

    /// Counts this process. Does nothing if the file does not exist any more or cannot be written.
    pub fn count(&self) {
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
        // SAFETY: the path ends in a zero byte; the byte that is written is live, and the descriptor is closed once.
        unsafe {
            let file = libc::open(self.path().as_ptr(), flags);
            if file >= 0 {
                let _written = libc::write(file, c"1".as_ptr().cast(), 1);
                libc::close(file);
            }
        }
    }
}

impl fmt::Debug for CountFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::fs;

    use super::*;

    #[test]
    fn each_left_out_process_adds_a_byte() {
        let path = std::env::temp_dir().join(std::format!("freehold-usage-{}", std::process::id()));
        let file = CountFile::new(path.to_str().unwrap().as_bytes()).unwrap();
        file.count();
        assert!(!path.exists(), "only an existing file is written");
        fs::write(&path, "").unwrap();
        file.count();
        file.count();
        assert_eq!(fs::read(&path).unwrap().len(), 2);
        fs::remove_file(&path).unwrap();
        assert_eq!((CountFile::new(b""), CountFile::new(&[b'a'; 256])), (None, None));
    }
}
