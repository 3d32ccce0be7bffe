//! The high-atomic reserve under the zone lock: allocation from the reserve, and the pageblocks that join and leave it.
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock, rmqueue_buddy

use super::fallback::{BlockRequest, Cursor};
use super::locked::LockedZone;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::probe::ServedFrom;
use crate::platform::{Event, Platform, Probe};
use crate::policy::flags::AllocFlags;
use crate::policy::highatomic;

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Takes a block, including from the high-atomic reserve if the request may use it. A request for which the reserve
    /// is kept uses it first; other requests use it only if they would fail otherwise.
    /// linux: mm/page_alloc.c:rmqueue_buddy
    pub(in crate::page) fn rmqueue_buddy(&mut self, wanted: BlockRequest) -> Option<Pfn> {
        let BlockRequest { order, flags, .. } = wanted;
        let is_kept_for = flags.contains(AllocFlags::HIGHATOMIC);
        if is_kept_for && let Some(pfn) = self.rmqueue_smallest(order, MigrateType::HighAtomic) {
            self.probe.report(Event::HighAtomicServed { order, from: ServedFrom::Reserve });
            return Some(pfn);
        }
        if let Some(pfn) = self.rmqueue(wanted, &mut Cursor::Normal) {
            if is_kept_for {
                self.probe.report(Event::HighAtomicServed { order, from: ServedFrom::Ordinary });
            }
            return Some(pfn);
        }
        // Requests that cannot wait, and tasks that are being ended, may also use the reserve before they fail.
        let is_last_resort =
            flags.intersects(AllocFlags::OOM | AllocFlags::NON_BLOCK) || self.zone.opens_reserve(order, flags);
        if is_last_resort { self.rmqueue_smallest(order, MigrateType::HighAtomic) } else { None }
    }

    /// Moves the pageblock of an allocated block, or the pageblocks in it, to the high-atomic reserve. Does nothing if
    /// one of them is of a type that must not change, such as one that is reserved already, or is not wholly within the
    /// zone's span. linux: mm/page_alloc.c:reserve_highatomic_pageblock
    pub(in crate::page) fn reserve_pageblock(&mut self, pfn: Pfn, order: Order) {
        let block_order = self.pageblock_order();
        let block = pfn.align_down(block_order);
        let old = self.map.pageblock(pfn).migratetype();
        let mut blocks = block.blocks_up_to(block.offset(order.max(block_order).pages()), block_order);
        if blocks.any(|(block, _)| !self.map.pageblock(block).migratetype().is_mergeable()) {
            return;
        }
        let pages = if order < block_order {
            if !self.spans_block(block) {
                return;
            }
            self.move_freepages_block(block, old, MigrateType::HighAtomic);
            block_order.pages()
        } else {
            self.change_pageblock_range(pfn, order, MigrateType::HighAtomic);
            order.pages()
        };
        self.zone.set_reserved_highatomic(self.zone.reserved_highatomic() + u64::from(pages));
        self.probe.report(Event::Reserve { zone: self.zone.index() as u8, order });
    }

    /// Gives the pageblock of the smallest free reserved block another type. Returns the number of free pages moved; 0
    /// if the reserve has no free block.
    pub(in crate::page) fn unreserve_smallest_pageblock(&mut self, migratetype: MigrateType) -> u32 {
        self.smallest(Order::ZERO, MigrateType::HighAtomic).map_or(0, |pfn| self.unreserve_pageblock(pfn, migratetype))
    }

    /// Gives the pageblock around a free reserved block, or the pageblocks in it, another type. Returns the number of
    /// free pages moved. linux: mm/page_alloc.c:unreserve_highatomic_pageblock
    fn unreserve_pageblock(&mut self, pfn: Pfn, migratetype: MigrateType) -> u32 {
        let order = self.map.frame(pfn).word().order();
        let block_order = self.pageblock_order();
        let reserved = self.zone.reserved_highatomic();
        let pages = u64::from(order.max(block_order).pages()).min(reserved);
        self.zone.set_reserved_highatomic(reserved - pages);
        let moved = if order < block_order {
            self.move_freepages_block(pfn.align_down(block_order), MigrateType::HighAtomic, migratetype)
        } else {
            self.move_to_free_list(pfn, migratetype);
            self.change_pageblock_range(pfn, order, migratetype);
            self.account_moved(order.pages(), MigrateType::HighAtomic, migratetype);
            order.pages()
        };
        self.probe.report(Event::Unreserve { zone: self.zone.index() as u8 });
        moved
    }

    /// Makes free reserved pageblocks movable, as many as the policy considers idle.
    pub(in crate::page) fn unreserve_idle(&mut self) {
        let idle = self.zone.reset_idle_highatomic();
        let pageblock_pages = u64::from(self.pageblock_order().pages());
        let mut left = highatomic::idle_to_give(idle, self.zone.reserved_highatomic(), pageblock_pages);
        while left > 0
            && let Some(pfn) = self.smallest(self.pageblock_order(), MigrateType::HighAtomic)
        {
            self.split_at_pageblocks(pfn);
            self.unreserve_pageblock(pfn, MigrateType::Movable);
            self.merge_alike(pfn);
            left -= pageblock_pages;
        }
    }
}
