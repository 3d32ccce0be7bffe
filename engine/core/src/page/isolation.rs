//! Isolation: pageblocks that are withdrawn from allocation, and free blocks that are taken off their lists by number.
//!
//! Free blocks of an isolated pageblock are on the Isolate lists, which no request uses, and do not count as free.
//! Pages that are freed in the pageblock stay there. A page of the pageblock that is on a per-CPU list can still be
//! allocated until that list is drained, so the call that empties the range checks it again. Several ranges may isolate
//! a pageblock; the pageblock gets its type back when the last of them releases it.
//!
//! Single free blocks are isolated as targets of compaction, and for callers that request a block by its number.
//!
//! linux: mm/page_isolation.c:start_isolate_page_range, undo_isolate_page_range, set_migratetype_isolate,
//! unset_migratetype_isolate; mm/page_alloc.c:__isolate_free_page; mm/compaction.c:isolate_freepages_range
//!
//! # Design
//!
//! Isolation is a count and a stored type. Linux 6.12 does not remember the type of an isolated pageblock, and refuses
//! a second isolation. Here the last range that releases a pageblock restores its type. A failed attempt therefore
//! leaves the allocator unchanged, and two ranges may share a pageblock without a mutex around both. The value that
//! represents the isolation undoes it when it is dropped, so no error path can omit that.

use core::ops::Range;

use super::alloc::Holder;
use super::allocator::PageAllocator;
use super::error::{ContigError, FreeError, RangeError};
use super::zone::{LockedZone, Zone};
use crate::base::word::Word;
use crate::base::{Gfp, MigrateType, Order, Pfn, ZoneKind};
use crate::platform::Platform;
use crate::policy::flags::AllocFlags;

/// Isolated pageblocks of a range. Dropping the value ends this range's isolation: pageblocks that no other range
/// isolates get their types back, and their free blocks merge again.
pub(in crate::page) struct Isolation<'a, 'm, P: Platform> {
    allocator: &'a PageAllocator<'m, P>,
    zone: &'a Zone<P::Lock>,
    blocks: Range<Pfn>,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Isolates every pageblock of a zone that has frames in the range. Cost: one hold of the zone lock per pageblock,
    /// with at most one step per frame. If a pageblock has left the zone meanwhile, or is isolated by the maximum
    /// number of ranges, nothing remains isolated and the error names the pageblock.
    /// linux: mm/page_isolation.c:start_isolate_page_range
    pub(in crate::page) fn start_isolate_page_range<'a>(
        &'a self,
        zone: &'a Zone<P::Lock>,
        range: &Range<Pfn>,
    ) -> Result<Isolation<'a, 'm, P>, ContigError> {
        let mut isolation = self.isolate_nothing(zone, range.start);
        isolation.extend_to(range.end)?;
        Ok(isolation)
    }

    /// Returns an isolation without pageblocks, which begins at the pageblock of a frame.
    pub(in crate::page) fn isolate_nothing<'a>(&'a self, zone: &'a Zone<P::Lock>, pfn: Pfn) -> Isolation<'a, 'm, P> {
        let first = pfn.align_down(self.map.pageblock_order());
        Isolation { allocator: self, zone, blocks: first..first }
    }

    /// Allocates exactly this block, with one reference, if it is within one free block of its zone. Returns whether
    /// the block was allocated. Per-CPU lists are not searched, and watermarks are ignored. The rest of the free block
    /// stays free.
    ///
    /// # Errors
    /// If the frame's memory is not online or is Reserved, or no block of this order can start there.
    pub fn isolate_free_page(&self, pfn: Pfn, order: Order, gfp: Gfp) -> Result<bool, FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let word = frame.word();
        if word.is_absent() {
            return Err(FreeError::OutOfRange { pfn });
        }
        if !pfn.is_aligned(order) || word.is_reserved() {
            return Err(FreeError::NotAllocated { pfn, state: word.state() });
        }
        let mut locked = self.lock_zone_of(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        Ok(locked.take_page_off_buddy(pfn, order, Holder::CALLER.word(gfp, order)))
    }

    /// Allocates a block of this order and of the request's type from the free lists of the zone that contains `near`,
    /// with one reference. Per-CPU lists and watermarks are ignored. Returns `None` if there is no such block, the
    /// flags contradict each other, or `near` is Reserved or not online.
    pub fn isolate_free_page_near(&self, near: Pfn, order: Order, gfp: Gfp) -> Option<Pfn> {
        self.map.try_frame(near).filter(|frame| !frame.word().is_reserved() && !frame.word().is_absent())?;
        let mut locked = self.lock_zone_of(near)?;
        let pfn = locked.smallest(order, gfp.migratetype()?)?;
        locked.take_page_off_buddy(pfn, order, Holder::CALLER.word(gfp, order)).then_some(pfn)
    }
}

