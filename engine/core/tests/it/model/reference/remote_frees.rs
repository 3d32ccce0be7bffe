//! Frees of pages in pageblocks that a CPU owns.
//!
//! Under `pcp=owned` the page goes on the owner's list, whichever CPU frees it. Under `pcp=owned-remote` it goes onto
//! the owner's stack, unless the owner itself frees it. The owner moves the pages of the stack to its lists when it
//! runs out of pages, and whenever its lists are drained. A stack with more pages than the limit of the lists is
//! flushed to the zone.

use std::mem;
use std::ops::Range;

use freehold::policy::PcpPolicy;

use super::lists::part_of;
use super::map::Page;
use super::{Block, Reference};
use crate::model::runner::Sabotage;

/// Appends or prepends a block to a run, if they are adjacent. Returns whether they are.
pub(crate) fn joins(run: &mut Range<u32>, (pfn, order): Block) -> bool {
    let end = pfn + (1 << order);
    if run.end == pfn {
        run.end = end;
    } else if run.start == end {
        run.start = pfn;
    } else {
        return false;
    }
    true
}

/// Splits a run into aligned blocks of up to an order, each the largest that starts at its frame.
pub(crate) fn natural(mut run: Range<u32>, largest: u8) -> Vec<Block> {
    let mut blocks = Vec::new();
    while !run.is_empty() {
        let mut orders = (0..=largest).rev();
        let fitting = orders.find(|order| run.start.is_multiple_of(1 << order) && run.end - run.start >= 1 << order);
        let order = fitting.expect("a page is a block");
        blocks.push((run.start, order));
        run.start += 1 << order;
    }
    blocks
}

/// Combines neighbouring blocks that are consecutive in a list into runs.
fn runs(blocks: Vec<Block>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for (pfn, order) in blocks {
        if !runs.last_mut().is_some_and(|run| joins(run, (pfn, order))) {
            runs.push(pfn..pfn + (1 << order));
        }
    }
    runs
}

impl Reference {
    /// Returns whether CPUs own pageblocks.
    pub(crate) fn owns(&self) -> bool {
        matches!(self.rules.pcp, PcpPolicy::Owned | PcpPolicy::OwnedRemote)
    }

    /// Returns whether the zone around a frame is calm (see [`is_calm`](Self::is_calm)) and has a free whole pageblock
    /// for each CPU near it.
    pub(crate) fn has_plenty(&self, pfn: u32) -> bool {
        let zone = self.map.zone(pfn).expect("freed frames belong to a zone");
        self.is_calm(zone) && (!self.has_few_whole(zone) || self.mistake == Sabotage::HomeAnyway)
    }

    /// Returns whether the zone around a frame is calm.
    pub(crate) fn is_at_ease(&self, pfn: u32) -> bool {
        self.is_calm(self.map.zone(pfn).expect("freed frames belong to a zone"))
    }

    /// Returns whether a zone has fewer free whole pageblocks than there are CPUs near it.
    pub(crate) fn has_few_whole(&self, zone: usize) -> bool {
        let near = self.node_of_cpu.iter().filter(|&&node| node == self.zones[zone].node.0).count();
        self.zones[zone].whole(self.map.block) < if near == 0 { self.node_of_cpu.len() } else { near }
    }

    /// Frees a block of an owned pageblock: to the lists or the stack of its owner, or to the zone if no list has its
    /// order.
    pub(crate) fn free_home(&mut self, (pfn, order): Block, owner: usize) {
        let block = self.map.block;
        let Some(index) = part_of(order, self.map.type_of(pfn), block).filter(|_| order < block) else {
            return self.free_to_zone(pfn, order, false);
        };
        if owner == self.cpu || self.rules.pcp == PcpPolicy::Owned {
            return self.free_to_lists(owner, (pfn, order), index);
        }
        let zone = self.map.zone(pfn).expect("freed frames belong to a zone");
        self.map.paint(pfn, order, Page::Stacked);
        let lists = &mut self.lists[owner][zone];
        lists.stack.push((pfn, order));
        if lists.stacked() > lists.high {
            self.flush_stack(owner, zone);
        }
    }

