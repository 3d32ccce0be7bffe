//! A recording as a sweep knows it: by its contents, wherever it lies and whatever it is called.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use freehold_trace::Reader;
use freehold_trace::recording::{Recording, name_of};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::{ReadError, TaskError};

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
        // A pipe would be waited for until somebody writes to it.
        if !fs::metadata(path).map_err(|source| ReadError::new(path, source))?.is_file() {
            return Err(TaskError::NoFile(path.to_path_buf()));
        }
        let file = File::open(path).map_err(|source| ReadError::new(path, source))?;
        Subject::from_file(file, path)
    }

    /// The recording in these bytes, which came from a file of this name, wherever that was. Cost: memory for them.
    ///
    /// # Errors
    /// When they are no recording to replay, or there is no memory for them.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Subject, TaskError> {
        let path = Path::new(name);
        let file = in_memory(bytes).map_err(|source| ReadError::new(path, source))?;
        Subject::from_file(file, path)
    }

    fn from_file(mut file: File, path: &Path) -> Result<Subject, TaskError> {
        let sha256 = digest::hash_reader(&file).map_err(|source| ReadError::new(path, source))?;
        file.rewind().map_err(|source| ReadError::new(path, source))?;
        let recording = Recording::from_reader(
            Reader::from_file(file, path).map_err(freehold_trace::recording::OpenError::from)?,
            path,
        )?;
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
