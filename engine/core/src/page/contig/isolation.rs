//! Pageblocks out of circulation: nothing is allocated from them any more, and what is freed there stays there.
//!
//! An isolated pageblock's free blocks are on the Isolate lists, which no request looks at, and are not counted as
//! free. A page of it that a CPU still has on its list can be allocated until that list is drained; the call that wants
//! the range looks again. Several ranges may share a pageblock: the last to let go of it gives it its type back.
//!
//! linux: mm/page_isolation.c:start_isolate_page_range, undo_isolate_page_range

use core::ops::Range;

use crate::base::Pfn;
use crate::page::zone::Zone;
use crate::page::{ContigError, PageAllocator, RangeError};
use crate::platform::Platform;

/// Isolated pageblocks. Dropping it puts them back into circulation, with the types that they had; free blocks merge
/// again.
pub(in crate::page) struct Isolation<'a, 'm, P: Platform> {
    allocator: &'a PageAllocator<'m, P>,
    zone: &'a Zone<P::Lock>,
    blocks: Range<Pfn>,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Isolates every pageblock of a zone that has frames in the range. Cost: a hold of the zone lock for each, with
    /// at most one step a frame.
    pub(in crate::page) fn isolate_range<'a>(
        &'a self,
        zone: &'a Zone<P::Lock>,
        range: &Range<Pfn>,
    ) -> Result<Isolation<'a, 'm, P>, ContigError> {
        let first = range.start.align_down(self.map.pageblock_order());
        let mut isolation = Isolation { allocator: self, zone, blocks: first..first };
        while isolation.blocks.end < range.end {
            let block = isolation.blocks.end;
            let mut locked = self.lock_zone(zone);
            if usize::from(self.map.pageblock(block).zone()) != zone.index() {
                // It went offline since it was looked at.
                return Err(RangeError::OutOfRange { pfn: block }.into());
            }
            if !locked.isolate_pageblock(block) {
                // More at once than a pageblock can count.
                return Err(ContigError::Busy { pfn: block, state: self.map.frame(block).word().state() });
            }
            // Noted before the lock opens, which the probe hears of: it may panic.
            isolation.blocks.end = block.offset(self.map.pageblock_order().pages());
            drop(locked);
        }
        Ok(isolation)
    }
}

impl<P: Platform> Isolation<'_, '_, P> {
    fn let_go(&mut self) {
        let pages = self.allocator.map.pageblock_order().pages();
        while !self.blocks.is_empty() {
            let block = self.blocks.start;
            self.blocks.start = block.offset(pages);
            self.allocator.lock_zone(self.zone).rejoin_pageblock(block);
        }
    }
}

impl<P: Platform> Drop for Isolation<'_, '_, P> {
    fn drop(&mut self) {
        Rest(self).0.let_go();
    }
}

/// What is left to let go of, should the probe panic when a lock opens.
struct Rest<'i, 'a, 'm, P: Platform>(&'i mut Isolation<'a, 'm, P>);

impl<P: Platform> Drop for Rest<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
