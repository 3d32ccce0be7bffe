//! The course of a replay: what the engine's memory is like at moments on the way, for whoever wants to see it.
//!
//! Sums are cheap: free blocks by order, and what the counters say. A map has every pageblock. It is counted once,
//! frame by frame; from then on only blocks that were touched since the last moment are counted again
//! ([`touched`](super::touched)), and all others stay as they were but for their type and their owner, which can change
//! without them.

mod cells;

use freehold::base::Order;
use freehold::stats::Counts;
use freehold_report::report::map::MOMENTS_MAX;
use freehold_trace::Facts;

use super::counts::{free_blocks, stalls};
use super::{Engine, Watch};
use crate::report::course::{Moment, WatchedMemory};
use cells::Cells;

/// A moment of a map costs as much as some thousand rows, so a recording has one for so many, but no fewer than these.
const ROWS: u64 = 1 << 16;
const MOMENTS_MIN: u64 = 24;

/// Keeps what is wanted while a replay runs.
#[derive(Debug)]
pub(crate) struct Moments {
    times: Vec<u64>,
    next: usize,
    taken: Vec<Moment>,
    cells: Option<Cells>,
    /// The one block whose frames are wanted; without it they are of all that changed.
    block: Option<usize>,
}

impl Moments {
    /// Before the first event of a recording.
    pub(crate) fn new(engine: &Engine<'_>, watch: Watch, facts: &Facts) -> Moments {
        let duration = facts.duration;
        let (times, block) = match watch {
            Watch::Nothing => (Vec::new(), None),
            Watch::Sums | Watch::Map => (evenly_spaced(facts), None),
            Watch::Moment { time, block } => (vec![time.min(duration)], block),
        };
        let is_mapped = matches!(watch, Watch::Map | Watch::Moment { .. });
        Moments { times, next: 0, taken: Vec::new(), cells: is_mapped.then(|| Cells::count(engine)), block }
    }

    /// When the next moment is; never, after the last.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        self.times.get(self.next).copied().unwrap_or(u64::MAX)
    }

    /// That moment is now; by now so many requests have failed, and so many got a huge page.
    pub(crate) fn take(&mut self, engine: &Engine<'_>, counts: &Counts, failed: u64, huge_served: u64) {
        let time = self.next_time();
        self.next += 1;
        self.taken.push(Moment {
            time,
            free_blocks: Order::all().map(|order| free_blocks(engine, order)).collect(),
            zone_lock_acquisitions: counts.zone_lock_acquisitions,
            failed_allocations: failed,
            huge_pages_served: huge_served,
            allocstall: stalls(counts),
            compact_stall: counts.compact_stall,
            pgscan: counts.pgscan_kswapd + counts.pgscan_direct,
            pgsteal: counts.pgsteal_kswapd + counts.pgsteal_direct,
        });
        if let Some(cells) = &mut self.cells {
            cells.take(engine);
            if self.next == self.times.len() {
                cells.take_frames(engine, self.block);
            }
        }
    }

    /// All that was taken; it is forgotten here.
    pub(crate) fn finish(&mut self) -> (Vec<Moment>, Option<WatchedMemory>) {
        (std::mem::take(&mut self.taken), self.cells.take().map(Cells::into_watched_memory))
    }
}

/// Returns evenly spaced moments of a recording, the more the longer it is.
fn evenly_spaced(facts: &Facts) -> Vec<u64> {
    let last = (facts.rows.values().sum::<u64>() / ROWS).clamp(MOMENTS_MIN, MOMENTS_MAX as u64) - 1;
    (0..=last).map(|number| (u128::from(facts.duration) * u128::from(number) / u128::from(last)) as u64).collect()
}
