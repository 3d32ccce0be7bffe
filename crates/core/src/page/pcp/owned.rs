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

use super::{PcpLists, list_index, part_index};
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::page::PageAllocator;
use crate::page::zone::{Cursor, LockedZone, Wanted, Zone};
use crate::platform::{Event, Platform};

/// Pageblocks that one refill calls back at most: each is a walk over its frames.
const RECALLS: u32 = 8;
/// Blocks smaller than this are cut as so many as fit one of it, so that the next requests find theirs.
const CUT: Order = Order::new(4);

impl<P: Platform> PageAllocator<'_, P> {
    /// A block from this CPU's lists by any means: cut from a larger one, brought home from the stack, or, if Linux has
    /// lists for its order, after a refill.
    #[inline(never)]
    pub(super) fn pop_owned(
        &self,
        zone: &Zone<P::Lock>,
        lists: &mut PcpLists,
        wanted: Wanted,
        word: Word,
        cpu: CpuId,
    ) -> Option<Pfn> {
        if let Some(pfn) = self.pop_or_cut(zone, lists, wanted, word, cpu) {
            return Some(pfn);
        }
        if self.absorb(zone, lists, cpu)
            && let Some(pfn) = self.pop_or_cut(zone, lists, wanted, word, cpu)
        {
            return Some(pfn);
        }
        let index = list_index(wanted.order, wanted.migratetype, self.map.pageblock_order())?;
        self.refill(zone, lists, index, wanted, cpu);
        self.pop_or_cut(zone, lists, wanted, word, cpu)
    }

    /// Takes a block of the order and type that are wanted, cut from the smallest larger one of a pageblock's parts if
    /// there is none.
    fn pop_or_cut(
        &self,
        zone: &Zone<P::Lock>,
        lists: &mut PcpLists,
        wanted: Wanted,
        word: Word,
        cpu: CpuId,
    ) -> Option<Pfn> {
        let Wanted { order, migratetype, .. } = wanted;
        let pageblock_order = self.map.pageblock_order();
        let own = part_index(order, migratetype, pageblock_order)
            .or_else(|| list_index(order, migratetype, pageblock_order))?;
        if let Some(pfn) = lists.pop_head(&self.map, order, word, own) {
            return Some(pfn);
        }
        let (pfn, found) = lists.pop_larger(&self.map, order, migratetype)?;
        let blocks = lists.cut(&self.map, (pfn, found), order, migratetype, cpu);
        self.map.frame(pfn).set(word);
        self.report(Event::PcpSplit { zone: zone.index() as u8, cpu, blocks });
        Some(pfn)
    }

    /// Brings blocks for `goal` pages, or more; says how many blocks came.
    pub(super) fn refill_owned(
        &self,
        zone: &Zone<P::Lock>,
        lists: &mut PcpLists,
        wanted: Wanted,
        cpu: CpuId,
        goal: u32,
    ) -> u32 {
        let goal = lists.count() + goal;
        let mut refill = Refill { lists, wanted, cpu, goal, is_served: false, blocks: 0 };
        let mut locked = self.lock_zone(zone);
        if wanted.order < self.map.pageblock_order() {
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

impl PcpLists {
    /// Takes the smallest block larger than `order` of a pageblock's parts; its state still names its list.
    fn pop_larger(&mut self, map: &MemMap<'_>, order: Order, migratetype: MigrateType) -> Option<(Pfn, Order)> {
        let orders = order.to(map.pageblock_order()).skip(1);
        let mut indices =
            orders.map_while(|found| Some((found, part_index(found, migratetype, map.pageblock_order())?)));
        indices.find_map(|(found, index)| {
            let (pfn, frame) = self.lists[usize::from(index)].pop_head(map)?;
            self.expect_from(pfn, frame, usize::from(index), found);
            self.count_out(found.pages());
            Some((pfn, found))
        })
    }

    /// Puts all of a block but its lowest part of `order` on the lists: most of it in large parts, and so many of
    /// `order` that the next requests need no cut. Says how many these are.
    fn cut(
        &mut self,
        map: &MemMap<'_>,
        block: (Pfn, Order),
        order: Order,
        migratetype: MigrateType,
        cpu: CpuId,
    ) -> u32 {
        let (pfn, found) = block;
        let low = found.min(order.max(CUT));
        let mut blocks = 0;
        for half in low.to(found).rev().skip(1) {
            let index = part_index(half, migratetype, map.pageblock_order()).expect("smaller than a pageblock");
            self.push_head(map, pfn.offset(half.pages()), half, index, cpu);
            blocks += 1;
        }
        let rest = pfn.offset(order.pages())..pfn.offset(low.pages());
        if !rest.is_empty() {
            let index = part_index(order, migratetype, map.pageblock_order()).expect("smaller than a pageblock");
            self.lists[usize::from(index)].push_run(map, rest, order, Word::pcp_cached(order, index, cpu));
            self.count_in(low.pages() - order.pages());
            blocks += low.pages() / order.pages() - 1;
        }
        blocks
    }
}
