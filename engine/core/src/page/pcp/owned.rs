//! The refill of `pcp=owned`: a list takes large parts of pageblocks, and its CPU owns these pageblocks.
//!
//! ```text
//! recall   free pages in the zone of pageblocks that this CPU owns
//! own      whole pageblocks of the request's type, as long as no smaller block would do
//! parts    the smallest free blocks of that type that will do, each up to the number of pages still missing
//! classic  the blocks that Linux would take, with fallback to other types
//! ```
//!
//! Each step is tried if those before it did not yield enough, all under one hold of the zone lock. The blocks are not
//! split there. They are put on the lists of their own orders, and are split later, under the lists' own lock, when a
//! smaller request needs a part. If a pageblock does not fit the lists' limit, or none is whole, parts are taken. The
//! pageblock of a part belongs to this CPU from then on, unless it has another owner or another type.
//!
//! No pageblock is therefore opened before Linux would open one, and ownership costs no whole pageblocks. In a zone
//! that is short of memory, ownership is suspended. A list gets the blocks that Linux would give it, no new pageblock
//! is owned, and freed pages stay on the CPU that frees them; the last also holds if whole pageblocks are few
//! (`remote_frees`). No pages are recalled, because parts in the zone are about to become whole there. Also, if memory
//! is short or whole pageblocks are few, a request of a type other than Movable does not split the last two blocks of
//! an order from 1 to
//! 3. A list of Linux would never split them.
//!
//! If the zone has no block that could serve the request, this is detected without its lock.
//!
//! The idea and its phases are from Johannes Weiner's proposal of April 2026. The rules for restraint, and the
//! ownership of pageblocks that were taken in part, were added here.
//!
//! # Design
//!
//! The proposal leaves the following points open.
//!
//! - *A whole pageblock is opened only where Linux would open one*: if no smaller block of the type would do. The
//!   proposal owns a whole pageblock whenever one is free. In a long run that splits whole pageblocks while parts of
//!   others are free. The number of pageblocks that are opened beyond Linux's rule is zero: a CPU that takes one whole
//!   marks it if a smaller block was free, and `check()` reports a mark (`Violation::OpenedEarly`). The rule has no
//!   threshold and nothing to tune.
//! - *Parts are owned too.* A part is as many pages as are missing, as a power of two, up to half a pageblock. Its CPU
//!   owns the pageblock if the pageblock has no owner and the requested type; the same holds for a pageblock that a
//!   fallback claims. This makes the rule above cheap: the owned memory grows with the used memory, and not with the
//!   opened pageblocks. Other CPUs may still take parts that are free in the zone, so an owner that stops allocating
//!   withholds nothing.
//! - *Ownership is suspended under pressure.* In a zone near its high watermark a list gets the blocks that Linux would
//!   give it, no pageblock becomes owned, and a free up to order 3 stays on its CPU. Both alternatives were tried.
//!   Recalling parts costs zone locks and whole pageblocks, because parts in the zone are about to become whole there.
//!   Returning pages to their owners made the owners' stacks overflow into the zone, and other CPUs reclaimed for them,
//!   which cost throughput on many CPUs.
//! - *Larger parts stay unsplit* on lists of their orders, including orders from 4 on, and serve requests of these
//!   orders. A request for single pages splits 128 pages off a part of order 4 or more, or the whole part if it is
//!   smaller; any other small request splits sixteen. A block of order 1 to 3 is halved instead. When it was split at
//!   once, that request was the slowest in a hundred, and the pieces were in the way of the next request of that order.
//! - *The last two blocks of an order are kept* ([`KEPT`]). Linux never splits a listed block. Here single pages split
//!   the last of a CPU's blocks for stacks and buffers. The next request of that order then went to the zone, which on
//!   a full machine has to take the block out of another type's pageblock. Without the rule `freehold` left 40 % more
//!   pageblocks mixed than `linux-6.12` on a host after a build, and had 8.6 % fewer huge pages (six seeds). With the
//!   rule the figures are 7 % and 2.4 %, the latter within noise (`freehold sim fragment --start
//!   recordings/host-build.parquet --a linux-6.12 --b freehold`). The number two was chosen by running that command
//!   with other numbers: with one block 13 % more pageblocks are mixed, with three 10 %. If no listed block of any type
//!   is split, `small-machine` at age 60 does less work than Linux, because the zone has nothing else to give there.
//!   With the rule it does 17.6 % more. The cost of the rule is zone locks where memory is short; on that machine there
//!   are still 16.3 % fewer than under Linux (`freehold sim small-machine --age 60 --a linux-6.12 --b freehold`, both
//!   figures). Two alternatives did not help: checking whether the zone has blocks of the type as replacement (37 %
//!   more mixed), and keeping movable blocks.
//! - *An empty zone is not locked.* If nothing in a zone can serve a request, Linux detects that under the zone lock,
//!   once for the list and once for the request, for as long as the zone stays empty. Here one byte per order records
//!   which types have free blocks, so one read without the lock is enough.
//! - *`pcp.free_high` is off.* Linux empties all lists when a CPU frees blocks of orders 1 to 3 and allocates none,
//!   because no other request could use these blocks. Here any request splits them. With the rule on, each process that
//!   ended emptied the lists, because it freed many pages at once, as runs.
//! - *Compaction drains the owner's lists too.* Pages that are moved out of a pageblock are returned to its owner,
//!   where they do not help the block that compaction makes. So where a run drains its own CPU's lists, it also drains
//!   those of the owner of the pageblock.
//! - *There is no bitmap* of a pageblock's free pages. With one bit per page, a count per pageblock and the last
//!   sixteen pages in front of them, buddies merge without a list, and the zone is involved only when the ownership
//!   ends. This was built and removed again. A free in random order had fewer cache misses and executed as many
//!   instructions as before, because most of them are the zone's, which inserts and merges the blocks beyond the lists'
//!   limit. The metadata of each pageblock grew, and pages in a bitmap were in no block that a walk over frames could
//!   name. Only without the limit would whole pageblocks alone be returned to the zone. Then free pages would be in no
//!   zone's count, and watermarks would not see them.
//! - *Pages of owned pageblocks have no state of their own.* Their word names the list that they are on, which makes
//!   merging safe. Ownership decides only where a free puts a page.
//!
//! `freehold` uses `owned-remote`. Where pages pass between CPUs, it never waits for the lock of a list; elsewhere it
//! is equal to `owned`.

