//! The options `--reclaim` and `--pace`, shared by the commands that replay a recording.

use clap::Args;
use freehold_replay::{Pacing, ReclaimMode};

/// Source of reclaim and compaction in a replay, and times of its events.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ReclaimArgs {
    /// Source of reclaim and compaction in the replay
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub reclaim: ReclaimMode,

    /// Times of the replayed events
    #[arg(long = "pace", value_name = "PACE", value_enum, default_value_t)]
    pub pacing: Pacing,
}
