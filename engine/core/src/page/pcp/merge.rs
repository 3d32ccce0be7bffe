//! The drain of `pcp=merge`, which `owned` and `owned-remote` use too: buddies are merged under the lists' own lock,
//! before the zone lock is taken.
//!
//! `merge` shows how much of the gain of owned pageblocks is due to merging alone, so it changes nothing else. The same
//! blocks leave the lists for the same reasons. Each of them first absorbs its buddy from any list of this CPU, and
//! this is repeated up to a whole pageblock. The results are freed to the zone as fewer, larger blocks, each of which
//! costs one insertion there.
//!
//! A block's buddy within a pageblock is in the same zone. A word that names a list of this CPU is therefore protected
//! by the lock that the drain holds.
//!
//! # Design
//!
//! A buddy that is merged leaves its list earlier than without merging, although the drain did not select it. This is
//! the cost of the policy, and `pcp_refills` shows it.

use core::ops::Range;

use super::locked::LockedPcp;
use crate::base::chain::Chain;
use crate::base::memmap::MemMap;
use crate::base::run::Run;
use crate::base::word::Word;
use crate::base::{CpuId, Order, Pfn};
use crate::page::percpu::{PcpLists, Victim};
use crate::platform::{Event, Platform};

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Merges blocks of `budget` pages, or a few more, and gives the results to the zone.
    pub(super) fn drain_merged(&mut self, budget: u32, first: u8) {
        let (allocator, zone, cpu) = (self.allocator, self.zone, self.cpu);
        let map = &allocator.map;
        let (mut run, mut merge) = (Run::default(), Merge { map, cpu, leaving: Chain::default(), blocks: 0 });
        self.lists.for_each_victim(map, budget, first, |lists, Victim { pfn, order, frame }| {
            if let Some(run) = run.extend(pfn, order, frame) {
                merge.absorb_buddies_of(lists, run);
            }
        });
        run.finish().into_iter().for_each(|run| merge.absorb_buddies_of(&mut self.lists, run));
        allocator.report(Event::PcpMerge { zone: zone.index() as u8, cpu, blocks: merge.blocks });
        let mut locked = allocator.lock_zone(zone);
        while let Some((pfn, frame)) = merge.leaving.pop(map) {
            let order = frame.word().order();
            if frame.word().is_leaving_of(order, cpu) {
                locked.free_pcp_block(pfn, order);
            }
        }
    }
}

/// State of a merging drain.
struct Merge<'a, 'm> {
    map: &'a MemMap<'m>,
    cpu: CpuId,
    /// Blocks to be freed to the zone, and blocks that were absorbed after they were linked, which are Interior now.
    leaving: Chain,
    /// Number of blocks that the drain took off the lists. Adjacent victims count as the aligned blocks that they form.
    blocks: u32,
}

impl Merge<'_, '_> {
    /// Lets the aligned blocks of a run absorb their buddies on this CPU's lists, and links the results.
    fn absorb_buddies_of(&mut self, lists: &mut PcpLists, run: Range<Pfn>) {
        for (pfn, order) in run.start.blocks_up_to(run.end, self.map.pageblock_order()) {
            self.absorb_buddies(lists, pfn, order);
        }
    }

    fn absorb_buddies(&mut self, lists: &mut PcpLists, mut pfn: Pfn, mut order: Order) {
        let (block, mut is_linked) = (self.map.pageblock_order(), false);
        self.blocks += 1;
        while order < block {
            let buddy = pfn.buddy(order);
            let word = self.map.frame(buddy).word();
            let is_leaving = word.is_leaving_of(order, self.cpu);
            if word.is_cached_of(order, self.cpu) {
                lists.remove(self.map, buddy, word);
                self.blocks += 1;
            } else if !is_leaving {
                break;
            }
            self.map.frame(buddy.max(pfn)).set(Word::INTERIOR);
            if buddy < pfn {
                (pfn, is_linked) = (buddy, is_leaving);
            }
            order = order.up().expect("a pageblock is at most as large as the largest block");
        }
        let leaving = Word::leaving(order, self.cpu);
        if is_linked {
            self.map.frame(pfn).set(leaving);
        } else {
            self.leaving.push(self.map, pfn, leaving);
        }
    }
}

/// Claims the blocks that a panic of the probe kept from the zone. They are lost, and no later drain of this CPU takes
/// them for its own.
impl Drop for Merge<'_, '_> {
    fn drop(&mut self) {
        while let Some((_, frame)) = self.leaving.pop(self.map) {
            let order = frame.word().order();
            if frame.word().is_leaving_of(order, self.cpu) {
                frame.set(Word::claimed_of(order));
            }
        }
    }
}
