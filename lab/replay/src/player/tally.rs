//! What a replay had to count.

/// What could not be played as it stands, by reason, and what was found on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Requests that the engine refused, recorded failures among them.
    pub(crate) failed: u64,
    /// Recorded failures among them.
    pub(crate) failed_in_both: u64,
    /// Recorded successes served below the watermark, where only reclaim could have helped.
    pub(crate) below_watermark: u64,
    /// Recorded failures that the engine could serve.
    pub(crate) failures_served: u64,
    /// Recorded successes made up of single pages.
    pub(crate) made_up: u64,
    /// Blocks that left the free lists for that.
    pub(crate) made_up_blocks: u64,
    /// Pages for which not even a single page could be had.
    pub(crate) unbacked: u64,
    /// Frees of blocks that were allocated on another CPU, while the recording ran.
    pub(crate) cross_cpu_frees: u64,
    /// Allocations without an event, placed by rule.
    pub(crate) silent_allocs: u64,
    /// Frees without an event, shown by a later allocation of the same frame.
    pub(crate) silent_frees: u64,
    /// Events on frames that nothing stands on: in no zone of the recording, or pages that could not be backed.
    pub(crate) outside: u64,
    /// Frees of frames that became memory while the recording ran.
    pub(crate) appeared: u64,
    /// Frees that the engine refused.
    pub(crate) refused_frees: u64,
    /// Drains that reclaim or compaction asked for: each empties a CPU's lists, or all of them.
    pub(crate) drains_asked_for: u64,
    /// Blocks that were freed in parts.
    pub(crate) splits: u64,
    /// Pages that were freed together, and went to per-CPU lists.
    pub(crate) together_listed: u64,
    /// Requests for a huge page that the engine served.
    pub(crate) huge_served: u64,
    /// Single pages that were found in a huge page which the recorded kernel could not serve.
    pub(crate) found_in_huge: u64,
    /// Recorded failures that repeat a request for a huge page which was served.
    pub(crate) not_repeated: u64,
    /// Requests of tasks that had been refused a larger block in the recording, which the engine served.
    pub(crate) not_retried: u64,
    /// Pages that the recorded kernel reclaimed although they were on no LRU list; freed as recorded.
    pub(crate) reclaimed_as_recorded: u64,
    /// Frees by the workload of pages that the engine had reclaimed before.
    pub(crate) freed_after_reclaim: u64,
    /// Pages that the engine reclaimed, the recorded kernel never.
    pub(crate) taken_early: u64,
    /// Blocks that the recorded kernel moved, the recording does not say where to.
    pub(crate) lost_moves: u64,
    /// Requests with flags that contradict each other, or of an order above 10.
    pub(crate) impossible: u64,
}
