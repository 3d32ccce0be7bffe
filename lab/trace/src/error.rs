//! Errors about recordings, worded for the user of the file.
//!
//! Every error names the file and gives advice. An error about a single row has a [`Fault`], so that callers can
//! distinguish an old reader from a damaged file without parsing text.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// Error of reading or writing a recording.
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
    #[error("cannot write {}: {source}; choose another path", path.display())]
    Write {
        /// Path of the file to create.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk is full. No partial file remains.
    #[error("cannot write {}: the disk is full; free some space, or choose another path", path.display())]
    DiskFull {
        /// Path of the file to create.
        path: PathBuf,
    },
    /// The file is not a Parquet file.
    #[error("{} is not a Parquet file; give a file of `freehold record` or `freehold snapshot`", path.display())]
    NotParquet {
        /// Path of the file.
        path: PathBuf,
    },
    /// A Parquet file of another schema.
    #[error("{} is not a recording: {reason}; see FORMAT.md for the contents of a recording", path.display())]
    NotRecording {
        /// Path of the file.
        path: PathBuf,
        /// Missing or different part, as a phrase.
        reason: String,
    },
    /// The file ends before its footer does.
    #[error("{} ends too early; copy the file again, or record again", path.display())]
    Truncated {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was written by a newer program.
    #[error(
        "{} has format version {found}, but this program reads versions up to {supported}; use the version of \
         freehold that wrote the file",
        path.display()
    )]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Format number that the file claims.
        found: u64,
        /// Highest format number that this crate supports.
        supported: u32,
    },
    /// The bytes of the file contradict each other.
    #[error("{} is damaged: {reason}; copy the file again, or record again", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// The contradiction, as a phrase.
        reason: String,
    },
    /// A column has a codec or encoding that this program does not read.
    #[error(
        "{}: the column `{column}` has {packing}, which this program does not read; write the file again with \
         {instead} (see Columns in FORMAT.md)",
        path.display()
    )]
    Packing {
        /// Path of the file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// Codec or encoding.
        packing: String,
        /// Codecs or encodings to use instead.
        instead: &'static str,
    },
    /// The facts, or all rows together, cannot be those of any machine.
    #[error("{} is not a valid recording: {reason}; {}", path.display(), origin.advice(section))]
    Impossible {
        /// Path of the file.
        path: PathBuf,
        /// Contradiction, as a clause.
        reason: String,
        /// Section of `FORMAT.md` with the rule.
        section: &'static str,
        /// Program that wrote the file.
        origin: Origin,
    },
    /// The file is a snapshot, but the operation needs events.
    #[error(
        "{} is a snapshot, which has no events; print its contents with `freehold inspect`, or make a recording with \
         `freehold record`",
        path.display()
    )]
    Snapshot {
        /// Path of the file.
        path: PathBuf,
    },
    /// A row that no recording may contain.
    #[error("row {row} of {} {fault}; {}", path.display(), origin.advice(fault.section()))]
    Row {
        /// Path of the file.
        path: PathBuf,
        /// Index of the row, counted from 0.
        row: u64,
        /// Fault of the row.
        fault: Fault,
        /// Program that wrote the file.
        origin: Origin,
    },
}

/// Program that wrote a file, according to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This program, in this version or an older one.
    Ours,
    /// Another program, of this name.
    Foreign(String),
    /// The file does not name its writer.
    Unsaid,
}

impl Origin {
    /// Returns the origin, given the creator that a Parquet file names.
    pub(crate) fn from_creator(creator: Option<&str>, ours: &str) -> Origin {
        match creator {
            Some(creator) if creator.starts_with(ours) => Origin::Ours,
            Some(creator) => Origin::Foreign(creator.chars().take(80).collect()),
            None => Origin::Unsaid,
        }
    }

