//! Why a sweep could not be carried out.

use std::io;
use std::path::{Path, PathBuf};

use freehold_report::output::OutputError;
use freehold_sim::plan::error::{OpenError, PlanError};

/// A file or a folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct ReadError {
    /// The file as it was named.
    path: PathBuf,
    /// The error of the system.
    source: io::Error,
}

impl ReadError {
    pub(crate) fn new(path: &Path, source: io::Error) -> ReadError {
        ReadError { path: path.to_path_buf(), source }
    }
}

/// What went wrong with all of a sweep; what goes wrong with one recording is a [`Failure`](crate::Failure).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no plan to read.
    #[error("cannot read the plan {}: {source}; name a file that can be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),

    /// The plan of the simulation that it names is none, or is wrong.
    #[error(transparent)]
    Simulated(#[from] OpenError),

    /// The folder holds something else, or what it holds is damaged; the sentence is complete.
    #[error("{0}")]
    Folder(String),

    /// What was given cannot be worked with; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// Something in the folder could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),

    /// A result could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),

    /// There is too little memory for so many simulations at a time.
    #[error("{0}; do fewer at a time with --jobs")]
    Room(freehold_report::room::TooLittle),
}

/// Why one task, or all tasks of one recording, cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// It cannot be replayed.
    #[error(transparent)]
    Replay(#[from] freehold_replay::Error),

    /// There is no such policy for its kernel.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A simulated run broke down.
    #[error(transparent)]
    Run(#[from] freehold_sim::run::RunError),

    /// A simulated host cannot be drawn.
    #[error(transparent)]
    Host(#[from] OpenError),

    /// The recording's file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),

    /// It is a folder, a pipe or a device.
    #[error("{} is no regular file; copy the recording into one", .0.display())]
    NoFile(PathBuf),

    /// The plan has no such task for this recording.
    #[error("the plan has no task {0} for this; list its tasks again with the same version of freehold")]
    NoTask(String),

    /// The engine gave up: a mistake of Freehold's.
    #[error("the engine gave up on it ({0}); please report this, with the recording")]
    Panic(String),
}