use super::locked::LockedPcp;
use crate::base::fault::{Fault, is_planted};
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::page::percpu::{PcpLists, list_index, part_index};
use crate::page::zone::{BlockRequest, Cursor, LockedZone};
use crate::platform::{Event, Platform};

/// Maximum number of pageblocks that one refill recalls. Each takes a walk over its frames.
const RECALLS: u32 = 8;
/// Number of blocks of each order from 1 to 3, of a type other than Movable, that smaller requests leave on the lists
/// if whole pageblocks are few or memory is short. They are kept for the next two requests of that order. Their
/// replacements may have to be taken from other types' pageblocks. Larger parts are split nevertheless. At most 28
/// pages of a type stay on a CPU's lists for this reason, whereas Linux splits no listed block. Under `owned-remote` a
/// request that is about to fail gives these blocks back first.
const KEPT: usize = 2;

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Takes a block from this CPU's lists: a block of the order, a part of a larger block, a block from the stack, or,
    /// if Linux has lists for the order, a block from a refill.
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

    /// Takes a block of the wanted order and type. If there is none, it is split from the smallest larger part of a
    /// pageblock, except from the last blocks of an order from 1 to 3 that would be hard to replace.
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

    /// Adds blocks of `goal` pages, or more, to the lists, as far as the zone has blocks for the request. Returns the
    /// number of blocks added.
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

/// State of a refill for a CPU that owns pageblocks.
struct Refill<'l> {
    lists: &'l mut PcpLists,
    wanted: BlockRequest,
    cpu: CpuId,
    /// Set if the zone is well above its high watermark.
    is_calm: bool,
    /// Number of pages that should be on the lists after the refill.
    goal: u32,
    /// Set once a block was added that is large enough for the request.
    is_served: bool,
    /// Number of blocks that the refill has added so far.
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
            .expect("each order up to that of a pageblock has a list");
        self.lists.push_tail(map, pfn, order, index, self.cpu);
        self.is_served |= order >= self.wanted.order;
        self.blocks += 1;
    }

    fn recall_fragments<P: Platform>(&mut self, locked: &mut LockedZone<'_, '_, P>) {
        // The recalled blocks may be too small for the request, or other CPUs may have taken them. The limit of the
        // lists and the number of attempts bound the loop.
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

    /// Takes whole pageblocks, as long as no smaller block would do and the lists have room for another pageblock.
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
            // A pageblock is added as two halves, because lists of whole pageblocks serve requests of that order.
            let half = map.half_pageblock_order();
            self.push(&map, pfn, half);
            self.push(&map, pfn.offset(half.pages()), half);
        }
    }

    /// Takes the smallest block that will do, as Linux does, but only up to the number of pages that are missing.
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