    /// Returns advice about a file that breaks a rule in this section of `FORMAT.md`.
    fn advice(&self, section: &str) -> String {
        match self {
            Origin::Ours => "record again".to_owned(),
            Origin::Foreign(creator) => {
                format!("the file was written by {creator}, which must follow {section} in FORMAT.md")
            }
            Origin::Unsaid => {
                format!("the program that wrote the file must follow {section} in FORMAT.md")
            }
        }
    }
}

/// Fault of one row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The row's kind has a code that this crate does not know.
    #[error("has the unknown kind {code}, which a newer version of freehold may support")]
    UnknownKind {
        /// Code in the `kind` column.
        code: i32,
    },
    /// An event that is older than the one before it.
    #[error("is out of order: its time {time} ns is before {previous} ns of the previous event")]
    OutOfOrder {
        /// Time of the row, in nanoseconds.
        time: u64,
        /// Time of the event before it, in nanoseconds.
        previous: u64,
    },
    /// A row of one section after a row of a later section.
    #[error("is out of order: rows of the start state must be first, then events, then rows of the end state")]
    OutOfSection,
    /// A value that no machine, or not this machine, can have.
    #[error("is out of range: `{column}` is {value}, but must be {bounds}")]
    OutOfRange {
        /// Name of the column.
        column: &'static str,
        /// Value of the column in the row.
        value: i64,
        /// Allowed values, as a phrase.
        bounds: String,
    },
    /// An event after the end of the recording.
    #[error("has the time {time} ns, after the end of the recording (`duration` in the facts: {end} ns)")]
    AfterEnd {
        /// Time of the row, in nanoseconds.
        time: u64,
        /// Length of the recording, in nanoseconds.
        end: u64,
    },
    /// Pages that are in no zone and in no RAM.
    #[error("has {pages} pages from frame {pfn} (`pfn`) on, which are in no zone and in no RAM of the facts")]
    NoMemory {
        /// First frame of the block, or of the run of blocks.
        pfn: u64,
        /// Number of pages.
        pages: u64,
    },
    /// A frame of the start state that another row of the start state also names.
    #[error("repeats frame {pfn} (`pfn`) of an earlier row, but the start state must have each frame once")]
    NamedTwice {
        /// The frame.
        pfn: u64,
    },
    /// A free block that is not aligned to its size.
    #[error("has a free block at frame {pfn} (`pfn`), which is not a multiple of the size of order {order}")]
    Unaligned {
        /// First frame of the block.
        pfn: u64,
        /// Order of the block.
        order: u8,
    },
}

impl Fault {
    /// Returns the section of `FORMAT.md` with the rule.
    fn section(&self) -> &'static str {
        match self {
            Fault::UnknownKind { .. } => "Kinds of events",
            Fault::OutOfOrder { .. } | Fault::OutOfSection => "Order of rows",
            Fault::OutOfRange { .. } => "Columns",
            Fault::AfterEnd { .. } | Fault::NoMemory { .. } => "Consistency rules",
            Fault::NamedTwice { .. } | Fault::Unaligned { .. } => "Kinds of state rows",
        }
    }
}

impl Error {
    /// Returns the error of a failed read of `path`. An early end of the file is [`Error::Truncated`].
    pub(crate) fn read(path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::Truncated { path },
            _ => Error::Read { path, source },
        }
    }

    /// Returns the error of a failed write of `path`. A full disk or quota is [`Error::DiskFull`].
    pub(crate) fn write(path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path },
            _ => Error::Write { path, source },
        }
    }

    /// Returns the error of a failed write of `path`, given the error of the Parquet crate.
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

    /// Returns the error that bytes of `path` contradict each other.
    pub(crate) fn corrupt(path: &Path, reason: impl ToString) -> Error {
        Error::Corrupt { path: path.to_path_buf(), reason: reason.to_string() }
    }

    /// Returns the error that `path` is a Parquet file but not a recording.
    pub(crate) fn not_recording(path: &Path, reason: impl ToString) -> Error {
        Error::NotRecording { path: path.to_path_buf(), reason: reason.to_string() }
    }
}