    /// Takes all blocks off a stack, the last one first, and combines consecutive neighbours.
    fn take_stack(&mut self, cpu: usize, zone: usize, largest: u8) -> Vec<Block> {
        let mut blocks = mem::take(&mut self.lists[cpu][zone].stack);
        if self.mistake != Sabotage::FirstHomeFirst {
            blocks.reverse();
        }
        runs(blocks).into_iter().flat_map(|run| natural(run, largest)).collect()
    }

    /// Moves a CPU's stack to its lists while these are below their limit. The remaining blocks, and blocks that the
    /// CPU no longer owns, go to the zone. Returns whether the stack had blocks.
    pub(crate) fn bring_home(&mut self, cpu: usize, zone: usize) -> bool {
        let block = self.map.block;
        let blocks = self.take_stack(cpu, zone, block - 1);
        let (any, mut left_over) = (!blocks.is_empty(), Vec::new());
        self.map.owned.cases.homecomings += u64::from(any);
        for (pfn, order) in blocks {
            let lists = &mut self.lists[cpu][zone];
            if self.map.owner(pfn) != Some(cpu) || lists.count >= lists.high {
                left_over.push((pfn, order));
                continue;
            }
            lists.part(order, self.map.type_of(pfn), block).push_front(pfn);
            lists.count += 1 << order;
            self.map.paint(pfn, order, Page::Listed);
        }
        left_over.into_iter().for_each(|block| self.return_to_zone(zone, block));
        any
    }

    fn flush_stack(&mut self, cpu: usize, zone: usize) -> bool {
        let blocks = self.take_stack(cpu, zone, self.map.block);
        let any = !blocks.is_empty();
        self.map.owned.cases.flushes += u64::from(any);
        blocks.into_iter().for_each(|block| self.return_to_zone(zone, block));
        any
    }

    /// Moves the blocks on all stacks to their zones. Returns whether there were any.
    pub(crate) fn flush_stacks(&mut self) -> bool {
        let cpus = if self.mistake == Sabotage::PassStacks { 0 } else { self.lists.len() };
        let places = (0..self.zones.len()).flat_map(|zone| (0..cpus).map(move |cpu| (cpu, zone)));
        let any = places.fold(false, |any, (cpu, zone)| self.flush_stack(cpu, zone) || any);
        self.map.owned.cases.rescues += u64::from(any);
        any
    }

    /// Frees all blocks on the calling CPU's lists to the zones, because some may have come from its stack. Returns
    /// whether there were any.
    pub(crate) fn give_back_homecoming(&mut self) -> bool {
        let remote = self.rules.pcp == PcpPolicy::OwnedRemote && self.mistake != Sabotage::KeepHomecoming;
        let zones = (0..self.zones.len()).filter(|_| remote);
        zones.fold(false, |any, zone| {
            let has_some = self.lists[self.cpu][zone].count > 0;
            self.empty_lists(self.cpu, zone);
            any || has_some
        })
    }

    /// Ends the ownership of a CPU that goes offline, and drains its lists.
    pub(crate) fn cpu_dead(&mut self, cpu: usize) {
        for zone in 0..self.zones.len() {
            if self.mistake != Sabotage::KeepEstates {
                self.map.end_by_loss(cpu, zone);
            }
            self.drain_pages_zone(cpu, zone);
        }
    }

    /// Frees a block from a CPU's lists to the zone. Blocks of owned pageblocks go to the tail, so that they are used
    /// last.
    pub(crate) fn return_to_zone(&mut self, zone: usize, (pfn, order): Block) {
        let migratetype = self.map.type_of(pfn);
        let is_owned = self.map.owner(pfn).is_some() && self.mistake != Sabotage::OwnedFirst;
        let to_tail = is_owned || self.mistake == Sabotage::WrongEnd;
        self.zones[zone].free_one(&mut self.map, pfn, order, migratetype, to_tail);
    }
}
