//! Errors that prevent a kernel from being booted and recorded, one sentence each.

use std::io;
use std::path::{Path, PathBuf};

/// Reason for a failed boot.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A prerequisite of a boot is not on this machine; the sentence states how to get it.
    #[error("{0}")]
    Missing(String),

    /// The input is invalid; the sentence states valid input.
    #[error("{0}")]
    Input(String),

    /// The guest was booted, but did not do what was requested.
    #[error("{0}")]
    Guest(String),

    /// The boot was interrupted before there was anything to keep.
    #[error("interrupted; the guest was stopped and nothing was recorded")]
    Interrupted,

    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Attempted action, as a verb: `read`, `write`, `create`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// A program could not be started, or failed.
    #[error("`{command}` {outcome}")]
    Command {
        /// Command line, for people.
        command: String,
        /// End of the program, as the rest of a sentence.
        outcome: String,
    },
}

/// Returns a function that converts an I/O error about `path` into an [`Error`], for `map_err`.
pub(crate) fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
