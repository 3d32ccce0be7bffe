//! Counts that both the recorded kernel and the engine have.

use freehold::base::Order;
use freehold::stats::Counts;
use freehold_trace::facts::{Facts, Sample};

use super::Engine;

/// Names of the kernel's counters of direct reclaim, one for each highest zone that the request could use.
pub(crate) const STALLS: [&str; 4] = ["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"];

/// Returns the number of direct reclaims, summed over the highest zones of the requests.
pub(crate) fn stalls(counts: &Counts) -> u64 {
    counts.allocstall_dma + counts.allocstall_dma32 + counts.allocstall_normal + counts.allocstall_movable
}

/// Returns the increase of a counter of the recorded `/proc/vmstat` from the first sample to the last; `None` if the
/// recording lacks it.
pub(crate) fn vmstat_delta(facts: &Facts, name: &str) -> Option<u64> {
    vmstat_until(facts, facts.samples.last()?, name)
}

/// Returns the increase of a counter of the recorded `/proc/vmstat` from the first sample to `sample`; `None` if the
/// recording lacks it.
pub(crate) fn vmstat_until(facts: &Facts, sample: &Sample, name: &str) -> Option<u64> {
    facts.vmstat_increase(sample, |known| known == name)
}

/// Returns whether the recorded machine was short of memory: a counter of scans or compactions increased.
pub(crate) fn was_short(facts: &Facts) -> bool {
    ["pgscan_kswapd", "pgscan_direct", "compact_stall"].iter().any(|name| vmstat_delta(facts, name) > Some(0))
}

/// Returns the number of free blocks of one order, over all zones.
pub(crate) fn free_blocks(engine: &Engine<'_>, order: Order) -> u64 {
    engine.zones().iter().map(|zone| u64::from(zone.inspect(|areas| areas.area(order).nr_free()))).sum()
}

/// Returns the free pages in blocks of this order or more, given the number of free blocks of each order.
pub(crate) fn pages_from(order: Order, free_blocks: impl Fn(Order) -> u64) -> u64 {
    order.to(Order::MAX).map(|order| free_blocks(order) << order.get()).sum()
}
