//! The same counts of the recorded kernel and of the engine.

use freehold::base::Order;
use freehold::stats::Counts;
use freehold_trace::facts::{Facts, Sample};

use super::Engine;

/// The kernel counts stalls by the highest zone that the request could use.
pub(crate) const STALLS: [&str; 4] = ["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"];

/// Requests that reclaimed for themselves, whatever zones they could use.
pub(crate) fn stalls(counts: &Counts) -> u64 {
    counts.allocstall_dma + counts.allocstall_dma32 + counts.allocstall_normal + counts.allocstall_movable
}

/// How much a counter of the recorded `/proc/vmstat` went up from the first sample to the last; `None` if the recording
/// lacks it.
pub(crate) fn vmstat_delta(facts: &Facts, name: &str) -> Option<u64> {
    vmstat_until(facts, facts.samples.last()?, name)
}

/// The same, until this sample.
pub(crate) fn vmstat_until(facts: &Facts, sample: &Sample, name: &str) -> Option<u64> {
    let at = facts.vmstat_names.iter().position(|known| known == name)?;
    let first = facts.samples.first()?.vmstat.get(at)?;
    Some(sample.vmstat.get(at)?.saturating_sub(*first))
}

/// Whether the recorded machine was short of memory.
pub(crate) fn was_short(facts: &Facts) -> bool {
    ["pgscan_kswapd", "pgscan_direct", "compact_stall"].iter().any(|name| vmstat_delta(facts, name) > Some(0))
}

/// Free blocks of one order, over all zones.
pub(crate) fn free_blocks(engine: &Engine<'_>, order: Order) -> u64 {
    engine.zones().iter().map(|zone| u64::from(zone.inspect(|areas| areas.area(order).nr_free()))).sum()
}

/// Free pages in blocks of this order or more, given the free blocks of each order.
pub(crate) fn pages_from(order: Order, free_blocks: impl Fn(Order) -> u64) -> u64 {
    order.to(Order::MAX).map(|order| free_blocks(order) << order.get()).sum()
}
