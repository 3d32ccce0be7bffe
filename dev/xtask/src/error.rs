//! Errors of a task: a sentence and an exit code.
//!
//! Exit code 2 means that the request names something that does not exist. Exit code 1 means that the task ran and
//! failed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Error of any task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request makes no sense. The sentence names valid ones.
    #[error("{0}")]
    Usage(String),
    /// The task ran and its outcome is bad.
    #[error("{0}")]
    Failed(String),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Verb of the failed action: `read`, `write`, `create`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A program could not be started, or it failed.
    #[error("`{command}` {outcome}")]
    Command {
        /// Command line, for people.
        command: String,
        /// Outcome of the command, as the rest of a sentence.
        outcome: String,
    },
}

impl Error {
    /// Returns the exit code of the process for this error.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) => ExitCode::from(2),
            Error::Failed(_) | Error::File { .. } | Error::Command { .. } => ExitCode::from(1),
        }
    }
}

/// Returns a function that turns an I/O error about `path` into an [`Error::File`], for `map_err`.
pub(crate) fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
