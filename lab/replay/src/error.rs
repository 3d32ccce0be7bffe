//! Errors of replays and of advice.

/// Error of a replay or of advice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine cannot represent the recorded machine. The message is a complete sentence.
    #[error("{0}")]
    Machine(String),

    /// A setting cannot be changed on this recording or under this policy. The message is a complete sentence.
    #[error("{0}")]
    Setting(String),

    /// The recordings are not suited for advice. The message is a complete sentence.
    #[error("{0}")]
    Advice(String),

    /// The recording could not be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::Error),
}
