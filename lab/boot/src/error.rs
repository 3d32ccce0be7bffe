//! Everything that can keep a kernel from being booted and recorded, as one sentence each.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that a boot needs is not on this machine; the sentence says how to get it.
    #[error("{0}")]
    Missing(String),

    /// What was asked for makes no sense; the sentence says what would.
    #[error("{0}")]
    Input(String),

    /// The guest was booted, and did not do what was asked.
    #[error("{0}")]
    Guest(String),

    /// Interrupted before there was anything to keep.
    #[error("interrupted; the guest was stopped, and nothing was recorded")]
    Interrupted,

    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb: `read`, `write`, `create`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A program could not be started, or ended badly.
    #[error("`{command}` {outcome}")]
    Command {
        /// The command line, for people.
        command: String,
        /// How it ended, as the rest of a sentence.
        outcome: String,
    },
}

/// Turns an I/O error about `path` into ours; for `map_err`.
pub(crate) fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
