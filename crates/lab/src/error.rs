//! Every way in which a command can fail.
//!
//! The text of an error is one sentence that says what to do. Whatever it is (bad input, a full disk, no
//! permission), the command was not carried out, and the exit status is [`EXIT_STATUS`], as for bad usage.

use std::io;
use std::path::PathBuf;

/// The process's exit status when the command could not be carried out.
pub const EXIT_STATUS: u8 = 2;

/// A command's failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the user gave cannot be worked with; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// A policy's name is not one.
    #[error(transparent)]
    Policy(#[from] crate::registry::PolicyError),

    /// A recording could not be read, or not be written.
    #[error(transparent)]
    Recording(#[from] freehold_trace::Error),

    /// The recorded kernel is not known.
    #[error(
        "{path} was recorded on the kernel `{release}`, which is no Linux that this program knows (5.0 to 7.x); \
         use a newer freehold, or correct `kernel_release` in the file's facts",
        path = path.display()
    )]
    UnknownKernel {
        /// The recording.
        path: PathBuf,
        /// Its kernel.
        release: String,
    },

    /// This machine could not be recorded.
    #[error(transparent)]
    Capture(#[from] crate::capture::CaptureError),

    /// This program's machine code could not be shown.
    #[error(transparent)]
    Code(#[from] crate::disasm::CodeError),

    /// A file could not be written; nothing was left under its name.
    #[error("cannot write {path}: {source}; name a place that exists and has room", path = path.display())]
    Write {
        /// The file as the user named it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Stdout could not be written.
    #[error("cannot write to stdout: {0}; send the output somewhere else")]
    Stdout(io::Error),
}

impl Error {
    /// Whether the reader of our output simply went away (`freehold inspect x | head`): no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
