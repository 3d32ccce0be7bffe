//! What is counted of the engine as the kernel counts it.

use freehold::base::Order;
use freehold::stats::Counts;

use super::Engine;

/// The kernel counts stalls by the highest zone that the request could use.
pub const STALLS: [&str; 4] = ["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"];

/// Requests that reclaimed for themselves, whatever zones they could use.
pub fn stalls(counts: &Counts) -> u64 {
    counts.allocstall_dma + counts.allocstall_dma32 + counts.allocstall_normal + counts.allocstall_movable
}

/// Free blocks of one order, over all zones.
pub fn free_blocks(engine: &Engine<'_>, order: Order) -> u64 {
    engine.zones().iter().map(|zone| u64::from(zone.inspect(|areas| areas.area(order).nr_free()))).sum()
}
