//! Why something could not be simulated.

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be done so; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// A policy's name is not one.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A recording could not be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::Error),

    /// A plan cannot be simulated as it stands.
    #[error(transparent)]
    Plan(#[from] crate::plan::error::OpenError),

    /// A simulated run broke down.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),

    /// This process may not run on the CPU that was asked for.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),

    /// The state of a fleet could not be written.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),
}
