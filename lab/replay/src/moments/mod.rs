//! Course of a replay: the state of the engine's memory at moments during the replay.
//!
//! Sums are cheap: free blocks by order, and the engine's counters. A map has a cell for every pageblock. All frames
//! are counted once, at the first moment. After that, only the pageblocks that were touched since the last moment are
//! counted again ([`touched`](super::touched)). The other cells keep their counts; only their type and owner are read
//! again, since these can change without the frames.
//!
//! # Design
//!
//! A count of every frame of a machine at 64 moments takes longer than the replay. Each allocation, free or move
//! therefore marks its pageblock, and only marked pageblocks are counted again. Compaction frees an old place some time
//! after it moved the page, so a pageblock is counted for a few moments after a move. Debug builds count all pageblocks
//! at the end and compare. The HTML page of a map contains the changes from moment to moment, compressed: under 8 MB
//! for 64 GiB.

mod cells;

use freehold::base::Order;
use freehold::stats::Counts;
use freehold_report::report::map::MOMENTS_MAX;
use freehold_trace::Facts;

use super::counts::{free_blocks, stalls};
use super::{Engine, Watch};
use crate::report::course::{Moment, WatchedMemory};
use cells::Cells;

/// Rows of a recording per moment, since one moment of a map costs as much as some thousand rows. Short recordings
/// still have [`MOMENTS_MIN`] moments.
const ROWS: u64 = 1 << 16;
const MOMENTS_MIN: u64 = 24;

/// Recorder of moments while a replay runs.
#[derive(Debug)]
pub(crate) struct Moments {
    times: Vec<u64>,
    next: usize,
    taken: Vec<Moment>,
    cells: Option<Cells>,
    /// The one pageblock whose frames are recorded; `None` records the frames of all pageblocks that changed.
    block: Option<usize>,
}

impl Moments {
    /// Creates the recorder, before the first event of a recording.
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

    /// Returns the time of the next moment; `u64::MAX` after the last.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        self.times.get(self.next).copied().unwrap_or(u64::MAX)
    }

    /// Records the next moment. `failed` requests have failed so far, and `huge_served` huge pages were allocated.
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

    /// Returns all recorded moments and the map, and removes them from the recorder.
    pub(crate) fn finish(&mut self) -> (Vec<Moment>, Option<WatchedMemory>) {
        (std::mem::take(&mut self.taken), self.cells.take().map(Cells::into_watched_memory))
    }
}

/// Returns evenly spaced moments of a recording: one for each [`ROWS`] rows, but from [`MOMENTS_MIN`] to
/// [`MOMENTS_MAX`].
fn evenly_spaced(facts: &Facts) -> Vec<u64> {
    let last = (facts.rows.values().sum::<u64>() / ROWS).clamp(MOMENTS_MIN, MOMENTS_MAX as u64) - 1;
    (0..=last).map(|number| (u128::from(facts.duration) * u128::from(number) / u128::from(last)) as u64).collect()
}
