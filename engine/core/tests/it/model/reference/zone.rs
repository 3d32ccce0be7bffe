//! Free lists as queues, the rules of buddies, and the fallbacks of a request whose own lists are empty.

use std::collections::VecDeque;
use std::ops::Range;

use freehold::base::{MigrateType, NodeId, RawLock, ZoneKind};
use freehold::page;
use freehold::policy::flags::AllocFlags;

use MigrateType::{Cma, HighAtomic, Movable, Reclaimable, Unmovable};

use super::Block;
use super::map::{Map, Page};
use super::memory::Memory;

/// A zone. All quantities are in pages.
pub(crate) struct Zone {
    pub index: usize,
    pub node: NodeId,
    pub kind: ZoneKind,
    pub populated: bool,
    pub span: Range<u32>,
    pub managed: i64,
    pub min: i64,
    pub low: i64,
    pub high: i64,
    pub boost: i64,
    pub lowmem_reserve: [i64; 4],
    pub present: i64,
    pub lists: [[VecDeque<u32>; 6]; 11],
    /// Free pages by type of list.
    pub free: [i64; 6],
    pub reserved_highatomic: i64,
    /// Pages of the reserve that have been free since the last check.
    pub idle_highatomic: i64,
    pub below_high: bool,
    pub boosted: bool,
    pub reclaim_active: bool,
    /// Compaction's memory of the zone.
    pub memory: Memory,
    /// Order and type of the block for which compaction waits.
    pub awaited: Option<(u8, MigrateType)>,
    /// Block that was captured for compaction.
    pub caught: Option<u32>,
    /// A rule to break, to show that the comparison finds it.
    pub never_boosts: bool,
}

/// Stage at which the next search of a refill starts; the stages before it are known to fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Normal,
    Cma,
    Claim,
    Steal,
}

/// Parameters of a search for a block.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub order: u8,
    pub migratetype: MigrateType,
    pub flags: AllocFlags,
    pub grouping_off: bool,
}

impl Zone {
    /// Creates a zone of the same size and with the same watermarks, without free pages.
    pub(crate) fn like<L: RawLock>(zone: &page::Zone<L>) -> Zone {
        let marks = zone.watermarks();
        let (start, end) = zone.span();
        Zone {
            index: zone.index(),
            node: zone.node(),
            kind: zone.kind(),
            populated: zone.is_populated(),
            span: start.raw()..end.raw(),
            managed: zone.managed() as i64,
            present: zone.present() as i64,
            min: marks.min as i64,
            low: marks.low as i64,
            high: marks.high as i64,
            boost: 0,
            lowmem_reserve: ZoneKind::ALL.map(|kind| zone.lowmem_reserve(kind) as i64),
            lists: Default::default(),
            free: [0; 6],
            reserved_highatomic: 0,
            idle_highatomic: 0,
            below_high: false,
            boosted: false,
            reclaim_active: false,
            memory: Memory::default(),
            awaited: None,
            caught: None,
            never_boosts: false,
        }
    }

    pub(crate) fn insert(&mut self, map: &mut Map, pfn: u32, order: u8, migratetype: MigrateType, to_tail: bool) {
        let list = &mut self.lists[usize::from(order)][migratetype.index()];
        if to_tail {
            list.push_back(pfn)
        } else {
            list.push_front(pfn)
        }
        self.free[migratetype.index()] += 1 << order;
        map.heads.insert(pfn, (order, migratetype));
        map.paint(pfn, order, Page::Free);
    }

    pub(crate) fn remove(&mut self, map: &mut Map, pfn: u32) -> (u8, MigrateType) {
        let (order, migratetype) = map.heads.remove(&pfn).expect("the block is free");
        let list = &mut self.lists[usize::from(order)][migratetype.index()];
        let place = list.iter().position(|&at| at == pfn).expect("the block is on its list");
        list.remove(place);
        self.free[migratetype.index()] -= 1 << order;
        map.paint(pfn, order, Page::Gone);
        (order, migratetype)
    }

