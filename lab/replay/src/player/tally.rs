//! Counters of a replay's events.

use freehold::base::{Gfp, Order};
use freehold_trace::mechanism::{MechanismCounts, RequestClass};

/// Events that could not be played exactly, by reason, and other counts of the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Requests that the engine refused, including recorded failures.
    pub(crate) failed: u64,
    /// Requests that both the recorded kernel and the engine refused.
    pub(crate) failed_in_both: u64,
    /// Recorded successes served below the watermark, where only reclaim could have helped.
    pub(crate) below_watermark: u64,
    /// Recorded failures that the engine could serve.
    pub(crate) failures_served: u64,
    /// Recorded successes made up of single pages.
    pub(crate) made_up: u64,
    /// Blocks that left the free lists to make up these successes.
    pub(crate) made_up_blocks: u64,
    /// Pages for which not even a single page could be allocated.
    pub(crate) unbacked: u64,
    /// Frees of blocks that were allocated on another CPU, while the recording ran.
    pub(crate) cross_cpu_frees: u64,
    /// Allocations without an event, placed by rule.
    pub(crate) silent_allocs: u64,
    /// Frees without an event, shown by a later allocation of the same frame.
    pub(crate) silent_frees: u64,
    /// Events on frames without a tenant: in no zone of the recording, or pages that could not be backed.
    pub(crate) outside: u64,
    /// Frees of frames that became memory while the recording ran.
    pub(crate) appeared: u64,
    /// Frees that the engine refused.
    pub(crate) refused_frees: u64,
    /// Drains requested by reclaim or compaction. Each drains the lists of one CPU or of all CPUs.
    pub(crate) drains_asked_for: u64,
    /// Blocks that were freed in parts.
    pub(crate) splits: u64,
    /// Pages that were freed together and went to per-CPU lists.
    pub(crate) together_listed: u64,
    /// Requests for a huge page that the engine served.
    pub(crate) huge_served: u64,
    /// Single pages taken from a huge page that the recorded kernel could not serve.
    pub(crate) found_in_huge: u64,
    /// Recorded failures that repeat a request for a huge page that was served.
    pub(crate) not_repeated: u64,
    /// Second requests for a huge page that the recording does not have.
    pub(crate) asked_again: u64,
    /// Requests that were not made, since the engine served an earlier, larger request of the task that failed in the
    /// recording.
    pub(crate) not_retried: u64,
    /// Pages that the recorded kernel reclaimed although they were on no LRU list; freed as recorded.
    pub(crate) reclaimed_as_recorded: u64,
    /// Frees by the workload of pages that the engine had reclaimed before.
    pub(crate) freed_after_reclaim: u64,
    /// Pages that the engine reclaimed and the recorded kernel did not.
    pub(crate) taken_early: u64,
    /// Blocks that the recorded kernel moved to a place that the recording does not show.
    pub(crate) lost_moves: u64,
    /// Requests with flags that contradict each other, or of an order above 10.
    pub(crate) impossible: u64,
    /// Requests that were made, by their flags, and those of them that the engine refused.
    pub(crate) mechanisms: MechanismCounts,
}

impl Tally {
    /// Counts a request, and whether the engine served it.
    pub(crate) fn note_request(&mut self, gfp: Gfp, order: Order, is_served: bool) {
        self.failed += u64::from(!is_served);
        self.mechanisms.add_request(RequestClass::classify(gfp.bits(), order.get()), is_served);
    }
}
