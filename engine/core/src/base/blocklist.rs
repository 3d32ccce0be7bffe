//! A doubly linked list of pageblocks, threaded through their metadata. A CPU keeps the pageblocks that it owns in part
//! on such a list.
//!
//! The lock of the blocks' zone protects the list. The list itself is stored with its CPU's page lists, which have
//! another lock; its ends are therefore atomics. All operations take constant time.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Pfn;
use super::list::{NIL, pfn};
use super::memmap::MemMap;
use super::pageblock::UNLISTED;

/// A doubly linked list of pageblocks.
#[derive(Debug)]
pub struct BlockList {
    head: AtomicU32,
    tail: AtomicU32,
}

impl BlockList {
    /// Creates an empty list.
    pub(crate) const fn new() -> BlockList {
        BlockList { head: AtomicU32::new(NIL), tail: AtomicU32::new(NIL) }
    }

    /// Returns the first frame of the first block, or `None` if the list is empty.
    pub fn first(&self) -> Option<Pfn> {
        pfn(self.head.load(Relaxed))
    }

    /// Puts the block that starts at `block` at the tail. The block is on no list.
    pub(crate) fn push_tail(&self, map: &MemMap<'_>, block: Pfn) {
        let (pageblock, last) = (map.pageblock(block), self.tail.load(Relaxed));
        debug_assert!(!pageblock.is_listed(), "block list: pageblock {block} is already on a list");
        debug_assert!(
            pfn(last).is_none_or(|last| map.pageblock(last).next.load(Relaxed) == NIL),
            "block list: the tail, pageblock {last:#x}, has a successor"
        );
        pageblock.next.store(NIL, Relaxed);
        pageblock.prev.store(last, Relaxed);
        match pfn(last) {
            Some(last) => map.pageblock(last).next.store(block.raw(), Relaxed),
            None => self.head.store(block.raw(), Relaxed),
        }
        self.tail.store(block.raw(), Relaxed);
    }

    /// Removes a block that is on this list.
    pub(crate) fn remove(&self, map: &MemMap<'_>, block: Pfn) {
        let pageblock = map.pageblock(block);
        let (next, prev) = (pageblock.next.load(Relaxed), pageblock.prev.load(Relaxed));
        debug_assert!(pageblock.is_listed(), "block list: pageblock {block} is on no list");
        debug_assert!(self.leads_to(map, prev) == block.raw(), "block list: pageblock {block} is not after {prev:#x}");
        debug_assert!(self.leads_back(map, block), "block list: pageblock {block} is not before {next:#x}");
        match pfn(prev) {
            Some(prev) => map.pageblock(prev).next.store(next, Relaxed),
            None => self.head.store(next, Relaxed),
        }
        match pfn(next) {
            Some(next) => map.pageblock(next).prev.store(prev, Relaxed),
            None => self.tail.store(prev, Relaxed),
        }
        pageblock.next.store(UNLISTED, Relaxed);
    }

    /// Returns the block after `prev`, or the first of the list if `prev` is an end mark.
    fn leads_to(&self, map: &MemMap<'_>, prev: u32) -> u32 {
        let next =
            pfn(prev).map(|prev| map.try_frame_and_pageblock(prev).map_or(NIL, |(_, prev)| prev.next.load(Relaxed)));
        next.unwrap_or_else(|| self.head.load(Relaxed))
    }

    /// Returns whether the block after `block` links back to `block`. For a block without a successor, returns whether
    /// it is the tail of the list.
    pub(crate) fn leads_back(&self, map: &MemMap<'_>, block: Pfn) -> bool {
        let next = pfn(map.pageblock(block).next.load(Relaxed));
        let prev = next.map(|next| map.try_frame_and_pageblock(next).map_or(NIL, |(_, next)| next.prev.load(Relaxed)));
        prev.unwrap_or_else(|| self.tail.load(Relaxed)) == block.raw()
    }

    /// Overwrites the list's first and last pageblock, without any check.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_ends(&self, first: Option<Pfn>, last: Option<Pfn>) {
        self.head.store(first.map_or(NIL, Pfn::raw), Relaxed);
        self.tail.store(last.map_or(NIL, Pfn::raw), Relaxed);
    }

    /// Returns the first frames of the blocks from first to last, for checkers. If blocks join or leave the list
    /// meanwhile, the iterator may skip blocks, yield the number of no pageblock, end early or not end.
    pub fn iter<'l>(&'l self, map: &'l MemMap<'_>) -> impl Iterator<Item = Pfn> + 'l {
        core::iter::successors(self.first(), |&here| pfn(map.try_frame_and_pageblock(here)?.1.next.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::base::testing::with_map;

    #[test]
    fn remove_unlinks_a_block_at_any_position() {
        with_map(|map| {
            let (list, blocks) = (BlockList::new(), [0, 512, 1024, 1536].map(Pfn::new));
            blocks.iter().for_each(|&block| list.push_tail(map, block));
            assert_eq!(list.iter(map).map(Pfn::raw).collect::<Vec<_>>(), [0, 512, 1024, 1536]);
            for (gone, rest) in [(512, &[0, 1024, 1536][..]), (1536, &[0, 1024]), (0, &[1024]), (1024, &[])] {
                list.remove(map, Pfn::new(gone));
                assert!(!map.pageblock(Pfn::new(gone)).is_listed());
                assert_eq!(list.iter(map).map(Pfn::raw).collect::<Vec<_>>(), rest);
            }
            assert_eq!(list.first(), None);
        });
    }
}
