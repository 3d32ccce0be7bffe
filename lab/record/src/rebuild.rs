//! State of memory at a moment without a scan, rebuilt from a later scan and the events between.
//!
//! If events were undone backwards, the one undone last would decide, and for a frame that is the *first* event on it.
//! One pass in order of time is therefore enough: the first event on a frame determines its state at the start.
//!
//! - A frame that is allocated first was free: on the free lists if it left them with an event, and on a per-CPU list
//!   otherwise.
//! - A frame that is freed first was allocated, as a block of that order.
//! - A frame that is drained first was on a per-CPU list.
//! - A frame without an event has the state of the scan.
//!
//! Changes without an event cannot be undone: bulk allocation, migration to a frame, contiguous ranges, and free-page
//! reporting. If such a change causes a contradiction between two events, or between the last event and the scan, it is
//! counted ([`Tally`]). Otherwise the frame has its state at the end. The use of a block that is freed first is not
//! known, and the age of a page is known only at the end.
//!
//! Cost: a word and a byte for each frame, and a few nanoseconds for each event.
//!
//! # Design
//!
//! The possible errors are known and are counted in the file. A test takes a scan at the start as well, and compares it
//! with the rebuilt state frame by frame.

use freehold_trace::event::{Kind, NO_PFN, Row};
use freehold_trace::snapshot::flag;
use freehold_trace::state::{AllocatedBlock, CachedBlock, Flags, Frames, fits_percpu_lists};

/// State of a frame after the events so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Now {
    /// No event has named the frame.
    Untouched,
    /// On the free lists.
    Listed,
    /// On a per-CPU list, or moving to or from one.
    Cached,
    Allocated,
}

/// Counts of the rebuilding and of its contradictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Frames whose first event determined their state.
    pub told: u64,
    /// Blocks that were freed or drained although they were already free: they were allocated without an event.
    pub taken_silently: u64,
    /// Blocks that were allocated although they were in use: they were freed without an event.
    pub returned_silently: u64,
    /// Frames whose state in the scan differs from that after their last event.
    pub ended_otherwise: u64,
    /// Pages that compaction moved to a place that no event shows.
    pub moved: u64,
}

/// The start state during the rebuilding.
#[derive(Debug)]
pub(crate) struct Rebuilder {
    now: Vec<Now>,
    pageblock_order: u8,
    /// Free blocks, as first frame and order, in order of discovery.
    free: Vec<(u64, u8)>,
    /// Blocks on per-CPU lists, in order of discovery.
    pub cached: Vec<CachedBlock>,
    /// Allocated blocks, in order of discovery.
    pub allocated: Vec<AllocatedBlock>,
    /// Counts.
    pub tally: Tally,
}

impl Rebuilder {
    /// Creates the state of `frames` frames without events.
    pub(crate) fn new(frames: usize, pageblock_order: u8) -> Rebuilder {
        Rebuilder {
            now: vec![Now::Untouched; frames],
            pageblock_order,
            free: Vec::new(),
            cached: Vec::new(),
            allocated: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Handles the next event.
    pub(crate) fn observe(&mut self, row: &Row) {
        if row.kind == Kind::CompactionMigrate {
            self.tally.moved += u64::try_from(row.args[0]).unwrap_or(0);
        }
        let Some((was, then)) = self.around(row) else { return };
        let first = row.pfn as usize;
        let end = (first + (1 << row.order.min(20))).min(self.now.len());
        let Some(block) = self.now.get_mut(first..end).filter(|block| !block.is_empty()) else { return };
        self.tally.taken_silently += u64::from(block.iter().any(|now| is_taken(row.kind, *now)));
        self.tally.returned_silently += u64::from(was != Now::Allocated && block.contains(&Now::Allocated));
        let frames = (row.pfn..).zip(block.iter());
        let untouched: Vec<u64> = frames.filter(|(_, now)| **now == Now::Untouched).map(|(pfn, _)| pfn).collect();
        let is_whole = untouched.len() == block.len();
        block.fill(then);
        self.tally.told += untouched.len() as u64;
        if is_whole {
            self.tell(was, row, row.pfn, row.order);
        } else {
            untouched.into_iter().for_each(|pfn| self.tell(was, row, pfn, 0));
        }
    }

    /// Returns the state of a frame before and after an event on it; `None` if the event is not about frames. A block
    /// whose order fits no per-CPU list comes directly from the free lists, or was captured by compaction.
    fn around(&self, row: &Row) -> Option<(Now, Now)> {
        if row.pfn == NO_PFN {
            return None;
        }
        let fits = fits_percpu_lists(row.order, self.pageblock_order);
        let free = if fits { Now::Cached } else { Now::Listed };
        Some(match row.kind {
            Kind::Alloc => (free, Now::Allocated),
            Kind::Free => (Now::Allocated, free),
            Kind::ZoneLocked | Kind::ExtFrag => (Now::Listed, Now::Cached),
            Kind::PcpuDrain => (Now::Cached, Now::Listed),
            _ => return None,
        })
    }

    /// Records that the block had this state at the start.
    fn tell(&mut self, was: Now, row: &Row, pfn: u64, order: u8) {
        match was {
            Now::Listed => self.free.push((pfn, order)),
            Now::Allocated => self.allocated.push(AllocatedBlock { pfn, order, flags: Flags::Unseen }),
            Now::Cached => {
                self.cached.push(CachedBlock { pfn, order, cpu: row.cpu, migratetype: row.migratetype });
            }
            Now::Untouched => {}
        }
    }

    /// Returns whether a frame is on the free lists, according to the events.
    pub(crate) fn is_on_free_lists(&self, pfn: u64) -> bool {
        self.now.get(pfn as usize) == Some(&Now::Listed)
    }

    /// Compares the last event on each frame with the scan.
    pub(crate) fn compare(&mut self, end: &Frames) {
        let differ = self.now.iter().zip(end.words()).filter(|&(now, &word)| match now {
            Now::Allocated => word & flag::BUDDY != 0,
            Now::Listed => word & flag::BUDDY == 0 && word != 0,
            Now::Cached | Now::Untouched => false,
        });
        self.tally.ended_otherwise = differ.count() as u64;
    }

    /// Returns the flags of all frames at the start: those determined by the events, and those of the scan for all
    /// other frames. Cached and allocated blocks are marked later, when rows are made.
    pub(crate) fn words(&self, end: &Frames) -> Frames {
        let words = end.words().iter().zip(&self.now).map(|(&word, now)| match now {
            Now::Untouched => word,
            _ if word & (flag::NOPAGE | flag::RESERVED) != 0 => word,
            _ => 0,
        });
        let mut start = Frames::from_words(words.collect(), self.pageblock_order);
        for pfn in self.free.iter().flat_map(|&(pfn, order)| pfn..pfn + (1 << order)) {
            start.find_free(pfn);
        }
        start
    }
}

/// Returns whether an event of this kind shows that a frame in the state `now` was allocated without an event.
fn is_taken(kind: Kind, now: Now) -> bool {
    match kind {
        Kind::Free => matches!(now, Now::Listed | Now::Cached),
        Kind::PcpuDrain => now == Now::Listed,
        _ => false,
    }
}

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;
