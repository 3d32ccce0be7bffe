//! The way home: what becomes of a free where a CPU owns the pageblock.
//!
//! Under `pcp=owned` the page goes on the owner's list, whoever frees it. Under `pcp=owned-remote` it goes onto the
//! owner's stack, unless it is the owner who frees; the owner brings the stack home when it runs out, and whenever its
//! lists are drained. A stack that holds more than the lists may goes to the zone.

use std::mem;
use std::ops::Range;

use freehold::policy::PcpPolicy;

use super::lists::part_of;
use super::map::Page;
use super::{Block, Reference};
use crate::model::runner::Sabotage;

/// Lets a block join a run that it follows or precedes; whether it does.
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

/// A run as natural blocks of up to an order, each the largest that begins there.
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

/// Neighbours that follow each other in a list become one run.
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
    /// Whether CPUs own pageblocks.
    pub(crate) fn owns(&self) -> bool {
        matches!(self.rules.pcp, PcpPolicy::Owned | PcpPolicy::OwnedRemote)
    }

    /// Whether the zone around a frame has no worries, nor is its node to be spared, and has a whole pageblock for each
    /// CPU near.
    pub(crate) fn has_plenty(&self, pfn: u32) -> bool {
        let zone = self.map.zone(pfn).expect("freed frames belong to a zone");
        self.is_calm(zone) && (!self.has_few_whole(zone) || self.mistake == Sabotage::HomeAnyway)
    }

    /// Whether the zone around a frame has no worries, nor is its node to be spared.
    pub(crate) fn is_at_ease(&self, pfn: u32) -> bool {
        self.is_calm(self.map.zone(pfn).expect("freed frames belong to a zone"))
    }

    /// Whether fewer whole pageblocks of a zone are free than CPUs are near it.
    pub(crate) fn has_few_whole(&self, zone: usize) -> bool {
        let near = self.node_of_cpu.iter().filter(|&&node| node == self.zones[zone].node.0).count();
        self.zones[zone].whole(self.map.block) < if near == 0 { self.node_of_cpu.len() } else { near }
    }

    /// A free for which the caller's own list is not the place.
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

    /// Takes a stack whole: what was pushed last comes first, and neighbours come together.
    fn take_stack(&mut self, cpu: usize, zone: usize, largest: u8) -> Vec<Block> {
        let mut blocks = mem::take(&mut self.lists[cpu][zone].stack);
        if self.mistake != Sabotage::FirstHomeFirst {
            blocks.reverse();
        }
        runs(blocks).into_iter().flat_map(|run| natural(run, largest)).collect()
    }

    /// Brings a CPU's stack to its lists, as long as these are below their limit; the rest, and what is not its own any
    /// more, goes to the zone. Says whether anything waited.
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

    /// Gives what waits on any stack to its zone; says whether anything did.
    pub(crate) fn flush_stacks(&mut self) -> bool {
        let cpus = if self.mistake == Sabotage::PassStacks { 0 } else { self.lists.len() };
        let places = (0..self.zones.len()).flat_map(|zone| (0..cpus).map(move |cpu| (cpu, zone)));
        let any = places.fold(false, |any, (cpu, zone)| self.flush_stack(cpu, zone) || any);
        self.map.owned.cases.rescues += u64::from(any);
        any
    }

    /// Gives back all that is on the caller's lists, maybe brought home for somebody else; says whether anything was.
    pub(crate) fn give_back_homecoming(&mut self) -> bool {
        let remote = self.rules.pcp == PcpPolicy::OwnedRemote && self.mistake != Sabotage::KeepHomecoming;
        let zones = (0..self.zones.len()).filter(|_| remote);
        zones.fold(false, |any, zone| {
            let has_some = self.lists[self.cpu][zone].count > 0;
            self.empty_lists(self.cpu, zone);
            any || has_some
        })
    }

    /// A CPU that does not run any more owns nothing, and has nothing.
    pub(crate) fn cpu_dead(&mut self, cpu: usize) {
        for zone in 0..self.zones.len() {
            if self.mistake != Sabotage::KeepEstates {
                self.map.end_by_loss(cpu, zone);
            }
            self.drain_pages_zone(cpu, zone);
        }
    }

    /// What leaves a CPU for the zone: pages of owned pageblocks are used last.
    pub(crate) fn return_to_zone(&mut self, zone: usize, (pfn, order): Block) {
        let migratetype = self.map.type_of(pfn);
        let is_owned = self.map.owner(pfn).is_some() && self.mistake != Sabotage::OwnedFirst;
        let to_tail = is_owned || self.mistake == Sabotage::WrongEnd;
        self.zones[zone].free_one(&mut self.map, pfn, order, migratetype, to_tail);
    }
}
