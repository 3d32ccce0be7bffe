//! Recordings as files that commands are given, of kernels that are known.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::kernel::Release;
use crate::reader::Reader;

/// A recording in short, as it is replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordingFacts {
    /// The file as it was named.
    pub file: String,
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    /// CPUs of the recorded machine.
    pub cpus: u16,
    /// CPUs the replay spread the tasks over.
    pub replay_cpus: u16,
    /// Length of the recording in seconds.
    pub duration_seconds: f64,
    /// Rows in the file: events and state.
    pub rows: u64,
    /// What was guessed of the machine, in sentences: of an imported recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<String>,
}

/// What a recording is called in tables and pictures: its file's name, without folder and ending.
pub fn name_of(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Why a file is no recording to work with.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] crate::Error),

    /// The recorded kernel is not known.
    #[error(
        "{path} was recorded on the kernel `{release}`, which is no Linux that this program knows (5.0 to 7.x); \
         use a newer freehold, or correct `kernel_release` in the file's facts",
        path = path.display()
    )]
    UnknownKernel {
        /// The recording.
        path: PathBuf,
        /// Its kernel.
        release: String,
    },
}

/// An open recording of a known kernel.
pub struct Recording {
    /// The file as it was named.
    pub path: PathBuf,
    /// Its reader.
    pub reader: Reader,
    /// The recorded kernel.
    pub release: Release,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// When the file is no readable recording, a snapshot, or of a kernel that is not known.
    pub fn open(path: &Path) -> Result<Recording, OpenError> {
        Recording::from_reader(Reader::open(path)?, path)
    }

    /// Opens a recording or a snapshot.
    ///
    /// # Errors
    /// When the file is neither, or of a kernel that is not known.
    pub fn open_any(path: &Path) -> Result<Recording, OpenError> {
        Recording::admitted(Reader::open(path)?.admitted_any()?, path)
    }

    /// A recording that is open already, under a name.
    ///
    /// # Errors
    /// When it can be no recording, or is a snapshot, or of a kernel that is not known.
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

    /// The recording in short, as it will be replayed on `cpus` CPUs or on its own.
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
