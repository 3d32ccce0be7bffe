//! Recordings of known kernels, in files that are given to commands.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::kernel::Release;
use crate::reader::Reader;

/// Summary of a recording and its replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordingFacts {
    /// Path of the file, as the user gave it.
    pub file: String,
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    /// CPUs of the recorded machine.
    pub cpus: u16,
    /// CPUs over which the replay spread the tasks.
    pub replay_cpus: u16,
    /// Length of the recording in seconds.
    pub duration_seconds: f64,
    /// Rows in the file: events and state.
    pub rows: u64,
    /// Guesses about the machine, in sentences, for an imported recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<String>,
}

/// Returns a recording's name in tables and plots: its file's name, without folder and extension.
pub fn name_of(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Error of opening a recording.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] crate::Error),

    /// The recorded kernel is not known.
    #[error(
        "{path} was recorded on the kernel `{release}`, which is not a Linux version that this program supports (5.0 \
         to 7.x); use a newer version of freehold, or correct `kernel_release` in the file's facts",
        path = path.display()
    )]
    UnknownKernel {
        /// Path of the recording.
        path: PathBuf,
        /// Release of its kernel.
        release: String,
    },
}

/// An open recording of a known kernel.
pub struct Recording {
    /// Path of the file, as the user gave it.
    pub path: PathBuf,
    /// Reader of the recording.
    pub reader: Reader,
    /// The recorded kernel.
    pub release: Release,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// If the file is not a readable recording, is a snapshot, or has an unknown kernel.
    pub fn open(path: &Path) -> Result<Recording, OpenError> {
        Recording::from_reader(Reader::open(path)?, path)
    }

    /// Opens a recording or a snapshot.
    ///
    /// # Errors
    /// If the file is neither, or has an unknown kernel.
    pub fn open_any(path: &Path) -> Result<Recording, OpenError> {
        Recording::admitted(Reader::open(path)?.admitted_any()?, path)
    }

    /// Wraps an open recording. `path` is its name.
    ///
    /// # Errors
    /// If its facts are impossible, it is a snapshot, or its kernel is unknown.
    pub fn from_reader(reader: Reader, path: &Path) -> Result<Recording, OpenError> {
        Recording::admitted(reader.admitted()?, path)
    }

    fn admitted(reader: Reader, path: &Path) -> Result<Recording, OpenError> {
        let path = path.to_path_buf();
        match Release::parse(&reader.facts().kernel_release) {
            Some(release) => Ok(Recording { path, reader, release }),
            None => Err(OpenError::UnknownKernel { path, release: reader.facts().kernel_release.clone() }),
        }
    }

    /// Returns the summary of the recording, for a replay on `cpus` CPUs or on the recorded ones.
    pub fn facts(&self, cpus: Option<NonZeroU16>) -> RecordingFacts {
        let facts = self.reader.facts();
        RecordingFacts {
            file: self.path.display().to_string(),
            kernel_release: facts.kernel_release.clone(),
            cpus: facts.cpus,
            replay_cpus: cpus.map_or(facts.cpus, NonZeroU16::get),
            duration_seconds: facts.duration as f64 / 1e9,
            rows: self.reader.row_count(),
            guesses: facts.guesses.clone(),
        }
    }
}
