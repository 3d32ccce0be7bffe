//! Scan of a zone for a range that can be emptied. Ranges are tried in the order of their addresses. If one fails, the
//! next begins after the frame that is in the way.
//!
//! ```text
//!  frames   ......xx....xxxxxx..x......xx......
//!  ranges         |----|                           a page in the way does not move
//!                   |----|                         the next range begins after it
//!  isolated      [      pageblocks      ]          each is isolated once, while ranges have frames in it
//! ```
//!
//! Work is not repeated from range to range: pageblocks and frames are checked once, each block in the way is asked for
//! once, a pageblock is isolated once, and per-CPU lists are drained at most twice for each pageblock. So the cost of a
//! scan does not depend on the number of ranges that fail.
//!
//! The scan keeps the target of a move that was refused for the next move. Until then the target is Claimed, and
//! another call that needs its frame finds it busy.

use core::ops::Range;

use super::alloc::RangeRequest;
use super::vacate::{Evacuation, ROUNDS};
use crate::base::Pfn;
use crate::page::allocator::PageAllocator;
use crate::page::isolation::Isolation;
use crate::page::migrate::Candidate;
use crate::page::zone::Zone;
use crate::platform::Platform;

/// Maximum number of drains of per-CPU lists while the isolated pageblocks stay the same.
const DRAINS_MAX: u32 = 2;

/// Scan of one zone, from low frames to high ones. Fields are dropped in this order: the kept target is freed before
/// the isolation ends.
pub(super) struct Scan<'a, 'm, P: Platform> {
    evacuation: Evacuation<'a, 'm, P>,
    isolation: Isolation<'a, 'm, P>,
    wanted: RangeRequest,
    /// Ends of the frames whose pageblocks were checked, of those whose blocks were checked, and of those whose blocks
    /// were moved.
    pageblocks_checked: Pfn,
    checked: Pfn,
    moved: Pfn,
    /// Number of drains of per-CPU lists since a pageblock was last isolated.
    drains: u32,
}

impl<'a, 'm, P: Platform> Scan<'a, 'm, P> {
    /// Begins a scan at a frame of a zone.
    pub(super) fn new(
        allocator: &'a PageAllocator<'m, P>,
        zone: &'a Zone<P::Lock>,
        from: Pfn,
        wanted: RangeRequest,
    ) -> Scan<'a, 'm, P> {
        Scan {
            evacuation: Evacuation::new(allocator, zone, wanted.gfp),
            isolation: allocator.isolate_nothing(zone, from),
            wanted,
            pageblocks_checked: from,
            checked: from,
            moved: from,
            drains: 0,
        }
    }

    /// Allocates a range, which begins and ends no earlier than the one before.
    ///
    /// # Errors
    /// The first frame after the one that is in the way, at which the next range may begin. Blocks before it may have
    /// been moved.
    pub(super) fn alloc(&mut self, range: &Range<Pfn>) -> Result<(), Pfn> {
        // A block may be split or merged after it was found in the way, and may then end before the range.
        self.alloc_at(range).map_err(|next| next.max(range.start.offset(1)))
    }

    fn alloc_at(&mut self, range: &Range<Pfn>) -> Result<(), Pfn> {
        let (allocator, zone) = (self.evacuation.allocator, self.evacuation.zone);
        self.check_pageblocks(range)?;
        self.check_blocks(range)?;
        self.isolate(range)?;
        let mut rounds = 0..ROUNDS;
        loop {
            let in_way = match allocator.isolate_freepages_range(zone, range, self.wanted.purpose) {
                Ok(taken) => {
                    allocator.prep_blocks(range, self.wanted);
                    taken.keep_all();
                    return Ok(());
                }
                Err(pfn) => pfn,
            };
            if rounds.next().is_none() {
                return Err(self.end_of_block(in_way));
            }
            self.drain_for(in_way);
            // A block that was moved may have been followed by one from a per-CPU list.
            self.moved = self.moved.min(in_way);
            self.evacuate(range)?;
            // A CPU that is about to free a block in the range can do so now. The platform's answer does not matter
            // here.
            self.evacuation.free_target();
            let _ = allocator.platform.relax();
        }
    }

    /// Refuses a range with frames outside of the zone, or of a CMA area unless it is the area's own.
    fn check_pageblocks(&mut self, range: &Range<Pfn>) -> Result<(), Pfn> {
        let (allocator, zone) = (self.evacuation.allocator, self.evacuation.zone);
        let order = allocator.map.pageblock_order();
        let first = range.start.max(self.pageblocks_checked);
        for (pfn, part) in first.blocks_up_to(range.end, order) {
            let part = pfn..pfn.offset(part.pages());
            let is_of_zone = allocator.zone_of_range(&part).is_ok_and(|found| core::ptr::eq(found, zone));
            if !is_of_zone || allocator.expect_area(&part, self.wanted.purpose).is_err() {
                return Err(pfn.align_down(order).offset(order.pages()));
            }
            self.pageblocks_checked = part.end;
        }
        Ok(())
    }

    /// Refuses a range with a block that cannot be moved.
    fn check_blocks(&mut self, range: &Range<Pfn>) -> Result<(), Pfn> {
        let fresh = range.start.max(self.checked)..range.end;
        if let Some((pfn, _)) = self.evacuation.allocator.first_unmovable(&fresh, self.wanted.purpose) {
            return Err(self.end_of_block(pfn));
        }
        self.checked = self.checked.max(range.end);
        Ok(())
    }

    fn isolate(&mut self, range: &Range<Pfn>) -> Result<(), Pfn> {
        let order = self.evacuation.allocator.map.pageblock_order();
        let has_more = self.isolation.move_to(range).map_err(|block| block.offset(order.pages()))?;
        if has_more {
            self.drains = 0;
            self.evacuation.leave_isolated();
        }
        Ok(())
    }

    /// Drains per-CPU lists if a frame in the way is on one of them. That is done twice for these pageblocks: a CPU may
    /// free a page to a list after the first drain, if it read the pageblock's type before the isolation.
    fn drain_for(&mut self, pfn: Pfn) {
        let (allocator, zone) = (self.evacuation.allocator, self.evacuation.zone);
        let word = allocator.map.block_around(pfn).map_or(allocator.map.frame(pfn).word(), |(_, word)| word);
        let is_on_list = word.is_listed() && !word.is_zone_free() || word.is_remote_pending();
        if is_on_list && self.drains < DRAINS_MAX {
            self.drains += 1;
            allocator.drain_all_pages_zone(zone);
        }
    }

    /// Moves the blocks of a range that no earlier range had, in the order of their addresses, until one stays.
    fn evacuate(&mut self, range: &Range<Pfn>) -> Result<(), Pfn> {
        let fresh = range.start.max(self.moved)..range.end;
        for (pfn, word) in self.evacuation.allocator.blocks_in(&fresh).filter(|(_, word)| word.is_movable()) {
            if !self.evacuation.move_block(Candidate { pfn, word }) {
                return Err(self.end_of_block(pfn));
            }
        }
        self.moved = range.end;
        Ok(())
    }

    fn end_of_block(&self, pfn: Pfn) -> Pfn {
        let word = self.evacuation.allocator.map.frame(pfn).word();
        pfn.offset(if word.is_head() { word.order().pages() } else { 1 })
    }
}
