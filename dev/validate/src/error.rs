//! Errors of this program, each with a message of one sentence.

/// Error of this program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A kernel could not be booted, or could not be recorded.
    #[error(transparent)]
    Boot(#[from] freehold_boot::Error),

    /// A recording could not be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// A recording could not be replayed.
    #[error(transparent)]
    Replay(#[from] freehold_replay::Error),

    /// A policy does not exist.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A page could not be written.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),

    /// The request makes no sense.
    #[error("{0}")]
    Input(String),
}
