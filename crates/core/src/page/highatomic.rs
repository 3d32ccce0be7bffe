//! The high-atomic reserve: pageblocks set aside for requests above order 0 that cannot wait.
//!
//! It grows by the block of each such request that was served, up to a hundredth of the zone, and
//! shrinks one block at a time, when requests that can wait would otherwise fail.
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock

use super::PageAllocator;
use super::zone::{LockedZone, Zone};
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::{Event, Platform, Probe, Request};
use crate::policy::highatomic::{self, Unreserve};

impl<P: Platform> PageAllocator<'_, P> {
    /// Lets the pageblock around an allocated block join the reserve.
    pub(super) fn reserve_highatomic(&self, zone: &Zone<P::Lock>, pfn: Pfn, order: Order) {
        let cap = highatomic::cap(zone.managed(), self.pageblock_pages());
        if !highatomic::grows(self.policy.highatomic, order) || zone.reserved_highatomic() >= cap {
            return;
        }
        let mut locked = self.lock_zone(zone);
        if locked.zone.reserved_highatomic() < cap {
            locked.reserve(pfn, order);
        }
    }

    /// Gives one reserved pageblock of a zone that the request may use to requests of its type; says whether that made
    /// pages free for them.
    pub(super) fn unreserve_highatomic(&self, request: &Request, eagerness: Unreserve) -> bool {
        self.zones_for(request).any(|zone| {
            eagerness.applies(zone.reserved_highatomic(), self.pageblock_pages())
                && self.lock_zone(zone).unreserve(request.migratetype)
        })
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    fn reserve(&mut self, pfn: Pfn, order: Order) {
        let block_order = self.pageblock_order();
        let block = pfn.align_down(block_order);
        let old = self.map.pageblock(pfn).migratetype();
        if !old.is_mergeable() {
            return;
        }
        let pages = if order < block_order {
            if !self.spans_block(block) {
                return;
            }
            self.retype_block(block, old, MigrateType::HighAtomic);
            block_order.pages()
        } else {
            self.retype_pageblocks(pfn, order, MigrateType::HighAtomic);
            order.pages()
        };
        self.zone.set_reserved_highatomic(self.zone.reserved_highatomic() + u64::from(pages));
        self.probe.report(Event::Reserve { zone: self.zone.index() as u8, order });
    }

    fn unreserve(&mut self, migratetype: MigrateType) -> bool {
        let Some((order, pfn)) =
            Order::all().find_map(|order| Some((order, self.areas.area(order).list(MigrateType::HighAtomic).first()?)))
        else {
            return false;
        };
        let block_order = self.pageblock_order();
        let reserved = self.zone.reserved_highatomic();
        let pages = u64::from(order.max(block_order).pages()).min(reserved);
        self.zone.set_reserved_highatomic(reserved - pages);
        let moved = if order < block_order {
            self.retype_block(pfn.align_down(block_order), MigrateType::HighAtomic, migratetype)
        } else {
            self.move_to_tail(pfn, migratetype);
            self.retype_pageblocks(pfn, order, migratetype);
            self.account_retyped(order.pages(), MigrateType::HighAtomic, migratetype);
            order.pages()
        };
        self.probe.report(Event::Unreserve { zone: self.zone.index() as u8 });
        moved > 0
    }
}
