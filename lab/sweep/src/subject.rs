//! Recordings of a sweep, identified by their contents, independent of path and file name.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use freehold_trace::Reader;
use freehold_trace::recording::{Recording, name_of};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::{ReadError, TaskError};

/// Number of digest digits in the label of a recording, enough to distinguish a million recordings with the same name.
const DIGITS: usize = 12;

/// Identity of a recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// File name, without folder and extension.
    pub name: String,
    /// SHA-256 of the contents, in hexadecimal digits.
    pub sha256: String,
    /// Release of the recorded kernel, as `uname -r` prints it.
    pub kernel: String,
}

impl Identity {
    /// Returns the label in the dataset: the name and the start of the digest, because many recordings have the same
    /// name.
    pub fn label(&self) -> String {
        let digits = self.sha256.get(..DIGITS).unwrap_or(&self.sha256);
        format!("{}-{digits}", self.name)
    }
}

/// An open recording with its identity.
pub struct Subject {
    /// Identity of the recording.
    pub identity: Identity,
    /// The open recording.
    pub recording: Recording,
}

impl Subject {
    /// Opens the recording in a file. Cost: one read of the file, for its digest.
    ///
    /// # Errors
    /// If the file cannot be read, or if it is not a recording that can be replayed.
    pub fn open(path: &Path) -> Result<Subject, TaskError> {
        // A pipe or another special file is refused, because opening a pipe would block until a writer opens it.
        if !fs::metadata(path).map_err(|source| ReadError::new(path, source))?.is_file() {
            return Err(TaskError::NoFile(path.to_path_buf()));
        }
        let file = File::open(path).map_err(|source| ReadError::new(path, source))?;
        Subject::from_file(file, path)
    }

    /// Opens the recording in these bytes. `name` is the name of the file that they came from, on any machine. Cost:
    /// memory for a copy of the bytes.
    ///
    /// # Errors
    /// If the bytes are not a recording that can be replayed, or if there is not enough memory.
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

/// Returns a file in memory with these contents.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
