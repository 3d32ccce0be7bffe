//! Reasons why a recording cannot be played.

use std::io;
use std::path::PathBuf;

/// A reason why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] freehold_trace::Error),
    /// A bundled recording cannot be unpacked.
    #[error("cannot unpack {name} into memory: {source}")]
    Unpack {
        /// Name of the recording.
        name: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// No task of the recording has one of the names that the plan gives.
    #[error("the recording has no task {}; its tasks are {}", wanted.join(" or "), present.join(", "))]
    UnknownTask {
        /// Names that the plan gives.
        wanted: Vec<String>,
        /// Names of the recorded tasks.
        present: Vec<String>,
    },
    /// The recording is shorter than the part that a run would play.
    #[error(
        "{path} lasts {recorded_ms} ms, and a run at {pace_percent} % of its pace would play {played_ms} ms; make \
         the run shorter, or its pace slower",
        path = path.display()
    )]
    TooShort {
        /// The recording.
        path: PathBuf,
        /// Its length in milliseconds.
        recorded_ms: u64,
        /// Pace at which it is played.
        pace_percent: u64,
        /// Length of the part that would be played, in milliseconds.
        played_ms: u64,
    },
}