    pub(crate) fn free_buddy(&self, map: &Map, pfn: u32, order: u8) -> Option<MigrateType> {
        let &(found, migratetype) = map.heads.get(&pfn)?;
        (found == order && map.zone(pfn) == Some(self.index)).then_some(migratetype)
    }

    /// Frees a block: rule 5, free.
    pub(crate) fn free_one(
        &mut self,
        map: &mut Map,
        mut pfn: u32,
        mut order: u8,
        migratetype: MigrateType,
        to_tail: bool,
    ) {
        while order < 10 && !self.is_awaited(map, order, migratetype) {
            let buddy = pfn ^ 1 << order;
            let Some(theirs) = self.free_buddy(map, buddy, order) else { break };
            if order >= map.block && theirs != migratetype && (theirs as u8 >= 3 || migratetype as u8 >= 3) {
                break;
            }
            self.remove(map, buddy);
            if theirs != migratetype {
                map.set_types(buddy, order, migratetype);
            }
            pfn &= buddy;
            order += 1;
        }
        if self.is_awaited(map, order, migratetype) {
            self.awaited = None;
            self.caught = Some(pfn);
            map.note_caught((pfn, order));
            return;
        }
        let next_up = (pfn & !(1 << order)) ^ 2 << order;
        let likely = order < 9 && self.free_buddy(map, next_up, order + 1).is_some();
        self.insert(map, pfn, order, migratetype, to_tail || likely);
        map.note_freed((pfn, order));
    }

    /// Returns whether compaction waits for this block: rule 5, free, (a).
    fn is_awaited(&self, map: &Map, order: u8, migratetype: MigrateType) -> bool {
        self.awaited.is_some_and(|(wanted, for_type)| {
            let harms = order < map.block && migratetype == Movable && for_type != Movable;
            wanted == order && migratetype != Cma && migratetype != MigrateType::Isolate && !harms
        })
    }

    fn split(&mut self, map: &mut Map, pfn: u32, from: u8, to: u8, migratetype: MigrateType) {
        for half in (to..from).rev() {
            self.insert(map, pfn + (1 << half), half, migratetype, false);
        }
    }

    pub(crate) fn smallest(&mut self, map: &mut Map, order: u8, migratetype: MigrateType) -> Option<u32> {
        let (found, pfn) =
            (order..=10).find_map(|o| Some((o, *self.lists[usize::from(o)][migratetype.index()].front()?)))?;
        self.remove(map, pfn);
        self.split(map, pfn, found, order, migratetype);
        self.note_idle();
        Some(pfn)
    }

    /// Updates the count of idle pages after pages may have been taken from the reserve.
    fn note_idle(&mut self) {
        self.idle_highatomic = self.idle_highatomic.min(self.free[HighAtomic.index()]);
    }

    pub(crate) fn nr_free(&self) -> i64 {
        self.free.iter().sum()
    }

    /// Takes a block: rule 5, order of attempts.
    pub(crate) fn take(&mut self, map: &mut Map, search: Search, mode: &mut Mode) -> Option<u32> {
        let Search { order, migratetype, flags, .. } = search;
        let cma = flags.contains(AllocFlags::CMA);
        if cma && self.free[Cma.index()] > self.nr_free() / 2 {
            let pfn = self.smallest(map, order, Cma);
            if pfn.is_some() {
                return pfn;
            }
        }
        if *mode == Mode::Normal {
            let pfn = self.smallest(map, order, migratetype);
            if pfn.is_some() {
                return pfn;
            }
        }
        if *mode <= Mode::Cma && cma {
            let pfn = self.smallest(map, order, Cma);
            if pfn.is_some() {
                *mode = Mode::Cma;
                return pfn;
            }
        }
        if *mode <= Mode::Claim {
            let pfn = self.claim(map, search);
            if pfn.is_some() {
                *mode = Mode::Normal;
                return pfn;
            }
        }
        if flags.contains(AllocFlags::NOFRAGMENT) {
            return None;
        }
        let pfn = self.steal(map, search);
        if pfn.is_some() {
            *mode = Mode::Steal;
        }
        pfn
    }

