//! Ownership of pageblocks by CPUs, and the lists of owned pageblocks that may have free pages in the zone.
//!
//! A CPU owns a pageblock that it took whole, and a pageblock of the requested type and without an owner from which it
//! took a part. A pageblock joins its owner's list when one of its pages becomes free in the zone. It also joins the
//! list when the CPU becomes its owner by taking a part, because other pages of it may be free. It leaves the list when
//! the owner recalls its pages, or when the ownership ends. Ownership ends if the pageblock is whole in the zone, its
//! type changes, or its CPU goes offline. All changes are made under the zone lock.
//!
//! # Design
//!
//! An ownership also ends if the pageblock is given the type that it already has: by a claim, a reserve, an isolation,
//! or compaction that takes half of it. The owner and the list of fragments change under the zone lock only.

use super::fallback::BlockRequest;
use super::locked::LockedZone;
use crate::base::fault::{Fault, is_planted};
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::platform::{Event, Platform, Probe};

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Puts a pageblock on its owner's list, because it may have free pages in the zone. `block` is its first frame.
    /// Does nothing if it has no owner, or is on the list already.
    #[inline]
    pub(in crate::page) fn list_fragment(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        debug_assert!(
            block.is_aligned(self.pageblock_order()),
            "fragments: frame {block} is not the start of a pageblock"
        );
        let (Some(owner), false) = (pageblock.owner(), pageblock.is_listed()) else { return };
        self.fragments_of(owner).list(pageblock.migratetype()).push_tail(&self.map, block);
    }

    /// Removes a pageblock from its owner's list, after the owner has recalled its pages.
    pub(in crate::page) fn unlist_fragment(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        if let (Some(owner), true) = (pageblock.owner(), pageblock.is_listed()) {
            self.fragments_of(owner).list(pageblock.migratetype()).remove(&self.map, block);
        }
    }

    /// Ends the ownership of a pageblock. Its pages on the owner's lists are given to the zone by later drains.
    pub(in crate::page) fn disown(&mut self, block: Pfn) {
        if self.map.pageblock(block).owner().is_some() && !is_planted(Fault::OwnerStays) {
            if !is_planted(Fault::FragmentStays) {
                self.unlist_fragment(block);
            }
            self.map.pageblock(block).set_owner(None);
        }
        debug_assert!(
            !self.map.pageblock(block).is_listed()
                || [Fault::OwnerStays, Fault::FragmentStays].into_iter().any(is_planted),
            "fragments: pageblock {block} has no owner, but is on the list of a CPU"
        );
    }

    /// Ends the ownership of each pageblock in a block, or of the pageblock that contains the block.
    pub(super) fn disown_each(&mut self, pfn: Pfn, order: Order) {
        let end = pfn.offset(order.max(self.pageblock_order()).pages());
        pfn.blocks_up_to(end, self.pageblock_order()).for_each(|(block, _)| self.disown(block));
    }

    /// Changes the type of a pageblock, which ends its ownership. linux: mm/page_alloc.c:set_pageblock_migratetype
    pub(in crate::page) fn set_pageblock_migratetype(&mut self, pfn: Pfn, migratetype: MigrateType) {
        let block = pfn.align_down(self.pageblock_order());
        self.disown(block);
        self.map.pageblock(block).set_migratetype(migratetype);
    }

    /// Returns the first pageblock on a CPU's list of owned pageblocks of this type, or `None` if the list is empty.
    pub(in crate::page) fn first_fragment(&self, owner: CpuId, migratetype: MigrateType) -> Option<Pfn> {
        let first = self.fragments_of(owner).list(migratetype).first();
        debug_assert!(
            first.is_none_or(|first| self.map.pageblock(first).owner() == Some(owner)),
            "fragments: pageblock {first:?} is on the list of CPU {}, which does not own it",
            owner.0
        );
        first
    }

    /// Takes a whole pageblock for a CPU, which owns it from now on, or returns `None` if none is free. The pageblock
    /// is marked if a smaller block of the type would suffice, because Linux would not take a whole pageblock then.
    pub(in crate::page) fn rmqueue_whole_pageblock(&mut self, wanted: BlockRequest, cpu: CpuId) -> Option<Pfn> {
        let BlockRequest { order, migratetype, .. } = wanted;
        let is_early = order.to(self.map.half_pageblock_order()).any(|order| self.areas.area(order).has(migratetype));
        let block = self.rmqueue_smallest(self.pageblock_order(), migratetype)?;
        let pageblock = self.map.pageblock(block);
        pageblock.set_owner(Some(cpu));
        if is_early {
            pageblock.note_opened_early();
        }
        Some(block)
    }

    /// Gives the pageblock around a block that just left the zone to a CPU, if the pageblock has no owner and is of the
    /// type that the CPU requested. The CPU may later recall other free pages of the pageblock.
    pub(in crate::page) fn own_if_unowned(&mut self, pfn: Pfn, migratetype: MigrateType, cpu: CpuId) {
        let block = pfn.align_down(self.pageblock_order());
        let pageblock = self.map.pageblock(block);
        if pageblock.owner().is_none() && pageblock.migratetype() == migratetype {
            pageblock.set_owner(Some(cpu));
            self.list_fragment(block);
        }
    }

    /// Takes every free block of a pageblock off its list, claims it, and passes it to `take`. Cost: at most one step
    /// per frame.
    pub(in crate::page) fn rmqueue_pageblock(&mut self, block: Pfn, mut take: impl FnMut(Pfn, Order)) {
        let end = block.offset(self.pageblock_order().pages());
        let mut at = block;
        while at < end {
            let word = self.map.frame(at).word();
            if word.is_zone_free() {
                let (order, migratetype) = self.del_page_from_free_list(at);
                self.account_out(order.pages(), migratetype);
                self.map.frame(at).set(Word::claimed_of(order));
                self.probe.report(Event::ZoneLocked { pfn: at, order, migratetype });
                take(at, order);
            }
            at = at.offset(word.pages_to_next_head());
        }
    }
}
