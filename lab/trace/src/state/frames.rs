//! From a scan that took a second to the state of all frames at one moment.
//!
//! Each chunk of the scan tells the flags of its frames as they were some time after the chunk's stamp. The
//! moment is the scan's end. Every event on a frame between its chunk's stamp and the moment is applied
//! to its word in order. An event *sets* what the frame is and does not depend on what it was, so it does
//! no harm that the scan may have seen the first of them already.
//!
//! What an event cannot tell is guessed, and the guess is a fact about Linux: a freed block of an order
//! that fits the per-CPU lists lies on one, any other is merged into the free lists at once. Which larger
//! free block a page came from or merged into needs no event: free blocks are cut out of the runs
//! of free frames afterwards, as the buddy system would hold them.

use crate::event::{Kind, NO_PFN, Row, migratetype};
use crate::snapshot::{ALLOCATED, flag};

/// Frames that share a stamp.
pub const CHUNK_FRAMES: u64 = 4096;

/// The orders that the per-CPU lists hold, besides that of a huge page. linux: mm/page_alloc.c:pcp_allowed_order
const COSTLY_ORDER: u8 = 3;

/// Whether a free block of `order` goes to a per-CPU list.
pub fn fits_percpu_lists(order: u8, pageblock_order: u8) -> bool {
    order <= COSTLY_ORDER || order == pageblock_order
}

/// The flags of all frames at one moment.
#[derive(Debug)]
pub struct Frames {
    /// A word for each frame from 0; [`flag::NOPAGE`] where nothing was scanned.
    words: Vec<u32>,
    /// The stamp of each chunk of [`CHUNK_FRAMES`] frames.
    stamps: Vec<u64>,
    pageblock_order: u8,
    /// Events applied.
    applied: u64,
}

impl Frames {
    /// No frame yet. `pageblock_order` is the order of a pageblock.
    pub fn new(pageblock_order: u8) -> Frames {
        Frames { words: Vec::new(), stamps: Vec::new(), pageblock_order, applied: 0 }
    }

    /// Makes the state of frames from 0, all read at once.
    pub fn from_words(words: Vec<u32>, pageblock_order: u8) -> Frames {
        Frames { words, ..Frames::new(pageblock_order) }
    }

    /// Puts scanned `words` of frames from `first`, all of one chunk that was read at `stamp`; frames come in ascending
    /// order.
    pub fn put(&mut self, first: u64, words: impl Iterator<Item = u32>, stamp: u64) {
        self.words.resize(first as usize, flag::NOPAGE);
        self.words.extend(words);
        let chunk = (first / CHUNK_FRAMES) as usize;
        if self.stamps.len() <= chunk {
            self.stamps.resize(chunk + 1, u64::MAX);
        }
        // Two ranges may share a chunk; the earlier stamp is right for both, because events set states.
        self.stamps[chunk] = self.stamps[chunk].min(stamp);
    }

    /// The words, by frame number.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The words alone.
    pub fn into_words(self) -> Vec<u32> {
        self.words
    }

    /// Marks a frame as free if nothing is known of it. Returns whether it did.
    pub fn find_free(&mut self, pfn: u64) -> bool {
        let word = self.words.get_mut(pfn as usize).filter(|word| **word == 0);
        word.map(|word| *word = flag::BUDDY).is_some()
    }

    /// Puts one word in the place of another.
    pub fn replace(&mut self, pfn: u64, word: u32) {
        if let Some(place) = self.words.get_mut(pfn as usize) {
            *place = word;
        }
    }

    /// Frames that are withheld from the allocator: offline, or in a balloon.
    pub fn offline(&self) -> u64 {
        self.words.iter().filter(|&&word| word & flag::NOPAGE == 0 && word & flag::OFFLINE != 0).count() as u64
    }

