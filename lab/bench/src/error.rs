//! Why a benchmark could not be carried out.

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be done so here; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// A policy's name is not one.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// This process may not run on the CPU that was asked for.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),
}
