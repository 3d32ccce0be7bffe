//! Every way in which a page is not written. The text of an error is one sentence that says what to do.

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// What was asked for cannot be written; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// Something could not be simulated.
    #[error(transparent)]
    Sim(#[from] freehold_sim::Error),

    /// A benchmark could not be carried out.
    #[error(transparent)]
    Bench(#[from] freehold_bench::Error),

    /// There is no such policy.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// This process may not run on a CPU of its own.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),

    /// A page could not be written.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),
}
