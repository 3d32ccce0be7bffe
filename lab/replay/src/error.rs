//! Why a recording could not be replayed.

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is of a machine that the engine cannot hold; the sentence is complete.
    #[error("{0}")]
    Machine(String),

    /// It cannot carry advice; the sentence is complete.
    #[error("{0}")]
    Advice(String),

    /// It could not be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::Error),
}
