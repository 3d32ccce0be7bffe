//! Errors of this program. The text of an error is one sentence that explains how to correct it.

/// Reason for which a page was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The requested page cannot be written; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// A simulation failed.
    #[error(transparent)]
    Sim(#[from] freehold_sim::Error),

    /// A benchmark failed.
    #[error(transparent)]
    Bench(#[from] freehold_bench::Error),

    /// A policy does not exist.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// The process could not be pinned to a CPU.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),

    /// A page could not be written.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),
}
