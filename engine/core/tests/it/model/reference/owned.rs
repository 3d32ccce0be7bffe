//! Owned pageblocks: their owners, those that have pages in the zone, and the refill of an owner's list.
//!
//! This is a literal implementation of `engine/core/src/page/pcp/owned.rs`. An empty list recalls parts of its own
//! pageblocks, then takes the smallest sufficient blocks, a whole pageblock only where no smaller block is sufficient,
//! and finally the blocks that Linux would take. A pageblock without an owner becomes the CPU's. A block stays unsplit
//! until a request for a smaller order arrives.

use std::collections::VecDeque;

use freehold::base::MigrateType;
use freehold::policy::flags::AllocFlags;
use freehold::policy::kswapd::BusyNodes;

use super::lists::index_of;
use super::map::{Map, Page};
use super::zone::{Mode, Search, Zone};
use super::{Block, Reference};
use crate::model::runner::Sabotage;

/// Maximum number of pageblocks that one refill recalls.
const RECALLS: usize = 8;
/// Order of the block that smaller requests split off a larger one and divide into pieces of their order.
const CUT: u8 = 4;
/// Order of the block that requests for single pages split off.
const CUT_SINGLES: u8 = 7;
/// Number of blocks of each order from 1 to 3, of types other than Movable, that smaller requests leave alone where few
/// pageblocks are whole.
const KEPT: usize = 2;

/// Number of times that each rule was applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cases {
    /// Pageblocks recalled from the zone.
    pub recalls: u64,
    /// Pageblocks whose owner took them as a whole.
    pub owned: u64,
    /// Pageblocks whose owner took a part of them.
    pub joined: u64,
    /// Blocks taken as parts of the smallest sufficient size.
    pub parts: u64,
    /// Pageblocks that lost their owner because they became whole.
    pub whole: u64,
    /// Pageblocks that lost their owner because their type was set.
    pub retyped: u64,
    /// Stacks that their owner moved to its lists.
    pub homecomings: u64,
    /// Stacks that were flushed to the zone.
    pub flushes: u64,
    /// Pageblocks that lost their owner because a range in them was allocated; `retyped` counts these too.
    pub isolated: u64,
    /// Pageblocks that lost their owner because it went offline.
    pub orphans: u64,
    /// Requests that succeeded only because stacks were flushed.
    pub rescues: u64,
    /// Blocks that a smaller request left alone, because they were among the last of their order.
    pub kept: u64,
}

/// Ownership of pageblocks.
#[derive(Default)]
pub(crate) struct Owned {
    /// Owner of each pageblock, by pageblock number.
    owners: Vec<Option<usize>>,
    /// Owned pageblocks with pages in the zone, in the order in which the first of these pages arrived.
    parts: Vec<usize>,
    /// A rule to break, to show that the comparison finds it.
    pub outlasts_use: bool,
    pub cases: Cases,
}

impl Owned {
    pub(crate) fn new(blocks: usize) -> Owned {
        Owned { owners: vec![None; blocks], ..Owned::default() }
    }

    /// Ends the ownership of a pageblock. Returns whether it had an owner.
    fn end(&mut self, block: usize) -> bool {
        self.parts.retain(|&part| part != block);
        self.owners[block].take().is_some()
    }
}

impl Map {
    /// Returns the CPU that owns the pageblock around a frame.
    pub(crate) fn owner(&self, pfn: u32) -> Option<usize> {
        self.owned.owners[(pfn >> self.block) as usize]
    }

    /// Ends the ownership of the pageblock around a frame because its type is set, even to the type that it already
    /// has.
    pub(crate) fn end_by_use(&mut self, pfn: u32) {
        if self.owned.outlasts_use {
            return;
        }
        self.owned.cases.retyped += u64::from(self.owned.end((pfn >> self.block) as usize));
    }

    /// Ends the ownership of all pageblocks of an offline CPU in a zone.
    pub(crate) fn end_by_loss(&mut self, cpu: usize, zone: usize) {
        for block in 0..self.owned.owners.len() {
            if self.owned.owners[block] == Some(cpu) && self.zone((block as u32) << self.block) == Some(zone) {
                self.owned.cases.orphans += u64::from(self.owned.end(block));
            }
        }
    }

