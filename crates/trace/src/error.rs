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
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be created or written. No partial file remains.
    #[error("cannot write {}: {source}; choose another place for the recording", path.display())]
    Write {
        /// The file that was to be made.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk is full. No partial file remains.
    #[error("the disk is full, so {} was not written; free some space or choose another place", path.display())]
    DiskFull {
        /// The file that was to be made.
        path: PathBuf,
    },
    /// Not a Parquet file at all.
    #[error("{} is not a Parquet file; give a recording made by `freehold record`", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet file, but not of this schema.
    #[error("{} is not a recording: {reason}; FORMAT.md says what a recording must hold", path.display())]
    NotRecording {
        /// The file.
        path: PathBuf,
        /// What is missing or different.
        reason: String,
    },
    /// The file ends too early.
    #[error("{} is cut short; copy it again, or record again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer program.
    #[error("{} has format {found}, and this program reads format {supported}; use a freehold of the version that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The format the file claims.
        found: u64,
        /// The format this crate knows.
        supported: u32,
    },
    /// The bytes contradict themselves.
    #[error("{} is damaged: {reason}; copy it again, or record again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        reason: String,
    },
    /// A row that no recording may hold.
    #[error("row {row} of {} {fault}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Index of the row, counted from 0.
        row: u64,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with one row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No such kind is known.
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
        /// Time of the row.
        time: u64,
        /// Time of the event before it.
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
        /// Name of the column.
        column: &'static str,
        /// Its value.
        value: i64,
        /// What would be allowed.
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
