//! The refill of `pcp=owned`: a list takes whole pageblocks, and its CPU owns them.
//!
//! ```text
//! recall   pages of blocks that this CPU owns and that earlier drains put into the zone
//! own      whole pageblocks of the request's type: the CPU's from now on
//! chunks   parts of pageblocks of that type, the smallest that will do, more than asked if there is more: nobody's
//! classic  what Linux would take, with fallback to other types: nobody's
//! ```
//!
//! Each is tried when those before it did not bring enough; all under one hold of the zone lock. What comes is not cut
//! up there: it lies on the list of its own order until somebody wants less, and is then cut under the list's own
//! lock. Where a pageblock does not fit the list's limit, or none is whole, what remains are the chunks.
//!
//! Whole pageblocks are owned while nearly all that is free lies in them. Otherwise parts of others are free already,
//! and one more that is cut would be missing to a request that needs it whole. A zone that is short of memory gives
//! neither pageblocks nor chunks: beside what is called back there remains what Linux would take.
//!
//! The idea and its phases are those of Johannes Weiner's proposal of April 2026; when to hold back is ours.

use super::PcpLists;
use super::index::{list_index, part_index};
use super::locked::LockedPcp;
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{CpuId, Order, Pfn};
use crate::page::zone::{Cursor, LockedZone, Wanted};
use crate::platform::{Event, Platform};

/// Pageblocks that one refill calls back at most: each is a walk over its frames.
const RECALLS: u32 = 8;

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// A block from this CPU's lists by any means: cut from a larger one, brought home from the stack, or, if Linux has
    /// lists for its order, after a refill.
    #[inline(never)]
    pub(super) fn pop_owned(&mut self, wanted: Wanted, word: Word) -> Option<Pfn> {
        if let Some(pfn) = self.pop_or_cut(wanted, word) {
            return Some(pfn);
        }
        if self.absorb()
            && let Some(pfn) = self.pop_or_cut(wanted, word)
        {
            return Some(pfn);
        }
        let index = list_index(wanted.order, wanted.migratetype, self.allocator.map.pageblock_order())?;
        self.refill(index, wanted);
        self.pop_or_cut(wanted, word)
    }

    /// Takes a block of the order and type that are wanted, cut from the smallest larger one of a pageblock's parts if
    /// there is none.
    fn pop_or_cut(&mut self, wanted: Wanted, word: Word) -> Option<Pfn> {
        let Wanted { order, migratetype, .. } = wanted;
        let (allocator, map) = (self.allocator, &self.allocator.map);
        let own = part_index(order, migratetype, map.pageblock_order())
            .or_else(|| list_index(order, migratetype, map.pageblock_order()))?;
        if let Some(pfn) = self.lists.pop_head(map, order, word, own) {
            return Some(pfn);
        }
        let (pfn, found) = self.lists.pop_larger(map, order, migratetype)?;
        let blocks = self.lists.cut(map, (pfn, found), order, migratetype, self.cpu);
        map.frame(pfn).set(word);
        allocator.report(Event::PcpSplit { zone: self.zone.index() as u8, cpu: self.cpu, blocks });
        Some(pfn)
    }

    /// Brings blocks for `goal` pages, or more; says how many blocks came.
    pub(super) fn refill_owned(&mut self, wanted: Wanted, goal: u32) -> u32 {
        let goal = self.lists.count() + goal;
        let (allocator, zone, cpu) = (self.allocator, self.zone, self.cpu);
        let mut refill = Refill { lists: &mut self.lists, wanted, cpu, goal, is_served: false, blocks: 0 };
        let mut locked = allocator.lock_zone(zone);
        if wanted.order < allocator.map.pageblock_order() {
            refill.recall(&mut locked);
            if zone.is_well_above_high() {
                if locked.is_mostly_whole() {
                    refill.own(&mut locked);
                }
                refill.take_chunks(&mut locked);
            }
        }
        refill.take_classic(&mut locked);
        refill.blocks
    }
}

/// A refill of a CPU that owns pageblocks, under way.
struct Refill<'l> {
    lists: &'l mut PcpLists,
    wanted: Wanted,
    cpu: CpuId,
    /// Pages that should be on the lists in the end.
    goal: u32,
    /// A block came that is large enough for the request.
    is_served: bool,
    /// Blocks that the refill brought so far.
    blocks: u32,
}

impl Refill<'_> {
    fn is_short(&self) -> bool {
        !self.is_served || self.lists.count() < self.goal
    }

    fn push(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order) {
        let (migratetype, pageblock_order) = (self.wanted.migratetype, map.pageblock_order());
        let index = part_index(order, migratetype, pageblock_order)
            .or_else(|| list_index(order, migratetype, pageblock_order))
            .expect("every order up to a pageblock's has a list");
        self.lists.push_tail(map, pfn, order, index, self.cpu);
        self.is_served |= order >= self.wanted.order;
        self.blocks += 1;
    }

    fn recall<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        // What is called back may be too small for the request, or gone to others meanwhile: the limit ends it, and a
        // number of looks.
        for _ in 0..RECALLS {
            if !self.is_short() || self.lists.count() >= self.lists.high() {
                return;
            }
            let Some(block) = locked.first_fragment(self.cpu, self.wanted.migratetype) else { return };
            let map = locked.map;
            locked.take_free_of(block, |pfn, order| self.push(&map, pfn, order));
            locked.forget(block);
        }
    }

    fn own<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        let order = locked.pageblock_order();
        while self.is_short() && self.lists.count() + order.pages() <= self.lists.high() {
            let Some(block) = locked.take_smallest(order, self.wanted.migratetype) else { return };
            locked.map.pageblock(block).set_owner(Some(self.cpu));
            // As halves: lists of whole pageblocks are for requests of that order.
            let half = locked.map.half_pageblock_order();
            self.push(&locked.map, block, half);
            self.push(&locked.map, block.offset(half.pages()), half);
        }
    }

    /// Takes what Linux would, the smallest block that will do, but as much of it as is still missing.
    fn take_chunks<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        let (map, Wanted { order, migratetype, .. }) = (locked.map, self.wanted);
        while self.is_short()
            && let Some(smallest) = locked.smallest(order, migratetype)
        {
            let missing = self.goal.saturating_sub(self.lists.count()).max(1).ilog2() as u8;
            let found = map.frame(smallest).word().order().min(map.half_pageblock_order());
            let part = Order::new(missing.min(found.get())).max(order);
            let Some(pfn) = locked.take_smallest(part, migratetype) else { return };
            self.push(&map, pfn, part);
        }
    }

    fn take_classic<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        let mut cursor = Cursor::Normal;
        while self.is_short()
            && let Some(pfn) = locked.take(self.wanted, &mut cursor)
        {
            self.push(&locked.map, pfn, self.wanted.order);
        }
    }
}
