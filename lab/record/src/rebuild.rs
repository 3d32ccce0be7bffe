//! The state of memory at a moment that nobody looked at, rebuilt from a later scan and the events between.
//!
//! To undo events backwards means that the one undone last decides, and for a frame that is the *first* event on it. So
//! nothing has to be turned round: one pass in order of time, and the first event on a frame tells what the frame was.
//! What is allocated first was free: on the free lists if it left them with an event, and on a CPU's list else. What is
//! freed first was allocated, as a block of that order. What is drained first lay on a CPU's list. A frame that no
//! event names was what it still is in the scan.
//!
//! What has no event cannot be undone: bulk allocation, migration to a frame, contiguous ranges, reporting of free
//! pages. Where such a change leaves a contradiction between two events, or between the last event and the scan, it is
//! counted ([`Tally`]); where it leaves none, the frame is what it is at the end. Of a block that is freed first, what
//! it was used for is not known, and how old a page is, is known of the end alone.
//!
//! Cost: a word and a byte for each frame, and a few nanoseconds for each event.

use freehold_trace::event::{Kind, NO_PFN, Row};
use freehold_trace::snapshot::flag;
use freehold_trace::state::{AllocatedBlock, CachedBlock, Flags, Frames, fits_percpu_lists};

/// What the events have made of a frame so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Now {
    /// No event has named it.
    Untouched,
    /// On the free lists.
    Listed,
    /// On a CPU's list, or on its way to or from there.
    Cached,
    Allocated,
}

/// How much was rebuilt, and what contradicts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Frames whose first event told what they were.
    pub told: u64,
    /// Blocks that were freed or drained although they were free already: somebody took them without an event.
    pub taken_silently: u64,
    /// Blocks that were handed out although they were in use: somebody gave them back without an event.
    pub returned_silently: u64,
    /// Frames that the scan shows otherwise than their last event left them.
    pub ended_otherwise: u64,
    /// Pages that compaction moved: where to, no event says.
    pub moved: u64,
}

/// The start state on its way.
#[derive(Debug)]
pub(crate) struct Rebuilder {
    now: Vec<Now>,
    pageblock_order: u8,
    /// Free blocks, as first frame and order, in order of discovery.
    free: Vec<(u64, u8)>,
    /// Blocks on CPUs' lists, in order of discovery.
    pub cached: Vec<CachedBlock>,
    /// Allocated blocks, in order of discovery.
    pub allocated: Vec<AllocatedBlock>,
    /// What was counted.
    pub tally: Tally,
}

impl Rebuilder {
    /// Knows nothing yet of `frames` frames.
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

    /// Takes note of the next event.
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

    /// What a frame was before an event on it, and what it is after; `None` if the event says nothing of frames. Where
    /// an order fits no per-CPU list, a block comes straight from the free lists, or was caught by a compactor.
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

    /// The block was this at the start.
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

    /// Whether the events have left a frame on the free lists.
    pub(crate) fn is_on_free_lists(&self, pfn: u64) -> bool {
        self.now.get(pfn as usize) == Some(&Now::Listed)
    }

    /// Holds the last event on each frame against the scan.
    pub(crate) fn compare(&mut self, end: &Frames) {
        let differ = self.now.iter().zip(end.words()).filter(|&(now, &word)| match now {
            Now::Allocated => word & flag::BUDDY != 0,
            Now::Listed => word & flag::BUDDY == 0 && word != 0,
            Now::Cached | Now::Untouched => false,
        });
        self.tally.ended_otherwise = differ.count() as u64;
    }

    /// The flags of all frames at the start: what the events told, and the flags at the end for all others. Blocks
    /// that are cached or allocated are marked by who makes rows of them.
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

/// Whether an event of this kind tells that somebody has taken a frame without an event, if it was this.
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
