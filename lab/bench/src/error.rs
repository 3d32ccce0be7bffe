//! Errors that stop a benchmark.

/// Reason for which a benchmark cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be carried out here; the text is a complete sentence.
    #[error("{0}")]
    Input(String),

    /// The name of a policy is invalid.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// This process may not run on the requested CPU.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),
}
