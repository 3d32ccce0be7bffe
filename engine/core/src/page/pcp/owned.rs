//! The refill of `pcp=owned`: a list takes large parts of pageblocks, and its CPU owns these.
//!
//! ```text
//! recall   pages of blocks that this CPU owns and that are free in the zone
//! own      whole pageblocks of the request's type, as long as nothing smaller would do
//! parts    the smallest free blocks of that type that will do, of each as much as is still missing
//! classic  what Linux would take, with fallback to other types
//! ```
//!
//! Each is tried when those before it did not bring enough; all under one hold of the zone lock. What comes is not cut
//! up there: it lies on the list of its own order until somebody wants less, and is then cut under the list's own
//! lock. Where a pageblock does not fit the list's limit, or none is whole, parts are taken. A pageblock that a part
//! came from is this CPU's from then on, unless it is another's already, or of another type.
//!
//! So no pageblock is opened before Linux would open one, and what a CPU owns costs no whole block. In a zone that is
//! short of memory ownership sleeps: a list gets what Linux would give it, nothing is called back, since parts that lie
//! in the zone are on their way to become whole there, nothing new is owned, and frees stay where they happen; these
//! also do where whole pageblocks are few (`home`). Neither there nor in such a zone does a request cut the last two
//! blocks of an order from 1 to 3 that cannot move: on a list of Linux's they would not be cut at all.
//!
//! Where the zone has nothing that the request could use, its lock is not taken to find that out.
//!
//! The idea and its phases are those of Johannes Weiner's proposal of April 2026; when to hold back is ours, and so is
//! that a CPU owns what it took a part of.

use super::locked::LockedPcp;
use crate::base::fault::{Fault, is_planted};
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::page::percpu::{PcpLists, list_index, part_index};
use crate::page::zone::{BlockRequest, Cursor, LockedZone};
use crate::platform::{Event, Platform};

/// Pageblocks that one refill calls back at most: each is a walk over its frames.
const RECALLS: u32 = 8;
/// Blocks of each order from 1 to 3, of a type that cannot move, that smaller requests leave where whole pageblocks are
/// few or memory is short: for the next request of that order and the one after it. There what replaces them may have
/// to come out of other types' pageblocks. Larger parts are cut all the same. At most 28 pages of a type stay on a
/// CPU's lists that way, where Linux cuts none; under `owned-remote` a request that is about to fail gives them back
/// first.
const KEPT: usize = 2;

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Takes a block from this CPU's lists: a whole one, a part of a larger one, one from the stack, or, if Linux has
    /// lists for its order, one that a refill brings.
    #[inline(never)]
    pub(super) fn rmqueue_pcplist_owned(&mut self, wanted: BlockRequest, word: Word) -> Option<Pfn> {
        if let Some(pfn) = self.pop_or_expand(wanted, word) {
            return Some(pfn);
        }
        if self.absorb_stack()
            && let Some(pfn) = self.pop_or_expand(wanted, word)
        {
            return Some(pfn);
        }
        let index = list_index(wanted.order, wanted.migratetype, self.allocator.map.pageblock_order())?;
        self.refill(index, wanted);
        self.pop_or_expand(wanted, word)
    }

    /// Takes a block of the order and type that are wanted, cut from the smallest larger one of a pageblock's parts if
    /// there is none; but not from the last of an order from 1 to 3 where they would be hard to replace.
    fn pop_or_expand(&mut self, wanted: BlockRequest, word: Word) -> Option<Pfn> {
        let BlockRequest { order, migratetype, .. } = wanted;
        let (allocator, map) = (self.allocator, &self.allocator.map);
        let own = part_index(order, migratetype, map.pageblock_order())
            .or_else(|| list_index(order, migratetype, map.pageblock_order()))?;
        if let Some(pfn) = self.lists.pop_head(map, order, word, own) {
            return Some(pfn);
        }
        let kept = if migratetype == MigrateType::Movable || self.zone.has_plenty() { 0 } else { KEPT };
        let (pfn, found) = self.lists.pop_larger(map, order, migratetype, kept)?;
        let blocks = self.lists.expand(map, (pfn, found), order, migratetype, self.cpu);
        map.frame(pfn).set(word);
        allocator.report(Event::PcpSplit { zone: self.zone.index() as u8, cpu: self.cpu, blocks });
        Some(pfn)
    }

    /// Brings blocks for `goal` pages, or more; says how many blocks came.
    pub(super) fn rmqueue_bulk_owned(&mut self, wanted: BlockRequest, goal: u32) -> u32 {
        let pages_in_the_end = self.lists.count() + goal;
        let (allocator, zone, cpu) = (self.allocator, self.zone, self.cpu);
        let is_calm = zone.is_well_above_high();
        let mut refill = Refill {
            lists: &mut self.lists,
            wanted,
            cpu,
            is_calm,
            goal: pages_in_the_end,
            is_served: false,
            blocks: 0,
        };
        let mut locked = allocator.lock_zone(zone);
        if is_calm && wanted.order < allocator.map.pageblock_order() {
            refill.recall_fragments(&mut locked);
            refill.own_pageblocks(&mut locked);
            refill.rmqueue_parts(&mut locked);
        }
        refill.rmqueue_as_linux(&mut locked);
        refill.blocks
    }
}

