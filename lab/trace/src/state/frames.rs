//! State of all frames at one moment, from a scan of their flags that takes about a second.
//!
//! The moment is the end of the scan. The flags of each chunk were read some time after the chunk's stamp. Every event
//! on a frame between its chunk's stamp and the moment is applied to its word, in order. An event *sets* the state of a
//! frame and does not depend on the previous state. It therefore does no harm if the scan has already seen the effect
//! of the first events.
//!
//! Effects that no event reports are guessed by Linux's rules. A freed block of an order that fits the per-CPU lists is
//! on one of them. Any other block is merged into the free lists at once. It does not matter from which larger free
//! block a page was split or into which it was merged: the free blocks are computed from the runs of free frames
//! afterwards, as the buddy system would hold them.

use crate::event::{Kind, NO_PFN, Row, migratetype};
use crate::snapshot::{ALLOCATED, flag};

/// Frames that share a stamp.
pub const CHUNK_FRAMES: u64 = 4096;

/// Largest order at which the kernel expects that an allocation succeeds, and the largest on the per-CPU lists besides
/// that of a huge page. linux: include/linux/mmzone.h:PAGE_ALLOC_COSTLY_ORDER, mm/page_alloc.c:pcp_allowed_order
pub const COSTLY_ORDER: u8 = 3;

/// Returns whether a free block of `order` goes to a per-CPU list.
pub fn fits_percpu_lists(order: u8, pageblock_order: u8) -> bool {
    order <= COSTLY_ORDER || order == pageblock_order
}

/// Flags of all frames at one moment.
#[derive(Debug)]
pub struct Frames {
    /// One word per frame from 0 on; [`flag::NOPAGE`] if the frame was not scanned.
    words: Vec<u32>,
    /// Stamp of each chunk of [`CHUNK_FRAMES`] frames.
    stamps: Vec<u64>,
    pageblock_order: u8,
    /// Number of events applied.
    applied: u64,
}

impl Frames {
    /// Creates a state without frames. `pageblock_order` is the order of a pageblock.
    pub fn new(pageblock_order: u8) -> Frames {
        Frames { words: Vec::new(), stamps: Vec::new(), pageblock_order, applied: 0 }
    }

    /// Creates the state of frames from 0 on, all read at the same time. No event can be applied to it, since it has no
    /// stamps.
    pub fn from_words(words: Vec<u32>, pageblock_order: u8) -> Frames {
        Frames { words, ..Frames::new(pageblock_order) }
    }

    /// Adds scanned `words` of frames from `first` on, all of one chunk that was read at `stamp`. Must be called in
    /// ascending order of frames.
    pub fn put(&mut self, first: u64, words: impl Iterator<Item = u32>, stamp: u64) {
        self.words.resize(first as usize, flag::NOPAGE);
        self.words.extend(words);
        let chunk = (first / CHUNK_FRAMES) as usize;
        if self.stamps.len() <= chunk {
            self.stamps.resize(chunk + 1, u64::MAX);
        }
        // Two ranges may share a chunk. The earlier stamp is right for both, because events set states.
        self.stamps[chunk] = self.stamps[chunk].min(stamp);
    }

    /// Returns the words, by frame number.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Converts the state into its words.
    pub fn into_words(self) -> Vec<u32> {
        self.words
    }

    /// Marks a frame as free if the frame is unknown. Returns whether the frame was unknown.
    pub fn find_free(&mut self, pfn: u64) -> bool {
        let word = self.words.get_mut(pfn as usize).filter(|word| **word == 0);
        word.map(|word| *word = flag::BUDDY).is_some()
    }

    /// Replaces one word.
    pub fn replace(&mut self, pfn: u64, word: u32) {
        if let Some(place) = self.words.get_mut(pfn as usize) {
            *place = word;
        }
    }

    /// Returns the number of frames that are withheld from the allocator: offline, or in a balloon.
    pub fn offline(&self) -> u64 {
        self.words.iter().filter(|&&word| word & flag::NOPAGE == 0 && word & flag::OFFLINE != 0).count() as u64
    }

    /// Returns the number of events that were applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies an event that happened at `time` of the monotonic clock, which is not after the moment. An event before
    /// the stamp of its chunk is ignored, since the scan has seen its effect.
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

    /// Returns two chunks of free frames: frames from 0 on were read at 100, frames from 4096 on at 200.
    fn frames() -> Frames {
        let mut frames = Frames::new(9);
        frames.put(0, std::iter::repeat_n(flag::BUDDY, 4096), 100);
        frames.put(4096, std::iter::repeat_n(flag::BUDDY, 4096), 200);
        frames
    }

    #[test]
    fn only_events_after_a_frames_timestamp_apply() {
        let mut frames = frames();
        frames.apply(150, &event(Kind::ZoneLocked, 8, 0));
        frames.apply(150, &event(Kind::ZoneLocked, 5000, 0));
        assert_eq!(frames.words()[8], 0, "read before the event");
        assert_eq!(frames.words()[5000], flag::BUDDY, "read after the event");
        assert_eq!(frames.applied(), 1);
    }

    #[test]
    fn alloc_and_free_events_restore_the_flags() {
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
    fn events_on_unscanned_frames_are_ignored() {
        let mut frames = frames();
        frames.apply(300, &event(Kind::Alloc, NO_PFN, 0));
        frames.apply(300, &event(Kind::Alloc, 1 << 40, 3));
        frames.apply(300, &event(Kind::Alloc, 8191, 3));
        assert_eq!(frames.applied(), 1, "a block that runs over the end is cut");
    }
}
