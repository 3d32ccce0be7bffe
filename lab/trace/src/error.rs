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
    #[error("cannot write {}: {source}; choose another place for it", path.display())]
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
    #[error("{} is not a Parquet file; give one that `freehold record` or `freehold snapshot` wrote", path.display())]
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
    #[error("{} has format {found}, and this program reads formats up to {supported}; use a freehold of the version that wrote it", path.display())]
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
    /// It is packed in a way that this program does not read.
    #[error(
        "{} packs its column `{column}` with {packing}, which this program does not read; write it again with {instead}, \
         as FORMAT.md says under Columns", path.display()
    )]
    Packing {
        /// Path of the file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// The codec, or the encoding.
        packing: String,
        /// What could be used in its place.
        instead: &'static str,
    },
    /// What it says of its machine, or of all its rows together, can be true of none.
    #[error("{} cannot be a recording: {reason}; {}", path.display(), origin.advice(section))]
    Impossible {
        /// Path of the file.
        path: PathBuf,
        /// What cannot be, as a clause.
        reason: String,
        /// Section of `FORMAT.md` that says how it must be.
        section: &'static str,
        /// Who wrote it.
        origin: Origin,
    },
    /// It is a snapshot, and events are wanted.
    #[error(
        "{} is a snapshot, which has no events to work with: look at it with `freehold inspect`, or make a recording \
         with `freehold record`",
        path.display()
    )]
    Snapshot {
        /// Path of the file.
        path: PathBuf,
    },
    /// A row that no recording may hold.
    #[error("row {row} of {} {fault}; {}", path.display(), origin.advice(fault.section()))]
    Row {
        /// Path of the file.
        path: PathBuf,
        /// Index of the row, counted from 0.
        row: u64,
        /// What is wrong with that row.
        fault: Fault,
        /// Who wrote it.
        origin: Origin,
    },
}

/// Which program wrote a file, as the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This one, or an older one of its kind.
    Ours,
    /// Another one, of this name.
    Foreign(String),
    /// It does not say.
    Unsaid,
}

impl Origin {
    /// The program that a Parquet file names as its creator.
    pub(crate) fn from_creator(creator: Option<&str>, ours: &str) -> Origin {
        match creator {
            Some(creator) if creator.starts_with(ours) => Origin::Ours,
            Some(creator) => Origin::Foreign(creator.chars().take(80).collect()),
            None => Origin::Unsaid,
        }
    }

    /// What to do about a file that breaks what `FORMAT.md` says in a section.
    fn advice(&self, section: &str) -> String {
        match self {
            Origin::Ours => "record again".to_owned(),
            Origin::Foreign(creator) => {
                format!("it was written by {creator}, and FORMAT.md says under {section} how it must be")
            }
            Origin::Unsaid => {
                format!("correct the program that wrote it: FORMAT.md says under {section} how it must be")
            }
        }
    }
}

/// What can be wrong with one row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The row's kind has a code that this crate does not know.
    #[error("is of the unknown kind {code}, which a newer freehold may know")]
    UnknownKind {
        /// The code in the `kind` column.
        code: i32,
    },
    /// An event is older than the one before it.
    #[error("is out of order: its time {time} ns is before {previous} ns of the event above")]
    OutOfOrder {
        /// Time of the row, in nanoseconds.
        time: u64,
        /// Time of the event before it, in nanoseconds.
        previous: u64,
    },
    /// A row of one section after a row of a later one.
    #[error("is out of order: rows of the start state come first, then events, then rows of the end state")]
    OutOfSection,
    /// A value that no machine, or not this one, can have.
    #[error("is out of range: its `{column}` is {value}, and must be {bounds}")]
    OutOfRange {
        /// Name of the column in question.
        column: &'static str,
        /// Value of the column in the row.
        value: i64,
        /// Values that would be allowed, as a phrase.
        bounds: String,
    },
    /// An event after the end of the recording.
    #[error("happened at {time} ns, after the end of the recording: its facts say a `duration` of {end} ns")]
    AfterEnd {
        /// Time of the row, in nanoseconds.
        time: u64,
        /// Length of the recording, in nanoseconds.
        end: u64,
    },
    /// Pages that are in no zone, and in no RAM.
    #[error("names {pages} pages from frame {pfn} (`pfn`) on, which its facts have in no zone and in no RAM")]
    NoMemory {
        /// First frame of the block, or of the run of blocks.
        pfn: u64,
        /// Pages of it.
        pages: u64,
    },
    /// A frame of the start state that another row of the start state names too.
    #[error("names frame {pfn} (`pfn`), and so does a row above: the start state has each frame once")]
    NamedTwice {
        /// The frame.
        pfn: u64,
    },
    /// A free block that does not begin where one of its order can.
    #[error(
        "names a free block at frame {pfn} (`pfn`), where none of order {order} begins: blocks lie at multiples of their size"
    )]
    Unaligned {
        /// First frame of the block.
        pfn: u64,
        /// Its order.
        order: u8,
    },
}

impl Fault {
    /// The section of `FORMAT.md` that says how it must be.
    fn section(&self) -> &'static str {
        match self {
            Fault::UnknownKind { .. } => "Kinds of events",
            Fault::OutOfOrder { .. } | Fault::OutOfSection => "Order of rows",
            Fault::OutOfRange { .. } => "Columns",
            Fault::AfterEnd { .. } | Fault::NoMemory { .. } => "What cannot be",
            Fault::NamedTwice { .. } | Fault::Unaligned { .. } => "Kinds of state rows",
        }
    }
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