/// A refill of a CPU that owns pageblocks, under way.
struct Refill<'l> {
    lists: &'l mut PcpLists,
    wanted: BlockRequest,
    cpu: CpuId,
    /// The zone is well above its high watermark.
    is_calm: bool,
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

    fn recall_fragments<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        // What is called back may be too small for the request, or gone to others meanwhile: the limit ends it, and a
        // number of looks.
        for _ in 0..RECALLS {
            if !self.is_short() || self.lists.count() >= self.lists.high() {
                return;
            }
            let Some(block) = locked.first_fragment(self.cpu, self.wanted.migratetype) else { return };
            let map = locked.map;
            locked.rmqueue_pageblock(block, |pfn, order| self.push(&map, pfn, order));
            locked.unlist_fragment(block);
        }
    }

    /// Takes whole pageblocks, as long as nothing smaller would do and the lists have room for one more.
    fn own_pageblocks<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        let (map, BlockRequest { order, migratetype, .. }) = (locked.map, self.wanted);
        let block = map.pageblock_order();
        while self.is_short()
            && self.lists.count() + block.pages() <= self.lists.high()
            && locked
                .smallest(order, migratetype)
                .is_some_and(|pfn| map.frame(pfn).word().order() >= block || is_planted(Fault::OpensEarly))
            && let Some(pfn) = locked.rmqueue_whole_pageblock(self.wanted, self.cpu)
        {
            // As halves: lists of whole pageblocks are for requests of that order.
            let half = map.half_pageblock_order();
            self.push(&map, pfn, half);
            self.push(&map, pfn.offset(half.pages()), half);
        }
    }

    /// Takes what Linux would, the smallest block that will do, but as much of it as is still missing.
    fn rmqueue_parts<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        let (map, BlockRequest { order, migratetype, .. }) = (locked.map, self.wanted);
        while self.is_short()
            && let Some(smallest) = locked.smallest(order, migratetype)
        {
            let missing = self.goal.saturating_sub(self.lists.count()).max(1).ilog2() as u8;
            let found = map.frame(smallest).word().order().min(map.half_pageblock_order());
            let part = Order::new(missing.min(found.get())).max(order);
            let Some(pfn) = locked.rmqueue_smallest(part, migratetype) else { return };
            self.push(&map, pfn, part);
            locked.own_if_unowned(pfn, migratetype, self.cpu);
        }
    }

    fn rmqueue_as_linux<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        let (mut cursor, BlockRequest { order, migratetype, .. }) = (Cursor::Normal, self.wanted);
        while self.is_short()
            && let Some(pfn) = locked.rmqueue(self.wanted, &mut cursor)
        {
            self.push(&locked.map, pfn, order);
            if self.is_calm && order < locked.pageblock_order() {
                locked.own_if_unowned(pfn, migratetype, self.cpu);
            }
        }
    }
}