    fn fallback(&self, order: u8, migratetype: MigrateType) -> Option<(MigrateType, u32)> {
        let others = match migratetype {
            Unmovable => [Reclaimable, Movable],
            Movable => [Reclaimable, Unmovable],
            Reclaimable => [Unmovable, Movable],
            other => panic!("no request has the type {other}"),
        };
        others.into_iter().find_map(|other| Some((other, *self.lists[usize::from(order)][other.index()].front()?)))
    }

    /// Returns whether the free list of an order and a type has a block.
    pub(crate) fn has_block(&self, order: u8, migratetype: MigrateType) -> bool {
        !self.lists[usize::from(order)][migratetype.index()].is_empty()
    }

    fn claim(&mut self, map: &mut Map, search: Search) -> Option<u32> {
        let Search { order, migratetype, flags, grouping_off } = search;
        let least = if flags.contains(AllocFlags::NOFRAGMENT) && order < map.block { map.block } else { order };
        for found in (least..=10).rev() {
            let Some((from, pfn)) = self.fallback(found, migratetype) else { continue };
            if !(found >= map.block / 2 || migratetype != Movable || grouping_off) {
                return None;
            }
            if found >= map.block {
                self.remove(map, pfn);
                map.set_types(pfn, found, migratetype);
                self.split(map, pfn, found, order, migratetype);
                return Some(pfn);
            }
            self.raise_boost(map, flags);
            let start = pfn >> map.block << map.block;
            if self.half_is_ours(map, start, from, migratetype) || grouping_off && self.spans(map, start) {
                self.retype(map, start, migratetype);
                return self.smallest(map, order, migratetype);
            }
        }
        None
    }

    fn spans(&self, map: &Map, start: u32) -> bool {
        start >= self.span.start && start + (1 << map.block) <= self.span.end
    }

    fn half_is_ours(&self, map: &Map, start: u32, from: MigrateType, migratetype: MigrateType) -> bool {
        if !self.spans(map, start) {
            return false;
        }
        let size = 1_usize << map.block;
        let pages = &map.pages[start as usize..][..size];
        let free = pages.iter().filter(|&&page| page == Page::Free).count();
        let movable = pages.iter().filter(|&&page| page == Page::Movable).count();
        let alike = match (migratetype, from) {
            (Movable, _) => movable,
            (_, Movable) => size - free - movable,
            _ => 0,
        };
        free + alike >= size / 2
    }

    /// Moves the free blocks of a pageblock to the tails of another type's lists, and changes the pageblock's type.
    /// Returns the number of free pages.
    pub(crate) fn retype(&mut self, map: &mut Map, start: u32, migratetype: MigrateType) -> u32 {
        let inside: Vec<u32> = map.heads.range(start..start + (1 << map.block)).map(|(&pfn, _)| pfn).collect();
        let mut moved = 0;
        for pfn in inside {
            let (order, _) = self.remove(map, pfn);
            self.insert(map, pfn, order, migratetype, true);
            moved += 1 << order;
        }
        map.set_type(start, migratetype);
        self.note_idle();
        moved
    }

    fn raise_boost(&mut self, map: &Map, flags: AllocFlags) {
        let block = 1_i64 << map.block;
        let most = self.high * 15_000 / 10_000;
        if most > 0 && block * 4 <= self.managed && !self.never_boosts {
            self.boost = (self.boost + block).min(most.max(block));
            self.boosted |= flags.contains(AllocFlags::KSWAPD);
        }
    }

    fn steal(&mut self, map: &mut Map, search: Search) -> Option<u32> {
        let Search { order, migratetype, .. } = search;
        let (found, (from, pfn)) = (order..=10).find_map(|o| Some((o, self.fallback(o, migratetype)?)))?;
        self.remove(map, pfn);
        self.split(map, pfn, found, order, from);
        Some(pfn)
    }

