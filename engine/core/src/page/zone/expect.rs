//! Checks of a zone's state in debug builds. Each takes a few loads under the zone lock, when the state changes.

use super::{FreeAreas, LockedZone, Zone, bit};
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::Platform;

impl<L> Zone<L> {
    /// Checks that the hint about the list of this order and type, which is read without the lock, is right. The caller
    /// holds the zone lock.
    #[inline]
    pub(super) fn expect_hint(&self, areas: &FreeAreas, order: Order, migratetype: MigrateType) {
        debug_assert!(
            self.has_block_at(order, bit(migratetype)) == areas.area(order).has(migratetype),
            "zone: the hint for blocks of order {} and type {migratetype:?} is {}, but their presence is {}",
            order.get(),
            self.has_block_at(order, bit(migratetype)),
            areas.area(order).has(migratetype)
        );
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Checks that a frame is in this zone, by its pageblock.
    #[inline]
    pub(super) fn expect_own(&self, pfn: Pfn) {
        debug_assert!(
            usize::from(self.map.pageblock(pfn).zone()) == self.zone.index(),
            "zone: frame {pfn} belongs to zone {}, but is on the lists of zone {}",
            self.map.pageblock(pfn).zone(),
            self.zone.index()
        );
    }

    /// Checks that a free block is on the list of this type. All free blocks of a pageblock are on lists of the
    /// pageblock's type. linux: mm/page_alloc.c:__del_page_from_free_list
    #[inline]
    pub(super) fn expect_type(&self, pfn: Pfn, migratetype: MigrateType) {
        debug_assert!(
            self.map.frame(pfn).word().migratetype() == migratetype,
            "zone: frame {pfn} is on a list of type {:?}, but in a pageblock of type {migratetype:?}",
            self.map.frame(pfn).word().migratetype()
        );
    }
}
