//! Every way in which a command can fail.
//!
//! The text of an error is one sentence that says what to do. Whatever it is (bad input, a full disk, no
//! permission), the command was not carried out, and the exit status is 2, as for bad usage. There is one exception: a
//! measurement that was carried out, and contradicts what is known.

use std::io;
use std::path::PathBuf;

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

    /// A plan cannot be simulated as it stands.
    #[error(transparent)]
    Plan(#[from] crate::sim::plan::error::OpenError),

    /// A simulated run broke down.
    #[error(transparent)]
    Run(#[from] crate::sim::run::RunError),

    /// The harness was given a difference that is known, and said otherwise.
    #[error(
        "the harness was wrong about {case}, where the truth is known; measure again on a quieter machine, and trust no \
         benchmark on this one until it is right"
    )]
    WrongVerdict {
        /// The case.
        case: &'static str,
    },

    /// Simulation and threads were held against each other, and do not agree.
    #[error(
        "simulation and threads agree in {agreeing} of {all} cases; calibrate and check again on a quieter machine, or \
         trust simulated times as far as the table above goes"
    )]
    Disagreement {
        /// Cases in which they do.
        agreeing: usize,
        /// All cases.
        all: usize,
    },

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
    /// The process's exit status.
    pub fn exit_status(&self) -> u8 {
        match self {
            Error::WrongVerdict { .. } | Error::Disagreement { .. } => 1,
            _ => 2,
        }
    }

    /// Whether the reader of our output simply went away (`freehold inspect x | head`): no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_verdict_is_told_from_a_command_that_was_not_carried_out() {
        assert_eq!(Error::WrongVerdict { case: "same" }.exit_status(), 1);
        assert_eq!(Error::Input("no".to_owned()).exit_status(), 2);
    }
}
