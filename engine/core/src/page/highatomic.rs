//! The high-atomic reserve: pageblocks set aside for requests above order 0 that cannot wait.
//!
//! It grows by the block of such a request that was served, up to a hundredth of the zone, and shrinks when requests
//! that can wait would otherwise fail: one block at a time, which becomes what that request needs. Under the policy
//! `give-back` it also shrinks in the background, by blocks that nobody uses. Which request reserves, and how much is
//! idle, is `policy/highatomic`'s to say.
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
    /// Notes that a request which may use the reserve was served with the block at `pfn`, whose pageblock may join it.
    /// linux: mm/page_alloc.c:reserve_highatomic_pageblock
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

    /// Gives one reserved pageblock of a zone that the request may use to requests of its type; says whether that made
    /// pages free for them. linux: mm/page_alloc.c:unreserve_highatomic_pageblock
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

    /// Makes reserved pageblocks of a node that nobody uses movable memory again, if the policy gives back; to be
    /// called twice a second. Cost: a load a zone; where there is a reserve, one hold of its lock, with a few list
    /// links for each pageblock given.
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
