//! [`LockedZone`]: a zone whose lock is held. All methods that need the lock are methods of this type.
//!
//! This file has the basic operations: a block joins a free list or leaves one, and is counted. The other files of this
//! folder build on them: `buddy` splits and merges, `fallback` searches for a block, `reserve` manages the high-atomic
//! reserve, and `ownership` records the owners of pageblocks. `isolation`, outside of this folder, takes blocks and
//! pageblocks by their numbers. When the lock is released, the flags that depend on the number of free pages and
//! pageblocks are updated, and the number of moved pages is reported to the probe.

use core::sync::atomic::Ordering::Relaxed;

use super::fragments::Fragments;
use super::free_area::{End, FreeAreas};
use super::{Zone, bit};
use crate::base::lock::Guard;
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::platform::{Event, Platform, Probe};
use crate::policy::fallback::Grouping;

/// A zone whose lock is held until this value is dropped.
pub(in crate::page) struct LockedZone<'a, 'm, P: Platform> {
    pub(in crate::page) zone: &'a Zone<P::Lock>,
    pub(in crate::page) map: MemMap<'m>,
    pub(in crate::page) areas: Guard<'a, P::Lock, FreeAreas>,
    pub(in crate::page) probe: &'a P::Probe,
    pub(in crate::page) boost_factor: u32,
    pub(in crate::page) grouping: Grouping,
    /// Owned pageblocks that may have free pages in a zone, ordered by CPU, then by zone.
    fragments: &'m [Fragments],
    zones: usize,
    /// Pages moved to or from the free lists during this hold.
    moved: u32,
    /// Insertions into and removals from free lists during this hold.
    links: u32,
    /// Set if a whole pageblock joined the free lists or left them.
    whole_changed: bool,
}

impl<'a, 'm, P: Platform> LockedZone<'a, 'm, P> {
    /// Waits for a zone's lock. `fragments` holds the owned pageblocks that may have free pages in a zone, ordered by
    /// CPU, then by zone; `zones` is the number of zones.
    #[inline]
    pub(in crate::page) fn lock(
        zone: &'a Zone<P::Lock>,
        map: MemMap<'m>,
        probe: &'a P::Probe,
        (fragments, zones): (&'m [Fragments], usize),
        boost_factor: u32,
        grouping: Grouping,
    ) -> LockedZone<'a, 'm, P> {
        LockedZone {
            zone,
            map,
            areas: zone.areas.lock(),
            probe,
            boost_factor,
            grouping,
            fragments,
            zones,
            moved: 0,
            links: 0,
            whole_changed: false,
        }
    }
}

impl<'m, P: Platform> LockedZone<'_, 'm, P> {
    /// Returns the pageblocks of this zone that a CPU owns and that may have free pages in the zone.
    pub(super) fn fragments_of(&self, owner: CpuId) -> &'m Fragments {
        debug_assert!(
            owner.index() < self.fragments.len() / self.zones,
            "zone: a pageblock is owned by CPU {}, but there are {} CPUs",
            owner.0,
            self.fragments.len() / self.zones
        );
        &self.fragments[owner.index() * self.zones + self.zone.index()]
    }

    pub(in crate::page) fn pageblock_order(&self) -> Order {
        self.map.pageblock_order()
    }

    /// Puts a block on its free list and sets its word. linux: mm/page_alloc.c:__add_to_free_list
    #[inline(never)]
    pub(in crate::page) fn add_to_free_list(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType, end: End) {
        self.links += 1;
        self.zone.expect_hint(&self.areas, order, migratetype);
        self.expect_own(pfn);
        self.areas.insert(&self.map, pfn, order, migratetype, end);
        let occupied = &self.zone.stock.occupied[order.index()];
        occupied.store(occupied.load(Relaxed) | bit(migratetype), Relaxed);
        self.whole_changed |= order >= self.pageblock_order();
    }

    /// Takes a free block off the list that its word names. The caller must set its word.
    /// linux: mm/page_alloc.c:__del_page_from_free_list
    #[inline(never)]
    pub(in crate::page) fn del_page_from_free_list(&mut self, pfn: Pfn) -> (Order, MigrateType) {
        self.links += 1;
        let word = self.map.frame(pfn).word();
        debug_assert!(word.is_zone_free() && word.is_sound(), "zone: frame {pfn} is on no free list: {word:?}");
        self.expect_own(pfn);
        let (order, migratetype) = (word.order(), word.migratetype());
        self.zone.expect_hint(&self.areas, order, migratetype);
        if self.areas.remove(&self.map, pfn, order, migratetype) {
            let occupied = &self.zone.stock.occupied[order.index()];
            occupied.store(occupied.load(Relaxed) & !bit(migratetype), Relaxed);
        }
        self.whole_changed |= order >= self.pageblock_order();
        (order, migratetype)
    }

    /// Returns the first block of this type, of the smallest order from `order` up that has one, or `None`.
    #[inline(never)]
    pub(in crate::page) fn smallest(&self, order: Order, migratetype: MigrateType) -> Option<Pfn> {
        let found = order
            .to(Order::MAX)
            .find(|order| self.zone.stock.occupied[order.index()].load(Relaxed) & bit(migratetype) != 0)?;
        self.zone.expect_hint(&self.areas, found, migratetype);
        let first = self.areas.area(found).list(migratetype).first();
        debug_assert!(
            first.is_some_and(|first| self.map.frame(first).word() == Word::zone_free(found, migratetype)),
            "zone: the list of order {} and type {migratetype:?} begins with a block of another list, frame {first:?}",
            found.get()
        );
        first
    }

    /// Counts pages that join the free lists, in the report of this hold and in the zone's counters.
    pub(in crate::page) fn account_in(&mut self, pages: u32, migratetype: MigrateType) {
        self.moved += pages;
        self.zone.account_freepages(i64::from(pages), migratetype);
    }

    /// Counts pages that leave the free lists, as the opposite of [`LockedZone::account_in`].
    pub(in crate::page) fn account_out(&mut self, pages: u32, migratetype: MigrateType) {
        self.moved += pages;
        self.zone.account_freepages(-i64::from(pages), migratetype);
    }

    /// Counts pages that change from one type to another and remain free.
    #[inline(never)]
    pub(in crate::page) fn account_moved(&mut self, pages: u32, old: MigrateType, new: MigrateType) {
        self.zone.account_freepages(-i64::from(pages), old);
        self.zone.account_freepages(i64::from(pages), new);
    }
}

impl<P: Platform> Drop for LockedZone<'_, '_, P> {
    fn drop(&mut self) {
        self.zone.note_level();
        if self.whole_changed {
            self.zone.note_whole(self.areas.whole(self.map.pageblock_order()));
        }
        self.probe.report(Event::ZoneLockReleased { zone: self.zone.index, pages: self.moved, links: self.links });
    }
}
