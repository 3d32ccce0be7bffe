//! Buddy operations: a block is split if a smaller one is needed, and merged if its buddy is free too.
//!
//! All functions run under the zone lock. A buddy is judged by its state word alone: it is on a free list if and only
//! if its word is `ZoneFree`. Zones consist of whole pageblocks, so below pageblock order a buddy is in the same zone
//! and has the same type. From pageblock order up, both are looked up.
//!
//! linux: mm/page_alloc.c:__free_one_page, expand, __rmqueue_smallest, split_large_buddy, take_page_off_buddy

use core::ops::Range;

use super::free_area::End;
use super::locked::LockedZone;
use crate::base::fault::{Fault, is_planted};
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::{Event, Platform, Probe};

/// End of the free list that a freed block joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) enum Placement {
    /// The head, for early reuse. The tail is used instead if the buddy of the next order is free, because the block
    /// then merges twice once its own buddy is freed.
    ByMergeLikelihood,
    /// The tail, for memory that was just added and should be used last. linux: FPI_TO_TAIL
    Tail,
}

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Puts a block on its free list, merged with every free buddy that it may merge with. If a compaction run of the
    /// zone waits for such a block, the run gets it instead. Cost: constant time per merge, at most ten merges.
    /// linux: mm/page_alloc.c:__free_one_page
    pub(in crate::page) fn free_one_page(
        &mut self,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
        placement: Placement,
    ) {
        self.expect_unmerged(pfn, order);
        self.account_in(order.pages(), migratetype);
        let (head, merged) = self.merge(pfn, order, migratetype);
        if self.is_awaited(merged, migratetype) {
            return self.capture(head, merged, migratetype);
        }
        let block = pfn.align_down(self.pageblock_order());
        // A whole free pageblock has no owner. If only a part is free, the owner may recall it later.
        if merged < self.pageblock_order() {
            self.list_fragment(block);
        } else {
            self.disown_each(block, order);
        }
        let tail = placement == Placement::Tail || self.buddy_merge_likely(head, merged);
        self.add_to_free_list(head, merged, migratetype, if tail { End::Tail } else { End::Head });
    }

    /// Puts a block of any order on its free list. A block larger than a pageblock is put there as a whole only if all
    /// of its pageblocks have one type. linux: mm/page_alloc.c:split_large_buddy
    pub(in crate::page) fn split_large_buddy(&mut self, pfn: Pfn, order: Order) {
        self.expect_unmerged(pfn, order);
        let end = pfn.offset(order.pages());
        let first_type = self.map.pageblock(pfn).migratetype();
        let mut pageblocks = pfn.blocks_up_to(end, self.pageblock_order());
        let is_uniform = pageblocks.all(|(block, _)| self.map.pageblock(block).migratetype() == first_type);
        let largest = if is_uniform { order } else { self.pageblock_order() };
        for (at, piece) in pfn.blocks_up_to(end, largest) {
            let migratetype = self.map.pageblock(at).migratetype();
            self.free_one_page(at, piece, migratetype, Placement::ByMergeLikelihood);
        }
    }

    /// Frees a block that comes from a per-CPU list. linux: mm/page_alloc.c:free_pcppages_bulk
    pub(in crate::page) fn free_pcp_block(&mut self, pfn: Pfn, order: Order) {
        let pageblock = self.map.pageblock(pfn);
        let trusted = is_planted(Fault::DrainTrustsList).then_some(MigrateType::Movable);
        let migratetype = trusted.unwrap_or_else(|| pageblock.migratetype());
        // The owner may recall the pages of its pageblocks, so they are used last.
        let owned = pageblock.owner().is_some();
        self.free_one_page(pfn, order, migratetype, if owned { Placement::Tail } else { Placement::ByMergeLikelihood });
        self.probe.report(Event::PcpuDrain { pfn, order, migratetype });
    }

    /// Takes free buddies off their lists as long as there are any that may merge, and the block is not one that a
    /// compaction run waits for. Returns the merged block.
    fn merge(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType) -> (Pfn, Order) {
        self.merge_with(pfn, order, |zone, buddy, order| {
            !zone.is_awaited(order, migratetype) && zone.may_merge(buddy, order, migratetype)
        })
    }

    /// Returns whether a compaction run waits for a block of exactly this order and may get one of this type. It may
    /// not get a block of a CMA area or an isolated one. Below pageblock order, only a run for a movable request may
    /// get a movable block. linux: mm/page_alloc.c:compaction_capture
    #[inline]
    fn is_awaited(&self, order: Order, migratetype: MigrateType) -> bool {
        let Some(request) = self.areas.capture_request().filter(|request| request.order == order) else { return false };
        let mixes = order < self.pageblock_order()
            && migratetype == MigrateType::Movable
            && request.migratetype != MigrateType::Movable;
        !mixes && !matches!(migratetype, MigrateType::Cma | MigrateType::Isolate)
    }

    /// Gives a block that was just freed to the compaction run that waits for it, claimed.
    /// linux: mm/page_alloc.c:compaction_capture
    #[cold]
    fn capture(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType) {
        self.account_out(order.pages(), migratetype);
        self.map.frame(pfn).set(Word::claimed_of(order));
        if order >= self.pageblock_order() {
            self.disown_each(pfn, order);
        }
        self.areas.capture(pfn);
    }

    /// Merges a free block, whose type has changed since it was freed, with free buddies of its new type.
    pub(in crate::page) fn merge_alike(&mut self, pfn: Pfn) {
        let (order, migratetype) = self.del_page_from_free_list(pfn);
        let (head, merged) =
            self.merge_with(pfn, order, |zone, buddy, _| zone.map.frame(buddy).word().migratetype() == migratetype);
        self.add_to_free_list(head, merged, migratetype, End::Tail);
    }

    /// Merges a block that is on no list with its buddy, as long as the buddy is free and `joins` allows it.
    #[inline]
    fn merge_with(
        &mut self,
        mut pfn: Pfn,
        mut order: Order,
        mut joins: impl FnMut(&mut Self, Pfn, Order) -> bool,
    ) -> (Pfn, Order) {
        while let Some(up) = order.up() {
            let buddy = pfn.buddy(order);
            if !self.page_is_buddy(buddy, order) || !joins(self, buddy, order) {
                break;
            }
            (pfn, order) = (self.join(pfn, buddy), up);
        }
        (pfn, order)
    }

    /// Checks, in debug builds, that a block to be freed is aligned, on no list, and contains no other block. Only the
    /// frame in its middle is read for the last.
    #[inline]
    fn expect_unmerged(&self, pfn: Pfn, order: Order) {
        debug_assert!(pfn.is_aligned(order), "buddy: frame {pfn} is not aligned to order {}", order.get());
        debug_assert!(!self.map.frame(pfn).word().is_zone_free(), "buddy: frame {pfn} is already free");
        self.expect_interior(pfn, order);
    }

    /// Checks, in debug builds, that the upper half of a block starts with an Interior frame.
    #[inline]
    fn expect_interior(&self, pfn: Pfn, order: Order) {
        if cfg!(debug_assertions) && order > Order::ZERO {
            self.expect_inside(pfn.offset(order.pages() / 2));
        }
    }

    /// Checks, in debug builds, that a frame within a block is Interior.
    #[inline]
    fn expect_inside(&self, pfn: Pfn) {
        debug_assert!(
            self.map.frame(pfn).word().is_interior(),
            "buddy: frame {pfn} is {:?}, but inside of a block",
            self.map.frame(pfn).word()
        );
    }

    /// Takes the free buddy of a block that is on no list off its list. Returns the first frame of the two.
    fn join(&mut self, pfn: Pfn, buddy: Pfn) -> Pfn {
        let (order, _) = self.del_page_from_free_list(buddy);
        self.expect_interior(buddy, order);
        debug_assert!(pfn.buddy(order) == buddy, "buddy: frames {pfn} and {buddy} are not halves of one block");
        self.map.frame(pfn.max(buddy)).set(Word::INTERIOR);
        pfn.min(buddy)
    }

    /// Returns whether the free buddy of a block of this type may be merged with the block. Blocks of different types
    /// can only meet from pageblock order up. If both types may change, the buddy's pageblocks take the block's type
    /// here; otherwise the two are not merged.
    fn may_merge(&mut self, buddy: Pfn, order: Order, migratetype: MigrateType) -> bool {
        if order < self.pageblock_order() {
            self.expect_type(buddy, migratetype);
            return true;
        }
        let theirs = self.map.frame(buddy).word().migratetype();
        if theirs == migratetype {
            return true;
        }
        if !(theirs.is_mergeable() && migratetype.is_mergeable()) {
            return false;
        }
        // The caller takes the buddy off the list that the buddy's word names, so the word keeps the old type.
        self.account_moved(order.pages(), theirs, migratetype);
        self.change_pageblock_range(buddy, order, migratetype);
        true
    }

    /// Returns whether a block of exactly this order is free at `pfn`, in this zone.
    /// linux: mm/internal.h:page_is_buddy
    fn page_is_buddy(&self, pfn: Pfn, order: Order) -> bool {
        // Buddies are in the same section, so the frame has metadata. The zone can differ only from pageblock order up.
        self.map.frame(pfn).word().is_zone_free_of(order)
            && (order < self.pageblock_order() || usize::from(self.map.pageblock(pfn).zone()) == self.zone.index())
    }

    /// Returns whether the block is likely to merge soon: together with its buddy it would merge with a free neighbour.
    /// linux: mm/page_alloc.c:buddy_merge_likely
    fn buddy_merge_likely(&self, pfn: Pfn, order: Order) -> bool {
        let Some(up) = order.up().filter(|&up| up < Order::MAX) else { return false };
        self.page_is_buddy(pfn.align_down(up).buddy(up), up)
    }

    /// Claims the first block of this type, of the smallest sufficient order, and splits it to `order`. Returns `None`
    /// if there is no such block. linux: mm/page_alloc.c:__rmqueue_smallest
    pub(in crate::page) fn rmqueue_smallest(&mut self, order: Order, migratetype: MigrateType) -> Option<Pfn> {
        let pfn = self.smallest(order, migratetype)?;
        let (found, _) = self.del_page_from_free_list(pfn);
        self.account_out(order.pages(), migratetype);
        self.expand(pfn, found, order, migratetype);
        self.map.frame(pfn).set(Word::claimed_of(order));
        self.probe.report(Event::ZoneLocked { pfn, order, migratetype });
        Some(pfn)
    }

    /// Splits a block that was taken off its list down to `order`. The upper halves are put at the heads of the free
    /// lists of this type, the largest first. The first 2^`order` frames belong to the caller.
    /// linux: mm/page_alloc.c:expand
    #[inline(never)]
    pub(in crate::page) fn expand(&mut self, pfn: Pfn, found: Order, order: Order, migratetype: MigrateType) {
        debug_assert!(
            order <= found,
            "buddy: a block of order {} cannot be split to order {}",
            found.get(),
            order.get()
        );
        for half in order.to(found).rev().skip(1) {
            let upper = pfn.offset(half.pages());
            self.expect_inside(upper);
            self.add_to_free_list(upper, half, migratetype, End::Head);
        }
    }

    /// Changes the type of every pageblock that a block of this order overlaps.
    /// linux: mm/page_alloc.c:change_pageblock_range
    pub(in crate::page) fn change_pageblock_range(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType) {
        let step = self.pageblock_order().pages();
        for block in 0..(order.pages() / step).max(1) {
            self.set_pageblock_migratetype(pfn.offset(block * step), migratetype);
        }
    }

    /// Moves a free block to another type's list of the same order. linux: mm/page_alloc.c:move_to_free_list
    pub(in crate::page) fn move_to_free_list(&mut self, pfn: Pfn, migratetype: MigrateType) {
        let (order, _) = self.del_page_from_free_list(pfn);
        self.add_to_free_list(pfn, order, migratetype, End::Tail);
    }

    /// Cuts a block out of the free block that contains it, and sets its word. Returns `false` if no free block
    /// contains it. linux: mm/page_alloc.c:take_page_off_buddy
    pub(in crate::page) fn take_page_off_buddy(&mut self, pfn: Pfn, order: Order, word: Word) -> bool {
        let end = pfn.offset(order.pages());
        let around = self.buddy_block_around(pfn).filter(|(head, found)| head.offset(found.pages()) >= end);
        if let Some((head, _)) = around {
            self.break_down_buddy_pages(head, pfn..end);
            self.map.frame(pfn).set(word);
        }
        around.is_some()
    }

    /// Returns the head and the order of the free block that contains a frame. Cost: at most eleven steps.
    pub(in crate::page) fn buddy_block_around(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        self.map.block_around(pfn).filter(|(_, word)| word.is_zone_free()).map(|(head, word)| (head, word.order()))
    }

    /// Takes a part of a free block off its list, as Interior frames. The rest remains free, as the largest blocks that
    /// fit. linux: mm/page_alloc.c:break_down_buddy_pages
    pub(in crate::page) fn break_down_buddy_pages(&mut self, head: Pfn, part: Range<Pfn>) {
        let (found, migratetype) = self.del_page_from_free_list(head);
        debug_assert!(
            head <= part.start && part.start < part.end && part.end <= head.offset(found.pages()),
            "buddy: frames {:?} are not part of the block of order {} at frame {head}",
            part,
            found.get()
        );
        self.account_out(part.end.raw() - part.start.raw(), migratetype);
        self.map.frame(head).set(Word::INTERIOR);
        for (start, end) in [(head, part.start), (part.end, head.offset(found.pages()))] {
            for (at, piece) in start.blocks_up_to(end, Order::MAX) {
                self.add_to_free_list(at, piece, migratetype, End::Head);
            }
        }
    }

    /// Splits the free block around a pageblock, if it is larger than a pageblock, so that each of its pageblocks can
    /// have its own type.
    pub(in crate::page) fn split_at_pageblocks(&mut self, block: Pfn) {
        let around = self.pageblock_order().to(Order::MAX).skip(1).map(|order| (block.align_down(order), order));
        let larger = around.into_iter().find(|&(head, order)| self.map.frame(head).word().is_zone_free_of(order));
        let Some((head, order)) = larger else { return };
        let (_, migratetype) = self.del_page_from_free_list(head);
        for (piece, order) in head.blocks_up_to(head.offset(order.pages()), self.pageblock_order()) {
            self.add_to_free_list(piece, order, migratetype, End::Tail);
        }
    }
}
