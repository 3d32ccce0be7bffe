//! Errors of sweeps and of reports on their results, one sentence each.

use std::io;
use std::path::{Path, PathBuf};

use freehold_report::output::OutputError;
use freehold_sim::plan::error::{OpenError, PlanError};

/// A file or a folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct ReadError {
    /// Path as it was given.
    path: PathBuf,
    /// Error of the system.
    source: io::Error,
}

impl ReadError {
    pub(crate) fn new(path: &Path, source: io::Error) -> ReadError {
        ReadError { path: path.to_path_buf(), source }
    }
}

/// An error that stops a whole sweep. An error of one recording is a [`Failure`](crate::Failure).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan cannot be read.
    #[error("cannot read the plan {}: {source}; name a file that can be read", path.display())]
    Unreadable {
        /// Path of the plan.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// The plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),

    /// The plan of the simulation is missing or invalid.
    #[error(transparent)]
    Simulated(#[from] OpenError),

    /// The folder contains something else, or its contents are damaged; the sentence is complete.
    #[error("{0}")]
    Folder(String),

    /// The input cannot be processed; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// A file in the folder could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),

    /// A result could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),

    /// There is too little memory for the number of concurrent simulations.
    #[error("{0}; run fewer simulations at a time with --jobs")]
    Room(freehold_report::room::TooLittle),
}

/// An error of one task, or of all tasks of one recording.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// The recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] freehold_replay::Error),

    /// The policy does not exist for the recorded kernel.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A simulated run failed.
    #[error(transparent)]
    Run(#[from] freehold_sim::run::RunError),

    /// A simulated host cannot be drawn.
    #[error(transparent)]
    Host(#[from] OpenError),

    /// The file of the recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),

    /// The path is a folder, a pipe or a device.
    #[error("{} is not a regular file; copy the recording into one", .0.display())]
    NoFile(PathBuf),

    /// The plan has no such task for this recording.
    #[error("the plan has no task {0} for this recording; list its tasks again with the same version of freehold")]
    NoTask(String),

    /// The engine panicked, which is a defect of Freehold.
    #[error("the engine panicked ({0}); please report this, with the recording")]
    Panic(String),
}
