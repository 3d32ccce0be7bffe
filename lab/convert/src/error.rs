//! Errors of imports and exports, each worded as one sentence.

use std::io;
use std::path::{Path, PathBuf};

use freehold_report::number::count;
use freehold_report::output::OutputError;

use crate::drops::DropRow;

/// Error of an import or an export. No incomplete output remains.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The file has a format that is not supported.
    #[error("cannot import {path}: the file is {what}; {instead}", path = path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        what: &'static str,
        /// Suggested action.
        instead: &'static str,
    },

    /// The file has events, but a recording made from them would be wrong.
    #[error("cannot import {path}: {reason}; {instead}", path = path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// Reason, as a clause.
        reason: String,
        /// Suggested action.
        instead: String,
    },

    /// Too many events of a kind cannot be used.
    #[error(
        "cannot import {path}: {dropped} of its {total} {event} cannot be used; most frequent reason ({of_reason}): \
         {reason}; first example: `{example}`",
        path = path.display(),
        dropped = count(*dropped),
        total = count(*total),
        event = most.event,
        of_reason = count(most.count),
        reason = most.reason,
        example = most.example
    )]
    Dropped {
        /// Path of the file.
        path: PathBuf,
        /// Number of events that were dropped.
        dropped: u64,
        /// Number of events of this kind.
        total: u64,
        /// The most frequent reason, with its first example.
        most: Box<DropRow>,
    },

    /// The file has a supported format, but is damaged.
    #[error("cannot read {path} as {format}: {reason}", path = path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        format: &'static str,
        /// Damage, as a clause.
        reason: String,
    },

    /// The file lacks events that a recording needs.
    #[error(
        "{path} has no event kmem:{event}{unread} (it has {others}), but a recording needs kmem:mm_page_alloc and \
         kmem:mm_page_free; record these two at least, or better all events of kmem",
        path = path.display()
    )]
    Lacks {
        /// Path of the file.
        path: PathBuf,
        /// Name of the missing event.
        event: &'static str,
        /// Parts of the file that are not read, as the rest of a clause.
        unread: String,
        /// Events of the file.
        others: String,
    },

    /// A file that describes the start state or the machine is not valid.
    #[error("{path} {reason}", path = path.display())]
    Start {
        /// Path of the file.
        path: PathBuf,
        /// Problem, as the rest of a sentence.
        reason: String,
    },

    /// The stated machine is not possible.
    #[error("{0}")]
    Machine(String),

    /// The rows that were read could not be stored until they are written.
    #[error(
        "cannot store the events in {folder} ({source}); free some space there, or write to another folder with --out",
        folder = folder.display()
    )]
    Spool {
        /// Folder of the temporary file.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A recording could not be read or written.
    #[error(transparent)]
    Trace(#[from] freehold_trace::Error),

    /// The file is not a recording, or its kernel is unknown.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// The result could not be output.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Error {
    /// Returns the error that a file with events is refused for this reason.
    pub(crate) fn refused(path: &Path, reason: String, instead: &str) -> Error {
        Error::Refused { path: path.to_path_buf(), reason, instead: instead.to_owned() }
    }

    /// Returns a function for `map_err` that creates [`Error::Read`].
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Read { path, source }
    }
}
