//! Which pageblocks a CPU owns in part: some of their pages went to the zone, and it may want them back.
//!
//! A block joins its owner's list when one of its pages becomes free in the zone, and leaves it when the owner calls it
//! back, or when ownership ends: the block is whole, its type changes, or its CPU goes offline. All of this
//! happens under the zone lock.

use super::locked::LockedZone;
use crate::base::fault::{Fault, is_planted};
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::platform::{Event, Platform, Probe};

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Notes that an owned pageblock has pages in the zone. `block` is its first frame.
    #[inline]
    pub(in crate::page) fn remember(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        debug_assert!(block.is_aligned(self.pageblock_order()), "fragments: frame {block} begins no pageblock");
        let (Some(owner), false) = (pageblock.owner(), pageblock.is_listed()) else { return };
        self.fragments_of(owner).of(pageblock.migratetype()).push_tail(&self.map, block);
    }

    /// Notes that its owner has called it back.
    pub(in crate::page) fn forget(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        if let (Some(owner), true) = (pageblock.owner(), pageblock.is_listed()) {
            self.fragments_of(owner).of(pageblock.migratetype()).remove(&self.map, block);
        }
    }

    /// Ends the ownership of a pageblock. Its pages on the owner's lists go to the zone with the drains to come.
    pub(in crate::page) fn disown(&mut self, block: Pfn) {
        if self.map.pageblock(block).owner().is_some() && !is_planted(Fault::OwnerStays) {
            if !is_planted(Fault::FragmentStays) {
                self.forget(block);
            }
            self.map.pageblock(block).set_owner(None);
        }
        debug_assert!(
            !self.map.pageblock(block).is_listed()
                || [Fault::OwnerStays, Fault::FragmentStays].into_iter().any(is_planted),
            "fragments: pageblock {block} is nobody's, and on the list of some CPU"
        );
    }

    /// The same for each pageblock of a block, or for the one that it is part of.
    pub(super) fn disown_each(&mut self, pfn: Pfn, order: Order) {
        let order = order.max(self.pageblock_order());
        pfn.blocks_up_to(pfn.offset(order.pages()), self.pageblock_order()).for_each(|(block, _)| self.disown(block));
    }

    /// Changes what a pageblock is for; nobody owns it then.
    pub(in crate::page) fn set_type(&mut self, block: Pfn, migratetype: MigrateType) {
        let block = block.align_down(self.pageblock_order());
        self.disown(block);
        self.map.pageblock(block).set_migratetype(migratetype);
    }

    /// The block that was remembered first, of those that a CPU owns.
    pub(in crate::page) fn first_fragment(&self, owner: CpuId, migratetype: MigrateType) -> Option<Pfn> {
        let first = self.fragments_of(owner).of(migratetype).first();
        debug_assert!(
            first.is_none_or(|first| self.map.pageblock(first).owner() == Some(owner)),
            "fragments: pageblock {first:?} is not CPU {}'s, and on its list",
            owner.0
        );
        first
    }

    /// Whether at least seven eighths of what is free for ordinary requests lie in whole pageblocks.
    pub(in crate::page) fn is_mostly_whole(&self) -> bool {
        let types = || MigrateType::ALL.into_iter().filter(|own| own.is_mergeable());
        let blocks = |order| types().map(|own| u64::from(self.areas.area(order).len(own))).sum::<u64>();
        let whole: u64 = self.pageblock_order().to(Order::MAX).map(|order| blocks(order) << order.get()).sum();
        let apart = self.zone.free_cma() + self.zone.free_highatomic();
        8 * whole >= 7 * self.zone.free_pages().saturating_sub(apart)
    }

    /// Takes every free block of a pageblock off its list. At most one step a frame.
    pub(in crate::page) fn take_free_of(&mut self, block: Pfn, mut take: impl FnMut(Pfn, Order)) {
        let end = block.offset(self.pageblock_order().pages());
        let mut at = block;
        while at < end {
            let word = self.map.frame(at).word();
            if word.is_zone_free() {
                let (order, migratetype) = self.unlink(at);
                self.account_out(order.pages(), migratetype);
                self.map.frame(at).set(Word::claimed_of(order));
                self.probe.report(Event::ZoneLocked { pfn: at, order, migratetype });
                take(at, order);
            }
            at = at.offset(word.pages_to_next_head());
        }
    }
}
