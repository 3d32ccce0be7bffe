//! What can be wrong with a recording, in sentences for the person who holds the file.
//!
//! Every error names the file and says what to do about it. Errors about a single row carry a
//! [`Fault`], so that callers can tell an old reader from a damaged file without parsing text.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be created or written. No partial file remains.
    #[error("cannot write {}: {source}; choose another place for the recording", path.display())]
    Write {
        /// Path of the file that was to be made.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk is full. No partial file remains.
    #[error("the disk is full, so {} was not written; free some space or choose another place", path.display())]
    DiskFull {
        /// Path of the file that was to be made.
        path: PathBuf,
    },
    /// The file is not a Parquet file at all.
    #[error("{} is not a Parquet file; give a recording made by `freehold record`", path.display())]
    NotParquet {
        /// Path of the file.
        path: PathBuf,
    },
    /// A Parquet file, but not of this schema.
    #[error("{} is not a recording: {reason}; FORMAT.md says what a recording must hold", path.display())]
    NotRecording {
        /// Path of the file.
        path: PathBuf,
        /// What is missing or different, as a phrase.
        reason: String,
    },
    /// The file ends before its footer does.
    #[error("{} is cut short; copy it again, or record again", path.display())]
    Truncated {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was written by a newer program.
    #[error("{} has format {found}, and this program reads format {supported}; use a freehold of the version that wrote it", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Number of the format that the file claims.
        found: u64,
        /// Number of the format that this crate knows.
        supported: u32,
    },
    /// The bytes contradict themselves.
    #[error("{} is damaged: {reason}; copy it again, or record again", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// The contradiction, as a phrase.
        reason: String,
    },
    /// A row that no recording may hold.
    #[error("row {row} of {} {fault}", path.display())]
    Row {
        /// Path of the file.
        path: PathBuf,
        /// Index of the row, counted from 0.
        row: u64,
        /// What is wrong with that row.
        fault: Fault,
    },
}

/// What can be wrong with one row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The row's kind has a code that this crate does not know.
    #[error("is of the unknown kind {code}; use a newer freehold, or record again if the file is damaged")]
    UnknownKind {
        /// The code in the `kind` column.
        code: i32,
    },
    /// An event is older than the one before it.
    #[error(
        "is out of order: its time {time} ns is before {previous} ns of the row above; sort the events by time and write the file again"
    )]
    OutOfOrder {
        /// Time of the row, in nanoseconds.
        time: u64,
        /// Time of the event before it, in nanoseconds.
        previous: u64,
    },
    /// A row of one section after a row of a later one.
    #[error(
        "is out of order: start-state rows come first, then events, then end-state rows; write the file again in that order"
    )]
    OutOfSection,
    /// A value that no machine can have.
    #[error(
        "is out of range: {column} is {value}, and must be {bounds}; record again, or repair the program that wrote it"
    )]
    OutOfRange {
        /// Name of the column in question.
        column: &'static str,
        /// Value of the column in the row.
        value: i64,
        /// Values that would be allowed, as a phrase.
        bounds: String,
    },
}

impl Error {
    /// A failed read of `path`; an early end is a truncated file.
    pub(crate) fn read(path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::Truncated { path },
            _ => Error::Read { path, source },
        }
    }

    /// A failed write of `path`.
    pub(crate) fn write(path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path },
            _ => Error::Write { path, source },
        }
    }

    /// A failed write of `path` as the Parquet crate reports it.
    pub(crate) fn encode(path: &Path, error: ParquetError) -> Error {
        let source = match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => *source,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        };
        Error::write(path, source)
    }

    /// Contradictory bytes in `path`.
    pub(crate) fn corrupt(path: &Path, reason: impl ToString) -> Error {
        Error::Corrupt { path: path.to_path_buf(), reason: reason.to_string() }
    }

    /// A Parquet file that is not a recording.
    pub(crate) fn not_recording(path: &Path, reason: impl ToString) -> Error {
        Error::NotRecording { path: path.to_path_buf(), reason: reason.to_string() }
    }
}