impl<P: Platform> Isolation<'_, '_, P> {
    /// Moves the isolation on to a range that ends no earlier than the isolation. Pageblocks before the range get their
    /// types back, those that are isolated already stay so, and the others are isolated. Returns whether there were
    /// others. Cost: one hold of the zone lock per pageblock that changes.
    ///
    /// # Errors
    /// The first frame of the pageblock that could not be isolated. Those before it are isolated.
    pub(in crate::page) fn move_to(&mut self, range: &Range<Pfn>) -> Result<bool, Pfn> {
        let first = range.start.align_down(self.allocator.map.pageblock_order());
        debug_assert!(
            self.blocks.is_empty() || self.blocks.start <= first,
            "isolation: range {range:?} begins before the isolated pageblocks {:?}",
            self.blocks
        );
        self.undo_before(first);
        if self.blocks.is_empty() {
            self.blocks = first..first;
        }
        let before = self.blocks.end;
        match self.extend_to(range.end) {
            Ok(()) => Ok(self.blocks.end > before),
            Err(_) => Err(self.blocks.end),
        }
    }

    /// Isolates the pageblocks that follow, up to the one with the last frame before `end`.
    fn extend_to(&mut self, end: Pfn) -> Result<(), ContigError> {
        let map = &self.allocator.map;
        while self.blocks.end < end {
            let block = self.blocks.end;
            let mut locked = self.allocator.lock_zone(self.zone);
            if usize::from(map.pageblock(block).zone()) != self.zone.index() {
                // The pageblock went offline after the range was checked.
                return Err(RangeError::OutOfRange { pfn: block }.into());
            }
            if !locked.set_migratetype_isolate(block) {
                // The pageblock's count of isolations is at its maximum.
                return Err(ContigError::Busy { pfn: block, state: map.frame(block).word().state() });
            }
            // The end is moved before the lock is released, because the probe is notified of the release and may panic.
            self.blocks.end = block.offset(map.pageblock_order().pages());
            drop(locked);
        }
        Ok(())
    }

    fn undo_before(&mut self, end: Pfn) {
        let pages = self.allocator.map.pageblock_order().pages();
        while !self.blocks.is_empty() && self.blocks.start < end {
            let block = self.blocks.start;
            self.blocks.start = block.offset(pages);
            self.allocator.lock_zone(self.zone).unset_migratetype_isolate(block);
        }
    }
}

impl<P: Platform> Drop for Isolation<'_, '_, P> {
    fn drop(&mut self) {
        let end = self.blocks.end;
        Rest(self).0.undo_before(end);
    }
}

/// Ends the rest of the isolation if the probe panics when a zone lock is released.
struct Rest<'i, 'a, 'm, P: Platform>(&'i mut Isolation<'a, 'm, P>);

