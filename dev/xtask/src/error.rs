//! What can go wrong in a task, as one sentence and an exit code.
//!
//! Exit code 2 means "you asked for something that does not exist"; exit code 1 means "the thing was tried, and it
//! failed".

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What can go wrong in any task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request makes no sense. The sentence says what would.
    #[error("{0}")]
    Usage(String),
    /// The task ran and its outcome is bad.
    #[error("{0}")]
    Failed(String),
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
    /// A program could not be started or ended badly.
    #[error("`{command}` {outcome}")]
    Command {
        /// The command line, for people.
        command: String,
        /// How it ended, as the rest of a sentence.
        outcome: String,
    },
}

impl Error {
    /// The code with which the process ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) => ExitCode::from(2),
            Error::Failed(_) | Error::File { .. } | Error::Command { .. } => ExitCode::from(1),
        }
    }
}

/// Turns an I/O error about `path` into ours; for `map_err`.
pub(crate) fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
