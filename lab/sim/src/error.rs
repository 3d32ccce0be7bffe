//! Errors of simulations, fleets and calibrations, one sentence each.

/// Reason why a simulation, a fleet or a calibration failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be simulated; the string is a complete sentence.
    #[error("{0}")]
    Input(String),

    /// Unknown policy name.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A recording could not be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::Error),

    /// The plan is invalid or could not be read.
    #[error(transparent)]
    Plan(#[from] crate::plan::error::OpenError),

    /// A simulated run failed.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),

    /// This process may not run on the requested CPU.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),

    /// The state of a fleet could not be written.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),
}