impl<P: Platform> Drop for Rest<'_, '_, '_, P> {
    fn drop(&mut self) {
        let end = self.0.blocks.end;
        self.0.undo_before(end);
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Isolates a pageblock. Returns `false` if its count of isolations is at its maximum.
    /// linux: mm/page_isolation.c:set_migratetype_isolate
    pub(in crate::page) fn set_migratetype_isolate(&mut self, block: Pfn) -> bool {
        let pageblock = self.map.pageblock(block);
        match pageblock.isolations() {
            u8::MAX => return false,
            0 => {
                let old = pageblock.migratetype();
                pageblock.add_isolation();
                self.split_at_pageblocks(block);
                self.move_freepages_block(block, old, MigrateType::Isolate);
            }
            _ => pageblock.add_isolation(),
        }
        true
    }

    /// Ends one isolation of a pageblock. The pageblock gets its type back unless it is isolated by other ranges.
    /// linux: mm/page_isolation.c:unset_migratetype_isolate
    pub(in crate::page) fn unset_migratetype_isolate(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        debug_assert!(
            usize::from(pageblock.zone()) == self.zone.index(),
            "isolation: pageblock {block} belongs to zone {}, but is isolated in zone {}",
            pageblock.zone(),
            self.zone.index()
        );
        pageblock.drop_isolation();
        if pageblock.isolations() > 0 {
            return;
        }
        let kept = pageblock.lasting_migratetype();
        self.split_at_pageblocks(block);
        self.move_freepages_block(block, MigrateType::Isolate, kept);
        if self.map.frame(block).word().is_zone_free_of(self.pageblock_order()) {
            self.merge_alike(block);
        }
    }

    /// Takes all frames of a range off the free lists, or none. Frames that are on no free list are accepted if
    /// `goes_along` returns true for their word. The first frame that is neither is returned as the error.
    /// linux: mm/compaction.c:isolate_freepages_range
    pub(in crate::page) fn isolate_freepages_range(
        &mut self,
        range: &Range<Pfn>,
        goes_along: impl Fn(Word) -> bool,
    ) -> Result<(), Pfn> {
        let mut at = range.start;
        while at < range.end {
            let word = self.map.frame(at).word();
            at = match self.buddy_block_around(at) {
                Some((head, order)) => head.offset(order.pages()),
                None if goes_along(word) => at.offset(1),
                None => return Err(at),
            };
        }
        let mut next = range.start;
        while next < range.end {
            next = match self.buddy_block_around(next) {
                Some((head, order)) => {
                    let end = head.offset(order.pages());
                    self.break_down_buddy_pages(head, next..end.min(range.end));
                    end
                }
                None => next.offset(1),
            };
        }
        Ok(())
    }

    /// Returns the order of the free block of this zone that starts at a frame, if there is one.
    pub(in crate::page) fn free_order_at(&self, pfn: Pfn) -> Option<Order> {
        let (frame, pageblock) = self.map.try_frame_and_pageblock(pfn)?;
        let word = frame.word();
        (word.is_zone_free() && usize::from(pageblock.zone()) == self.zone.index()).then(|| word.order())
    }

    /// Takes a free block off its list and claims it, unless the zone would then be below its min watermark. Returns
    /// whether the block was taken. If it is at least half a pageblock, its pageblocks become Movable.
    pub(in crate::page) fn isolate_free_page(&mut self, pfn: Pfn) -> bool {
        let order = self.map.frame(pfn).word().order();
        let mark = self.zone.watermarks().min + u64::from(order.pages());
        if !self.zone.watermark_ok(Order::ZERO, mark, ZoneKind::Dma, AllocFlags::CMA) {
            return false;
        }
        let (_, migratetype) = self.del_page_from_free_list(pfn);
        self.account_out(order.pages(), migratetype);
        self.map.frame(pfn).set(Word::claimed_of(order));
        // If the block is at least half a pageblock, most of the pageblock will hold movable pages. The pageblock
        // therefore becomes Movable, together with all its free pages.
        let block = self.pageblock_order();
        if order.get() + 1 >= block.get() {
            let first = pfn.align_down(block);
            for (at, _) in first.blocks_up_to(first.offset(order.max(block).pages()), block) {
                let old = self.map.pageblock(at).migratetype();
                if old.is_mergeable() {
                    self.move_freepages_block(at, old, MigrateType::Movable);
                }
            }
        }
        true
    }
}
