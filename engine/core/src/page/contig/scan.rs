//! Scan of a zone for a range that can be emptied. Ranges are tried in the order of their addresses. If one fails, the
//! next begins after the frame that is in the way.
//!
//! ```text
//!  frames     ..x...xx..xxxxxx..x......xx......      . free   x a block that does not move
//!  ranges     |----|                                 fails: a block is in the way
//!                |----|                              begins after that block, and fails as well
//!  isolated  [       pageblocks        ]             each is isolated once, while ranges have frames in it
//! ```
//!
//! Work is not repeated from range to range: pageblocks and blocks are checked once, the platform is asked once to move
//! each block in the way, and a pageblock is isolated once. Per-CPU lists are drained at most twice after each time
//! that pageblocks are isolated. A range that fails adds at most six attempts to take it, each under the zone lock.
//!
//! If the platform refuses a move, the scan keeps the target block for the next block to be moved. A kept target is
//! Claimed, so other ranges that need its frames fail as busy.

use core::ops::Range;

use super::alloc::RangeRequest;
use super::range::end_of_block;
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
    /// The pageblocks of the frames before this one were checked.
    pageblocks_checked: Pfn,
    /// The blocks before this frame were checked.
    checked: Pfn,
    /// The blocks before this frame were moved.
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

    /// Allocates a range. The starts and ends of the ranges that are passed one after the other never decrease.
    ///
    /// # Errors
    /// The first frame after the block in the way, at which the next range may begin. Blocks before it may have
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
            // After a block was moved, a CPU may have allocated its frames again from a per-CPU list.
            self.moved = self.moved.min(in_way);
            self.evacuate(range)?;
            // Other ranges must not find the kept target busy while this one waits.
            self.evacuation.free_target();
            // A CPU that is about to free a block in the range can do so now. The platform's answer does not matter
            // here.
            let _ = allocator.platform.relax();
        }
    }

    /// Refuses a range that leaves the zone, or that has frames of a CMA area if the request is not for that area.
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

    /// Drains per-CPU lists if a frame in the way is on one of them, at most twice after pageblocks were isolated. The
    /// second drain finds pages that a CPU freed to a list because it had read the type before the isolation.
    fn drain_for(&mut self, pfn: Pfn) {
        let (allocator, zone) = (self.evacuation.allocator, self.evacuation.zone);
        let (_, word) = allocator.block_at(pfn);
        let is_on_list = word.is_listed() && !word.is_zone_free() || word.is_remote_pending();
        if is_on_list && self.drains < DRAINS_MAX {
            self.drains += 1;
            allocator.drain_all_pages_zone(zone);
        }
    }

    /// Moves the movable blocks of the range that no earlier call has moved, in the order of their addresses, until one
    /// stays.
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
        end_of_block(pfn, self.evacuation.allocator.map.frame(pfn).word())
    }
}