    /// Records a CPU as the owner of the pageblock at a frame.
    fn note_owned(&mut self, pfn: u32, cpu: usize) {
        self.owned.owners[(pfn >> self.block) as usize] = Some(cpu);
        self.owned.cases.owned += 1;
    }

    /// Records that a CPU took a part of the pageblock around a frame, for requests of a type. If the pageblock has no
    /// owner and is of that type, the CPU becomes its owner, and the pageblock counts as one with pages in the zone.
    fn note_joined(&mut self, pfn: u32, cpu: usize, migratetype: MigrateType) {
        let block = (pfn >> self.block) as usize;
        if self.owned.owners[block].is_none() && self.type_of(pfn) == migratetype {
            self.owned.owners[block] = Some(cpu);
            self.owned.parts.push(block);
            self.owned.cases.joined += 1;
        }
    }

    /// Records that the pageblock at a frame has no free pages in the zone any more.
    fn note_recalled(&mut self, pfn: u32) {
        let block = (pfn >> self.block) as usize;
        self.owned.parts.retain(|&part| part != block);
        self.owned.cases.recalls += 1;
    }

    /// Records a free block that joined the zone's lists: whole pageblocks lose their owner, others are added to their
    /// owner's parts.
    pub(crate) fn note_freed(&mut self, (pfn, order): Block) {
        for block in (pfn >> self.block) as usize..=((pfn + (1 << order) - 1) >> self.block) as usize {
            if order >= self.block {
                self.owned.cases.whole += u64::from(self.owned.end(block));
            } else if self.owned.owners[block].is_some() && !self.owned.parts.contains(&block) {
                self.owned.parts.push(block);
            }
        }
    }

    /// Records that a whole block was handed to the run of compaction that waited for it.
    pub(crate) fn note_caught(&mut self, (pfn, order): Block) {
        if order >= self.block {
            self.note_freed((pfn, order));
        }
    }

    /// Returns the first frames of a CPU's pageblocks of one type that have pages in a zone, in order of arrival.
    pub(crate) fn parts_of(&self, cpu: usize, zone: usize, migratetype: MigrateType) -> Vec<u32> {
        let frames = self.owned.parts.iter().map(|&block| (block as u32) << self.block);
        let owned = frames.filter(|&pfn| self.owner(pfn) == Some(cpu) && self.zone(pfn) == Some(zone));
        owned.filter(|&pfn| self.type_of(pfn) == migratetype).collect()
    }
}

impl Zone {
    /// Returns the order of the smallest sufficient free block of a type.
    fn smallest_order(&self, order: u8, migratetype: MigrateType) -> Option<u8> {
        (order..=10).find(|&at| !self.lists[usize::from(at)][migratetype.index()].is_empty())
    }

    /// Returns the number of free whole pageblocks.
    pub(crate) fn whole(&self, block: u8) -> usize {
        (block..=10).map(|order| self.count_blocks(order) << (order - block)).sum()
    }

    /// Returns the number of free blocks of an order that any request may use.
    fn count_blocks(&self, order: u8) -> usize {
        self.lists[usize::from(order)][..MigrateType::PCP_COUNT].iter().map(VecDeque::len).sum()
    }

    fn free_for_all(&self) -> i64 {
        self.free[..MigrateType::PCP_COUNT].iter().sum()
    }

    /// Returns whether the zone stays above its high watermark after a request of any order.
    fn is_well_above_high(&self) -> bool {
        !(self.boosted || self.below_high || self.reclaim_active || self.is_near_high())
    }

    /// Returns whether a block is free that this request, or one of a smaller order, may use.
    fn may_serve(&self, Search { migratetype, flags, .. }: Search, block: u8) -> bool {
        use MigrateType::{Cma, HighAtomic, Movable, Reclaimable, Unmovable};
        let least = if flags.contains(AllocFlags::NOFRAGMENT) { block } else { 0 };
        self.has_any(0, &[migratetype, Cma, HighAtomic]) || self.has_any(least, &[Unmovable, Movable, Reclaimable])
    }

    /// Returns whether a block of at least an order is free on a list of these types.
    fn has_any(&self, least: u8, types: &[MigrateType]) -> bool {
        (least..=10).any(|order| types.iter().any(|&migratetype| self.has_block(order, migratetype)))
    }

