//! Number of processes whose statistics were left out: they were brief and small.
//!
//! The library adds a byte to a temporary file for each of them. The file is removed when the program has ended, and a
//! process that outlives the program is not counted.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

use freehold_malloc::process::options::Options;
use freehold_malloc::process::usage::{LIFETIME_MIN, PEAK_MIN};
use freehold_report::number::count;

use crate::error::Error;

/// File with a byte for each process that was left out; it is removed on drop.
pub(super) struct LeftOut(PathBuf);

impl LeftOut {
    /// Creates the file.
    pub(super) fn create() -> Result<LeftOut, Error> {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let file = LeftOut(env::temp_dir().join(format!("freehold-stats-{}-{moment:x}", process::id())));
        let is_usable = !file.0.as_os_str().as_encoded_bytes().contains(&b',');
        if !is_usable || Options::check(file.options().as_bytes()).is_err() {
            return Err(file.unusable("its name contains a comma, or is too long"));
        }
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file.0);
        created.map_err(|error| file.unusable(&error.to_string()))?;
        Ok(file)
    }

    /// Returns the settings that name the file and this process to the library, after a comma. The library always
    /// prints the line of a child of this process.
    pub(super) fn options(&self) -> String {
        format!(",stats-parent={},stats-file={}", process::id(), self.0.display())
    }

    /// Prints the number of processes that were left out, if there are any.
    pub(super) fn report(&self) {
        let number = fs::metadata(&self.0).map_or(0, |file| file.len());
        if number > 0 {
            eprintln!(
                "freehold: processes left out (less than {} s and {} MiB): {}; --stats=all prints them",
                LIFETIME_MIN / 1000,
                PEAK_MIN >> 20,
                count(number)
            );
        }
    }

    fn unusable(&self, why: &str) -> Error {
        Error::Input(format!("cannot count processes in {}: {why}; set TMPDIR to another folder", self.0.display()))
    }
}

impl Drop for LeftOut {
    fn drop(&mut self) {
        let _removed = fs::remove_file(&self.0);
    }
}
