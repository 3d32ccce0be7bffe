//! A recording as a sweep knows it: by its contents, wherever it lies and whatever it is called.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use freehold_trace::Reader;
use freehold_trace::recording::{Recording, name_of};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::TaskError;

/// Digits of the digest in a recording's name: enough to tell a million of one name apart.
const DIGITS: usize = 12;

/// Which recording it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Its file's name, without folder and ending.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// `uname -r` of the recorded kernel.
    pub kernel: String,
}

impl Identity {
    /// What it is called in the dataset: its name and the beginning of its digest, since many are called the same.
    pub fn label(&self) -> String {
        let digits = self.sha256.get(..DIGITS).unwrap_or(&self.sha256);
        format!("{}-{digits}", self.name)
    }
}

/// An open recording, and which it is.
pub struct Subject {
    /// Which it is.
    pub identity: Identity,
    /// Its reader.
    pub recording: Recording,
}

impl Subject {
    /// Opens the recording in a file. Cost: reading it once, for its digest.
    ///
    /// # Errors
    /// When it cannot be read, or is no recording to replay.
    pub fn open(path: &Path) -> Result<Subject, TaskError> {
        let fail = |source| TaskError::Read { path: path.to_path_buf(), source };
        // A pipe would be waited for until somebody writes to it.
        match fs::metadata(path).map_err(fail)?.is_file() {
            true => Subject::of_file(File::open(path).map_err(fail)?, path),
            false => Err(TaskError::NoFile(path.to_path_buf())),
        }
    }

    /// The recording in these bytes, which came from a file of this name, wherever that was. Cost: memory for them.
    ///
    /// # Errors
    /// When they are no recording to replay, or there is no memory for them.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Result<Subject, TaskError> {
        let path = Path::new(name);
        let fail = |source| TaskError::Read { path: path.to_path_buf(), source };
        Subject::of_file(in_memory(bytes).map_err(fail)?, path)
    }

    fn of_file(mut file: File, path: &Path) -> Result<Subject, TaskError> {
        let fail = |source| TaskError::Read { path: path.to_path_buf(), source };
        let sha256 = digest::of_reader(&file).map_err(fail)?;
        file.rewind().map_err(fail)?;
        let recording =
            Recording::of(Reader::of(file, path).map_err(freehold_trace::recording::OpenError::from)?, path)?;
        let kernel = recording.reader.facts().kernel_release.clone();
        let name = name_of(&path.to_string_lossy());
        Ok(Subject { identity: Identity { name, sha256, kernel }, recording })
    }
}

/// A file that takes no room on a disk.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