    /// Returns whether a request could bring the zone below its high watermark.
    pub(crate) fn is_near_high(&self) -> bool {
        let reserve = self.lowmem_reserve.into_iter().max().unwrap_or(0);
        self.free_for_all() <= self.high + self.boost + reserve + (1 << 10)
    }
}

/// A refill in progress.
struct Refill {
    zone: usize,
    search: Search,
    /// Whether the zone was calm when the refill started.
    is_calm: bool,
    /// Number of pages that should be on the lists at the end.
    goal: i64,
    /// Whether a sufficiently large block was taken.
    is_served: bool,
}

impl Reference {
    /// Returns a block from this CPU's lists: one on the lists, whole or split; one from the stack; or one from a
    /// refill.
    pub(crate) fn pop_owned(&mut self, zone: usize, search: Search) -> Option<u32> {
        let pfn = self.pop_or_cut(zone, search);
        if pfn.is_some() {
            return pfn;
        }
        if self.bring_home(self.cpu, zone) {
            let pfn = self.pop_or_cut(zone, search);
            if pfn.is_some() {
                return pfn;
            }
        }
        // Orders between those of Linux's lists are not refilled.
        index_of(search.order, search.migratetype, self.map.block)?;
        self.refill_owned(zone, search);
        self.pop_or_cut(zone, search)
    }

    /// Takes the smallest sufficient part from the lists and splits it.
    fn pop_or_cut(&mut self, zone: usize, search: Search) -> Option<u32> {
        let (block, Search { order, migratetype, .. }) = (self.map.block, search);
        let coarse = self.mistake == Sabotage::CutAtOnce;
        let is_plenty = self.is_calm(zone) && !self.has_few_whole(zone);
        let cuts_last = migratetype == MigrateType::Movable || is_plenty || self.mistake == Sabotage::CutLast;
        let lists = &mut self.lists[self.cpu][zone];
        let (mut is_kept, mut smallest) = (false, None);
        // A whole pageblock on the list for huge pages is only for requests of that size.
        for candidate in order..block.max(order + 1) {
            let left = if candidate == order || candidate > 3 || cuts_last { 0 } else { KEPT };
            let listed = lists.part(candidate, migratetype, block).len();
            is_kept |= (1..=left).contains(&listed);
            if listed > left {
                smallest = Some(candidate);
                break;
            }
        }
        self.map.owned.cases.kept += u64::from(is_kept);
        let found = smallest?;
        let lists = &mut self.lists[self.cpu][zone];
        let pfn = lists.part(found, migratetype, block).pop_front()?;
        let many = if order == 0 { CUT_SINGLES } else { CUT };
        let low = if coarse || found <= 3 { order } else { found.min(order.max(many)) };
        for half in (low..found).rev() {
            lists.part(half, migratetype, block).push_front(pfn + (1 << half));
        }
        for piece in (1..1_u32 << (low - order)).rev() {
            lists.part(order, migratetype, block).push_front(pfn + (piece << order));
        }
        lists.count -= 1 << order;
        Some(pfn)
    }

    fn refill_owned(&mut self, zone: usize, search: Search) {
        let below_high = self.zones[zone].below_high;
        let lists = &mut self.lists[self.cpu][zone];
        let blocks = lists.nr_alloc(search.order, below_high);
        let goal = lists.count + (blocks << search.order);
        if self.passes_by(search.flags) {
            return;
        }
        self.lists[self.cpu][zone].stirred = true;
        if !self.zones[zone].may_serve(search, self.map.block) {
            return;
        }
        // The flags describe the zone at the time when its lock was last released.
        let is_calm = self.is_calm(zone);
        let mut refill = Refill { zone, search, is_calm, goal, is_served: false };
        if is_calm && search.order < self.map.block {
            self.recall(&mut refill);
            self.own(&mut refill);
            self.take_parts(&mut refill);
        }
        self.take_classic(&mut refill);
    }

    /// Returns whether a zone is calm: it is well above its high watermark, and requests do not avoid its node because
    /// of a busy kswapd.
    pub(crate) fn is_calm(&self, zone: usize) -> bool {
        self.zones[zone].is_well_above_high() && !self.is_spared(zone)
    }

