//! Contents of a range, read without a lock: its zone, and the blocks that its frames belong to.
//!
//! The answers may be outdated at once. They are used to refuse a range early, and to find the blocks to migrate. The
//! decision is made under the zone lock, in `isolate_freepages_range`.

use core::ops::Range;

use crate::base::pageblock::NO_ZONE;
use crate::base::word::Word;
use crate::base::{MigrateType, Pfn, State};
use crate::page::allocator::PageAllocator;
use crate::page::error::{ContigError, RangeError};
use crate::page::zone::Zone;
use crate::platform::Platform;

/// Purpose for which a range is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) enum Purpose {
    /// Allocation by any caller. CMA areas are not touched.
    General,
    /// Allocation by a CMA area, of its own frames.
    Cma,
    /// Offlining, which includes Reserved and withheld frames.
    Offline,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Returns the zone that contains the whole range, or the reason why the range is invalid. Cost: a few steps per
    /// pageblock.
    pub(in crate::page) fn zone_of_range(&self, range: &Range<Pfn>) -> Result<&'m Zone<P::Lock>, RangeError> {
        if range.is_empty() {
            return Err(RangeError::Empty { start: range.start });
        }
        let mut zone = NO_ZONE;
        for (pfn, _) in range.start.blocks_up_to(range.end, self.map.pageblock_order()) {
            let found = self.map.try_frame_and_pageblock(pfn).map(|(frame, pageblock)| (frame, pageblock.zone()));
            let (frame, here) = found.filter(|&(_, here)| here != NO_ZONE).ok_or(RangeError::OutOfRange { pfn })?;
            if zone != NO_ZONE && here != zone {
                return Err(RangeError::CrossesZone { pfn, state: frame.word().state() });
            }
            zone = here;
        }
        Ok(&self.zones[usize::from(zone)])
    }

    /// Refuses a range with a block that cannot be migrated, and a range in a CMA area unless the area itself takes it.
    /// Cost: at most one step per frame. linux: mm/page_isolation.c:has_unmovable_pages
    pub(in crate::page) fn expect_movable(&self, range: &Range<Pfn>, purpose: Purpose) -> Result<(), ContigError> {
        self.expect_area(range, purpose)?;
        let obstacle = self.first_unmovable(range, purpose);
        obstacle.map_or(Ok(()), |(pfn, word)| Err(ContigError::Unmovable { pfn, state: word.state() }))
    }

    /// Refuses a range in a CMA area unless the area itself takes it, and then a range outside of areas. Cost: one step
    /// per pageblock.
    pub(super) fn expect_area(&self, range: &Range<Pfn>, purpose: Purpose) -> Result<(), ContigError> {
        for (pfn, _) in range.start.blocks_up_to(range.end, self.map.pageblock_order()) {
            if (self.map.pageblock(pfn).lasting_migratetype() == MigrateType::Cma) != (purpose == Purpose::Cma) {
                return Err(ContigError::Cma { pfn, state: self.map.frame(pfn).word().state() });
            }
        }
        Ok(())
    }

    /// Returns the first block of a range that cannot be migrated, if there is one. Cost: a step per block before it.
    pub(super) fn first_unmovable(&self, range: &Range<Pfn>, purpose: Purpose) -> Option<(Pfn, Word)> {
        self.blocks_in(range).find(|&(_, word)| is_unmovable(word, purpose))
    }

    /// Returns every block that has frames in the range, with the word of its head. Frames that are in no block are
    /// returned one by one.
    pub(super) fn blocks_in(&self, range: &Range<Pfn>) -> impl Iterator<Item = (Pfn, Word)> + use<'_, 'm, P> {
        let (mut at, end) = (range.start, range.end);
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (head, word) = self.block_at(at);
            at = end_of_block(head, word);
            Some((head, word))
        })
    }

    /// Returns the head of the block that contains a frame, and the head's word; the frame itself if it is in no block.
    pub(super) fn block_at(&self, pfn: Pfn) -> (Pfn, Word) {
        self.map.block_around(pfn).unwrap_or_else(|| (pfn, self.map.frame(pfn).word()))
    }
}

/// Returns the first frame after the block whose head has this word, or after the frame if it is no head.
pub(super) fn end_of_block(pfn: Pfn, word: Word) -> Pfn {
    pfn.offset(if word.is_head() { word.order().pages() } else { 1 })
}

/// Returns whether a block cannot be removed from a range that is taken for this purpose.
fn is_unmovable(word: Word, purpose: Purpose) -> bool {
    match word.state() {
        State::Absent => true,
        State::Reserved | State::Withheld => purpose != Purpose::Offline,
        State::Allocated { movable, poisoned, .. } => !movable || poisoned,
        State::ZoneFree { .. }
        | State::PcpCached { .. }
        | State::RemotePending { .. }
        | State::Claimed { .. }
        | State::Interior => false,
    }
}