    /// Reserves a pageblock: rule 8, reserve.
    pub(crate) fn reserve(&mut self, map: &mut Map, pfn: u32, order: u8) {
        let block = 1_i64 << map.block;
        if self.managed / 100 < block {
            return;
        }
        let cap = (self.managed / 100 + block - 1) / block * block;
        if self.reserved_highatomic >= cap || map.type_of(pfn) as u8 >= 3 {
            return;
        }
        if order >= map.block {
            map.set_types(pfn, order, HighAtomic);
            self.reserved_highatomic += 1 << order;
        } else if self.spans(map, pfn >> map.block << map.block) {
            self.retype(map, pfn >> map.block << map.block, HighAtomic);
            self.reserved_highatomic += block;
        }
    }

    /// Returns a pageblock of the reserve in one zone to ordinary use: rule 8, unreserve.
    pub(crate) fn unreserve(&mut self, map: &mut Map, migratetype: MigrateType, force: bool) -> bool {
        let block = 1_i64 << map.block;
        if !force && self.reserved_highatomic <= block {
            return false;
        }
        let first = (0..=10_u8).find_map(|o| Some((o, *self.lists[usize::from(o)][HighAtomic.index()].front()?)));
        let Some((order, pfn)) = first else { return false };
        self.unreserve_at(map, (pfn, order), migratetype);
        true
    }

    /// Returns the pageblock of this free block of the reserve to ordinary use.
    pub(crate) fn unreserve_at(&mut self, map: &mut Map, (pfn, order): Block, migratetype: MigrateType) {
        let block = 1_i64 << map.block;
        self.reserved_highatomic -= block.max(1 << order).min(self.reserved_highatomic);
        if order < map.block {
            self.retype(map, pfn >> map.block << map.block, migratetype);
        } else {
            self.remove(map, pfn);
            self.insert(map, pfn, order, migratetype, true);
            map.set_types(pfn, order, migratetype);
            self.note_idle();
        }
    }

    /// Returns whether the watermark is met: rule 4, the check.
    pub(crate) fn watermark_ok(&self, order: u8, mark: i64, highest: ZoneKind, flags: AllocFlags, extra: i64) -> bool {
        let mut free = self.nr_free() + extra - ((1 << order) - 1);
        if !flags.intersects(AllocFlags::RESERVES) {
            free -= self.free[HighAtomic.index()];
        }
        if !flags.contains(AllocFlags::CMA) {
            free -= self.free[Cma.index()];
        }
        let mut least = mark;
        if flags.contains(AllocFlags::MIN_RESERVE) {
            least -= least / 2;
            if flags.contains(AllocFlags::NON_BLOCK) {
                least -= least / 4;
            }
        }
        if flags.contains(AllocFlags::OOM) {
            least -= least / 2;
        }
        if free <= least + self.lowmem_reserve[highest.index()] {
            return false;
        }
        let mut usable = MigrateType::ALL.into_iter().filter(|&migratetype| is_usable(migratetype, flags));
        order == 0 || usable.any(|migratetype| (order..=10).any(|at| self.has_block(at, migratetype)))
    }

    pub(crate) fn watermark_fast(&self, order: u8, mark: i64, highest: ZoneKind, flags: AllocFlags) -> bool {
        self.watermark_ok(order, mark, highest, flags, 0)
            || order == 0
                && flags.contains(AllocFlags::MIN_RESERVE)
                && flags.bits() & 3 == 0
                && self.boost > 0
                && self.watermark_ok(0, self.min, highest, flags, 0)
    }

    /// Returns the watermark selected by the low bits of the flags, including the boost.
    pub(crate) fn mark(&self, flags: AllocFlags) -> i64 {
        self.boost + [self.min, self.low, self.high][flags.bits() as usize & 3]
    }
}

/// Returns whether a request with these flags may use free blocks of a type.
fn is_usable(migratetype: MigrateType, flags: AllocFlags) -> bool {
    match migratetype {
        Cma => flags.contains(AllocFlags::CMA),
        HighAtomic => flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::OOM),
        other => (other as u8) < 3,
    }
}
