//! The high-atomic reserve: pageblocks set aside for requests above order 0 that cannot wait.
//!
//! It grows by the block of such a request that was served, up to a hundredth of the zone, and shrinks when requests
//! that can wait would otherwise fail: one block at a time, which becomes what that request needs. Under the policy
//! `give-back` it also shrinks in the background, by blocks that nobody uses. Which request reserves, and how much is
//! idle, is `policy/highatomic`'s to say.
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock

use super::PageAllocator;
use super::zone::{LockedZone, Zone};
use crate::base::{MigrateType, NodeId, Order, Pfn};
use crate::platform::probe::ServedFrom;
use crate::platform::{Event, Platform, Probe, Request};
use crate::policy::highatomic::{self, Served, Unreserve};

impl<P: Platform> PageAllocator<'_, P> {
    /// Notes that a request which may use the reserve was served with the block at `pfn`, whose pageblock may join it.
    #[cold]
    #[inline(never)]
    pub(super) fn note_highatomic(&self, zone: &Zone<P::Lock>, pfn: Pfn, served: Served) {
        if served.by_list {
            self.report(Event::HighAtomicServed { order: served.order, from: ServedFrom::List });
        }
        let cap = highatomic::cap(zone.managed(), self.pageblock_pages());
        if !highatomic::grows(self.rules().highatomic, served) || zone.reserved_highatomic() >= cap {
            return;
        }
        let mut locked = self.lock_zone(zone);
        if locked.zone.reserved_highatomic() < cap {
            locked.reserve(pfn, served.order);
        }
    }

    /// Gives one reserved pageblock of a zone that the request may use to requests of its type; says whether that made
    /// pages free for them.
    pub(super) fn unreserve_highatomic(&self, request: &Request, eagerness: Unreserve) -> bool {
        self.zones_for(request).any(|zone| {
            eagerness.applies(zone.reserved_highatomic(), self.pageblock_pages())
                && self.lock_zone(zone).unreserve_smallest(request.migratetype) > 0
        })
    }

    /// Makes reserved pageblocks of a node that nobody uses movable memory again, if the policy gives back; to be
    /// called twice a second. Cost: a load a zone; where there is a reserve, one hold of its lock, with a few list
    /// links for each pageblock given.
    pub(in crate::page) fn give_back_reserve(&self, node: NodeId) {
        if !highatomic::gives_back(self.rules().highatomic) {
            return;
        }
        let has_reserve = |zone: &&Zone<P::Lock>| zone.node() == node && zone.reserved_highatomic() > 0;
        for zone in self.zones.iter().filter(has_reserve) {
            self.lock_zone(zone).give_back_idle();
        }
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    fn reserve(&mut self, pfn: Pfn, order: Order) {
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
            self.retype_block(block, old, MigrateType::HighAtomic);
            block_order.pages()
        } else {
            self.retype_pageblocks(pfn, order, MigrateType::HighAtomic);
            order.pages()
        };
        self.zone.set_reserved_highatomic(self.zone.reserved_highatomic() + u64::from(pages));
        self.probe.report(Event::Reserve { zone: self.zone.index() as u8, order });
    }

    /// Gives the pageblock of the smallest free reserved block another type; says how many free pages went with it.
    fn unreserve_smallest(&mut self, migratetype: MigrateType) -> u32 {
        self.smallest(Order::ZERO, MigrateType::HighAtomic).map_or(0, |pfn| self.unreserve(pfn, migratetype))
    }

    /// Gives the pageblock around a free reserved block, or the pageblocks that are in it, another type; says how many
    /// free pages went with it.
    fn unreserve(&mut self, pfn: Pfn, migratetype: MigrateType) -> u32 {
        let order = self.map.frame(pfn).word().order();
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
        moved
    }

    /// Makes free reserved pageblocks movable, as many as the policy finds idle.
    fn give_back_idle(&mut self) {
        let idle = self.zone.take_idle_highatomic();
        let pageblock_pages = u64::from(self.pageblock_order().pages());
        let mut left = highatomic::idle_to_give(idle, self.zone.reserved_highatomic(), pageblock_pages);
        while left > 0
            && let Some(pfn) = self.smallest(self.pageblock_order(), MigrateType::HighAtomic)
        {
            self.split_at_pageblocks(pfn);
            self.unreserve(pfn, MigrateType::Movable);
            self.merge_alike(pfn);
            left -= pageblock_pages;
        }
    }
}
