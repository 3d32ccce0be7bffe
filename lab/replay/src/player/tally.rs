//! What a replay had to count.

/// What could not be played as it stands, by reason, and what was found on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that the engine refused, recorded failures among them.
    pub failed: u64,
    /// Recorded failures among them.
    pub failed_in_both: u64,
    /// Recorded successes served below the watermark, where only reclaim could have helped.
    pub below_watermark: u64,
    /// Recorded failures that the engine could serve.
    pub failures_served: u64,
    /// Recorded successes made up of single pages.
    pub made_up: u64,
    /// Blocks that left the free lists for that.
    pub made_up_blocks: u64,
    /// Pages for which not even a single page could be had.
    pub unbacked: u64,
    /// Frees of blocks that were allocated on another CPU, while the recording ran.
    pub cross_cpu_frees: u64,
    /// Allocations without an event, placed by rule.
    pub silent_allocs: u64,
    /// Frees without an event, shown by a later allocation of the same frame.
    pub silent_frees: u64,
    /// Events on frames that nothing stands on: in no zone of the recording, or pages that could not be backed.
    pub outside: u64,
    /// Frees of frames that became memory while the recording ran.
    pub appeared: u64,
    /// Frees that the engine refused.
    pub refused_frees: u64,
    /// Drains that reclaim or compaction asked for: each empties a CPU's lists, or all of them.
    pub drains_asked_for: u64,
    /// Blocks that were freed in parts.
    pub splits: u64,
    /// Pages that were freed together, and went to per-CPU lists.
    pub together_listed: u64,
    /// Requests for a huge page that the engine served.
    pub huge_served: u64,
    /// Single pages that were found in a huge page which the recorded kernel could not serve.
    pub found_in_huge: u64,
    /// Recorded failures that repeat a request for a huge page which was served.
    pub not_repeated: u64,
    /// Requests of tasks that had been refused a larger block in the recording, which the engine served.
    pub not_retried: u64,
    /// Pages that the recorded kernel reclaimed although they were on no LRU list; freed as recorded.
    pub reclaimed_as_recorded: u64,
    /// Frees by the workload of pages that the engine had reclaimed before.
    pub freed_after_reclaim: u64,
    /// Pages that the engine reclaimed, the recorded kernel never.
    pub taken_early: u64,
    /// Blocks that the recorded kernel moved, the recording does not say where to.
    pub lost_moves: u64,
    /// Requests with flags that contradict each other, or of an order above 10.
    pub impossible: u64,
}
