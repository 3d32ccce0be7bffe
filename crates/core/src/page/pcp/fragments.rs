//! Which pageblocks a CPU owns in part: some of their pages went to the zone, and it may want them back.
//!
//! A block joins its owner's list when one of its pages becomes free in the zone, and leaves it when the owner calls it
//! back, or when ownership ends: the block is whole, its type changes, or its CPU goes offline. All of this
//! happens under the zone lock.

use crate::base::fault::{Fault, is_planted};
use crate::base::{CpuId, MigrateType, Pfn};
use crate::page::zone::LockedZone;
use crate::platform::Platform;

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Notes that an owned pageblock has pages in the zone. `block` is its first frame.
    pub(in crate::page) fn remember(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        debug_assert!(block.is_aligned(self.pageblock_order()), "fragments: frame {block} begins no pageblock");
        let (Some(owner), false) = (pageblock.owner(), pageblock.is_listed()) else { return };
        self.fragments(owner, pageblock.migratetype()).push_tail(&self.map, block);
    }

    /// Notes that its owner has called it back.
    pub(in crate::page) fn forget(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        if let (Some(owner), true) = (pageblock.owner(), pageblock.is_listed()) {
            self.fragments(owner, pageblock.migratetype()).remove(&self.map, block);
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

    /// Changes what a pageblock is for; nobody owns it then.
    pub(in crate::page) fn set_type(&mut self, block: Pfn, migratetype: MigrateType) {
        let block = block.align_down(self.pageblock_order());
        self.disown(block);
        self.map.pageblock(block).set_migratetype(migratetype);
    }

    fn fragments(&self, owner: CpuId, migratetype: MigrateType) -> &'_ crate::base::blocklist::BlockList {
        &self.pcp_of(owner).fragments[migratetype.index()]
    }

    /// The block that was remembered first, of those that a CPU owns.
    pub(super) fn first_fragment(&self, owner: CpuId, migratetype: MigrateType) -> Option<Pfn> {
        let first = self.fragments(owner, migratetype).first();
        debug_assert!(
            first.is_none_or(|first| self.map.pageblock(first).owner() == Some(owner)),
            "fragments: pageblock {first:?} is not CPU {}'s, and on its list",
            owner.0
        );
        first
    }
}