    /// How many events were applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies an event that happened at `time` of the monotonic clock, no later than the moment.
    pub fn apply(&mut self, time: u64, row: &Row) {
        let stamp = self.stamps.get((row.pfn / CHUNK_FRAMES) as usize);
        if row.pfn == NO_PFN || stamp.is_none_or(|&stamp| time < stamp) {
            return;
        }
        match row.kind {
            Kind::Alloc => self.set_allocated(row),
            Kind::Free if !fits_percpu_lists(row.order, self.pageblock_order) => self.set(row, flag::BUDDY),
            Kind::Free | Kind::ZoneLocked | Kind::ExtFrag => self.set(row, 0),
            Kind::PcpuDrain => self.set(row, flag::BUDDY),
            _ => return,
        }
        self.applied += 1;
    }

    fn set_allocated(&mut self, row: &Row) {
        let movable = if row.migratetype == migratetype::MOVABLE { flag::LRU } else { 0 };
        let word = ALLOCATED | movable;
        if row.order == 0 {
            self.set(row, word);
        } else {
            self.set(row, flag::COMPOUND_TAIL);
            if let Some(head) = self.words.get_mut(row.pfn as usize) {
                *head = flag::COMPOUND_HEAD | word;
            }
        }
    }

    fn set(&mut self, row: &Row, word: u32) {
        let first = row.pfn as usize;
        let end = (first + (1 << row.order.min(63))).min(self.words.len());
        if let Some(words) = self.words.get_mut(first..end) {
            words.fill(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, pfn: u64, order: u8) -> Row {
        Row { pfn, order, migratetype: migratetype::MOVABLE, ..Row::new(kind) }
    }

    /// Two chunks: frames 0.. were read at 100, frames 4096.. at 200. All free.
    fn frames() -> Frames {
        let mut frames = Frames::new(9);
        frames.put(0, std::iter::repeat_n(flag::BUDDY, 4096), 100);
        frames.put(4096, std::iter::repeat_n(flag::BUDDY, 4096), 200);
        frames
    }

    #[test]
    fn only_events_after_a_frames_stamp_count() {
        let mut frames = frames();
        frames.apply(150, &event(Kind::ZoneLocked, 8, 0));
        frames.apply(150, &event(Kind::ZoneLocked, 5000, 0));
        assert_eq!(frames.words()[8], 0, "read before the event");
        assert_eq!(frames.words()[5000], flag::BUDDY, "read after the event");
        assert_eq!(frames.applied(), 1);
    }

    #[test]
    fn a_life_of_a_page_ends_where_it_began() {
        let mut frames = frames();
        frames.apply(300, &event(Kind::ZoneLocked, 16, 2));
        assert_eq!(frames.words()[16..20], [0; 4]);
        frames.apply(301, &event(Kind::Alloc, 16, 2));
        assert_eq!(frames.words()[16], flag::COMPOUND_HEAD | ALLOCATED | flag::LRU);
        assert_eq!(frames.words()[17..20], [flag::COMPOUND_TAIL; 3]);
        frames.apply(302, &event(Kind::Free, 16, 2));
        assert_eq!(frames.words()[16..20], [0; 4], "on a per-CPU list");
        frames.apply(303, &event(Kind::PcpuDrain, 16, 2));
        assert_eq!(frames.words()[15..21], [flag::BUDDY; 6]);
    }

    #[test]
    fn large_blocks_skip_the_percpu_lists() {
        let mut frames = frames();
        frames.apply(300, &event(Kind::Alloc, 32, 5));
        frames.apply(301, &event(Kind::Free, 32, 5));
        assert_eq!(frames.words()[32..64], [flag::BUDDY; 32]);
        frames.apply(302, &event(Kind::Free, 512, 9));
        assert_eq!(frames.words()[512..1024], [0; 512], "huge pages have a per-CPU list");
    }

    #[test]
    fn events_on_frames_that_were_not_scanned_are_ignored() {
        let mut frames = frames();
        frames.apply(300, &event(Kind::Alloc, NO_PFN, 0));
        frames.apply(300, &event(Kind::Alloc, 1 << 40, 3));
        frames.apply(300, &event(Kind::Alloc, 8191, 3));
        assert_eq!(frames.applied(), 1, "a block that runs over the end is cut");
    }
}
