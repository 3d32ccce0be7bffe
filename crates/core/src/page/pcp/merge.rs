//! The drain of `pcp=merge`: buddies are merged under the list's own lock, before the zone lock is taken.
//!
//! The question behind it: how much of the gain of owned pageblocks comes from merging alone? So nothing else changes:
//! the same blocks leave the lists for the same reasons, but each first absorbs its buddy, wherever on this CPU's
//! lists that is, again and again up to a whole pageblock. What is left goes to the zone as fewer, larger blocks, each
//! of which costs one insertion there.
//!
//! A block's buddy within a pageblock belongs to the same zone, so a word that says "on a list of this CPU" is
//! protected by the lock that the drain holds.

use core::ops::Range;

use super::{MERGED, PcpLists};
use crate::base::frame::Word;
use crate::base::memmap::MemMap;
use crate::base::run::Run;
use crate::base::{CpuId, Order, Pfn};
use crate::page::PageAllocator;
use crate::page::free::Freed;
use crate::page::zone::Zone;
use crate::platform::{Event, Platform};

impl<P: Platform> PageAllocator<'_, P> {
    /// Gathers merged blocks for `budget` pages on a list of their own, then hands that list to the zone.
    pub(super) fn drain_merged(&self, zone: &Zone<P::Lock>, lists: &mut PcpLists, budget: u32, first: u8, cpu: CpuId) {
        let block = self.map.pageblock_order();
        let (mut run, mut blocks) = (Run::default(), 0);
        let mut merge = |lists: &mut PcpLists, run: Range<Pfn>| {
            for (pfn, order) in run.start.blocks_up_to(run.end, block) {
                blocks += lists.merge(&self.map, pfn, order, block, cpu);
            }
        };
        lists.for_each_victim(&self.map, block, budget, first, |lists, Freed { pfn, order, frame }| {
            if let Some(run) = run.take_in(pfn, order, frame) {
                merge(lists, run);
            }
        });
        run.finish().into_iter().for_each(|run| merge(lists, run));
        self.report(Event::PcpMerge { zone: zone.index() as u8, cpu, blocks });
        let mut locked = self.lock_zone(zone);
        while let Some((pfn, frame)) = lists.lists[usize::from(MERGED)].pop_head(&self.map) {
            locked.take_back(pfn, frame.word().order());
        }
    }
}

impl PcpLists {
    /// Lets a block that was taken off its list absorb its buddies on this CPU's lists, and puts it on the
    /// merged list. Says how many blocks it is made of.
    fn merge(&mut self, map: &MemMap<'_>, mut pfn: Pfn, mut order: Order, block: Order, cpu: CpuId) -> u32 {
        let mut blocks = 1;
        while let Some(up) = order.up().filter(|&up| up <= block) {
            let buddy = pfn.buddy(order);
            let word = map.frame(buddy).word();
            if !word.is_cached_of(order, cpu) {
                break;
            }
            self.remove(map, buddy, word);
            map.frame(buddy.max(pfn)).set(Word::INTERIOR);
            (pfn, order) = (buddy.min(pfn), up);
            blocks += 1;
        }
        self.lists[usize::from(MERGED)].push_tail(map, pfn, Word::pcp_cached(order, MERGED, cpu));
        blocks
    }

    /// Takes a block off the list that its word names. What is on the merged list is no longer counted.
    fn remove(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        self.lists[usize::from(word.list())].remove(map, pfn);
        if word.list() != MERGED {
            self.tuning.count -= word.order().pages();
        }
    }
}
