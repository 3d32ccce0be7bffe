//! Why a file could not be taken in, or not be written, each in one sentence.

use std::io;
use std::path::{Path, PathBuf};

use freehold_report::number::count;
use freehold_report::output::OutputError;

use crate::drops::DropRow;

/// A failure; nothing was left that looks whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The file is of a kind that is not read.
    #[error("{path} cannot be imported: it is {what}; {instead}", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },

    /// The file has events, and what it says of the machine would be wrong.
    #[error("{path} cannot be imported: {reason}; {instead}", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong, as a clause.
        reason: String,
        /// What to do instead.
        instead: String,
    },

    /// Too many events of a kind cannot be used.
    #[error(
        "{path} cannot be imported: {dropped} of its {total} {event} cannot be used, {of_reason} of them because: \
         {reason}; the first is `{example}`",
        path = path.display(),
        dropped = count(*dropped),
        total = count(*total),
        event = most.event,
        of_reason = count(most.count),
        reason = most.reason,
        example = most.example
    )]
    Dropped {
        /// The file.
        path: PathBuf,
        /// Events that were dropped.
        dropped: u64,
        /// Events of this kind.
        total: u64,
        /// The most frequent reason, with its first example.
        most: Box<DropRow>,
    },

    /// The file is of a kind that is understood, and broken.
    #[error("{path} is a {format} that cannot be read: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it is.
        format: &'static str,
        /// What is wrong, as a clause.
        reason: String,
    },

    /// It has not the events that a recording is made of.
    #[error(
        "{path} has no event kmem:{event}{unread} (it has {others}), and a recording needs kmem:mm_page_alloc and \
         kmem:mm_page_free; record these two at least (better all of kmem)",
        path = path.display()
    )]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The event.
        event: &'static str,
        /// Parts of the file that are not read, as the rest of a clause.
        unread: String,
        /// What it has instead.
        others: String,
    },

    /// A file that describes the start or the machine is not what it should be.
    #[error("{path} {reason}", path = path.display())]
    Start {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, as the rest of a sentence.
        reason: String,
    },

    /// The machine cannot be as it was said to be.
    #[error("{0}")]
    Machine(String),

    /// What was read could not be kept until it is written.
    #[error(
        "cannot keep what was read in {folder} ({source}); free some space there, or write to another folder by --out",
        folder = folder.display()
    )]
    Spool {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A recording could not be read or written.
    #[error(transparent)]
    Trace(#[from] freehold_trace::Error),

    /// A recording of an unknown kernel, or none.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// An answer did not leave the program.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Error {
    /// A file with events that is refused for this reason.
    pub(crate) fn refused(path: &Path, reason: String, instead: &str) -> Error {
        Error::Refused { path: path.to_path_buf(), reason, instead: instead.to_owned() }
    }

    /// For `map_err`: the file cannot be read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Read { path, source }
    }
}
