//! Why a file could not be taken in, or not be written, each in one sentence.

use std::io;
use std::path::{Path, PathBuf};

use freehold_report::output::OutputError;

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

    /// The file is nothing that could be taken in.
    #[error(
        "{path} is {what}; it is no perf.data, no trace.dat of trace-cmd, no text of `perf script` or trace_pipe, and \
         so nothing that can be imported",
        path = path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        what: String,
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
        "{path} has no event {event}, and a recording needs kmem:mm_page_alloc and kmem:mm_page_free; record these two \
         at least (better all of kmem)",
        path = path.display()
    )]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The event.
        event: &'static str,
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
    /// For `map_err`: the file cannot be read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Read { path, source }
    }
}
