//! The high-atomic reserve: pageblocks that are reserved for requests above order 0 that cannot wait.
//!
//! The reserve may grow by the pageblock of such a request after the request was served, up to about a hundredth of the
//! zone. It shrinks when reclaim was not enough for a request that can wait: one pageblock at a time gets the type of
//! that request. Under the policy `give-back` it also shrinks in the background, by pageblocks that are not used.
//! `policy/highatomic` decides which requests reserve and how much of the reserve is idle.
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock

use super::allocator::PageAllocator;
use super::zone::Zone;
use crate::base::{MigrateType, NodeId, Pfn};
use crate::platform::probe::ServedFrom;
use crate::platform::{Event, Platform, Request};
use crate::policy::ReserveLeaving;
use crate::policy::highatomic::{self, ServedRequest, Unreserve};

impl<P: Platform> PageAllocator<'_, P> {
    /// Handles the block at `pfn`, which served a request that may use the reserve: its pageblock joins the reserve if
    /// the policy, the cap and the pageblock's type allow it. linux: mm/page_alloc.c:reserve_highatomic_pageblock
    #[cold]
    #[inline(never)]
    pub(super) fn reserve_highatomic_pageblock(&self, zone: &Zone<P::Lock>, pfn: Pfn, served: ServedRequest) {
        if served.by_list {
            self.report(Event::HighAtomicServed { order: served.order, from: ServedFrom::List });
        }
        let cap = highatomic::cap(zone.managed(), self.pageblock_pages());
        if !highatomic::grows(self.rules().highatomic, served) || zone.reserved_highatomic() >= cap {
            return;
        }
        let mut locked = self.lock_zone(zone);
        if locked.zone.reserved_highatomic() < cap {
            locked.reserve_pageblock(pfn, served.order);
        }
    }

    /// Removes the pageblock of the smallest free block from the reserve of the first zone that the request may use and
    /// that has such a block. The pageblock gets the request's type, or becomes Unmovable under
    /// [`ReserveLeaving::Unmovable`]. Returns whether there was such a block.
    /// linux: mm/page_alloc.c:unreserve_highatomic_pageblock
    pub(super) fn unreserve_highatomic_pageblock(&self, request: &Request, eagerness: Unreserve) -> bool {
        let migratetype = match self.rules().reserve.leaving {
            ReserveLeaving::ForRequest => request.migratetype,
            ReserveLeaving::Unmovable => MigrateType::Unmovable,
        };
        self.zones_for(request).any(|zone| {
            eagerness.applies(zone.reserved_highatomic(), self.pageblock_pages())
                && self.lock_zone(zone).unreserve_smallest_pageblock(migratetype) > 0
        })
    }

    /// Turns idle pageblocks of a node's reserve into movable memory, if the policy gives back. Must be called twice a
    /// second. Cost: one load per zone; for a zone with a reserve, one hold of its lock and a few list links per
    /// pageblock.
    pub(in crate::page) fn unreserve_idle_highatomic(&self, node: NodeId) {
        if !highatomic::gives_back(self.rules().highatomic) {
            return;
        }
        for zone in self.zones {
            if zone.node() == node && zone.reserved_highatomic() > 0 {
                self.lock_zone(zone).unreserve_idle();
            }
        }
    }
}