    fn is_spared(&self, zone: usize) -> bool {
        self.rules.kswapd.nodes == BusyNodes::Spared && self.zonelists.len() > 1 && self.is_busy(self.zones[zone].node)
    }

    fn is_short(&self, refill: &Refill) -> bool {
        !refill.is_served || self.lists[self.cpu][refill.zone].count < refill.goal
    }

    /// Appends a block that was taken to the list of its order.
    fn bring(&mut self, refill: &mut Refill, (pfn, order): Block) {
        let lists = &mut self.lists[self.cpu][refill.zone];
        lists.part(order, refill.search.migratetype, self.map.block).push_back(pfn);
        lists.count += 1 << order;
        refill.is_served |= order >= refill.search.order;
        self.map.paint(pfn, order, Page::Listed);
    }

    /// Recalls pages of the CPU's own pageblocks, all free pages of each, as long as the lists are below their limit.
    fn recall(&mut self, refill: &mut Refill) {
        for _ in 0..RECALLS {
            let lists = &self.lists[self.cpu][refill.zone];
            if !self.is_short(refill) || lists.count >= lists.high {
                return;
            }
            let parts = self.map.parts_of(self.cpu, refill.zone, refill.search.migratetype);
            let first = if self.mistake == Sabotage::RecallNewest { parts.last() } else { parts.first() };
            let Some(&start) = first else { return };
            let free: Vec<u32> =
                self.map.heads.range(start..start + (1 << self.map.block)).map(|(&at, _)| at).collect();
            for pfn in free {
                let (order, _) = self.zones[refill.zone].remove(&mut self.map, pfn);
                self.bring(refill, (pfn, order));
            }
            self.map.note_recalled(start);
        }
    }

    /// Takes whole pageblocks, as halves, as long as no smaller block is sufficient and one more pageblock does not
    /// lift the lists above their limit.
    fn own(&mut self, refill: &mut Refill) {
        let (block, Search { order, migratetype, .. }) = (self.map.block, refill.search);
        let order = if self.mistake == Sabotage::OpenEarly { block } else { order };
        loop {
            let lists = &self.lists[self.cpu][refill.zone];
            let has_room = lists.count + (1 << block) <= lists.high;
            let smallest = self.zones[refill.zone].smallest_order(order, migratetype);
            if !self.is_short(refill) || !has_room || smallest.is_none_or(|smallest| smallest < block) {
                return;
            }
            let whole = self.zones[refill.zone].smallest(&mut self.map, block, migratetype);
            let pfn = whole.expect("a whole pageblock");
            self.map.note_owned(pfn, self.cpu);
            self.bring(refill, (pfn, block - 1));
            self.bring(refill, (pfn + (1 << (block - 1)), block - 1));
        }
    }

    /// Takes the smallest sufficient blocks, of each as much as is still missing, at most half a pageblock.
    fn take_parts(&mut self, refill: &mut Refill) {
        let Search { order, migratetype, .. } = refill.search;
        while self.is_short(refill) {
            let Some(smallest) = self.zones[refill.zone].smallest_order(order, migratetype) else { return };
            let missing = (refill.goal - self.lists[self.cpu][refill.zone].count).max(1).ilog2() as u8;
            let part = missing.min(smallest).min(self.map.block - 1).max(order);
            let pfn = self.zones[refill.zone].smallest(&mut self.map, part, migratetype).expect("a block that will do");
            self.bring(refill, (pfn, part));
            self.join(pfn, migratetype);
            self.map.owned.cases.parts += 1;
        }
    }

    fn join(&mut self, pfn: u32, migratetype: MigrateType) {
        if self.mistake != Sabotage::LeaveNobodys {
            self.map.note_joined(pfn, self.cpu, migratetype);
        }
    }

    /// Takes what Linux would take, but no more from other types' pageblocks than the request needs.
    fn take_classic(&mut self, refill: &mut Refill) {
        let (mut mode, Search { order, migratetype, .. }) = (Mode::Normal, refill.search);
        while self.is_short(refill) {
            let Some(pfn) = self.zones[refill.zone].take(&mut self.map, refill.search, &mut mode) else { return };
            self.bring(refill, (pfn, order));
            if order < self.map.block && refill.is_calm {
                self.join(pfn, migratetype);
            }
        }
    }
}
