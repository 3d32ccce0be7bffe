//! Per-CPU lists: rule 7, step by step.

use std::collections::VecDeque;
use std::ops::Range;

use freehold::base::{MigrateType, ZoneKind};
use freehold::policy::flags::AllocFlags;
use freehold::policy::pcp::Limits;
use freehold::policy::{DrainPolicy, HighAtomicPolicy};

use super::map::Page;
use super::remote_frees::{joins, natural};
use super::zone::{Mode, Search};
use super::{Block, Reference};
use crate::model::world::World;

/// Marker in place of a block that was merged into another.
const ABSORBED: Block = (u32::MAX, 0);

/// Number of Linux's lists; the last two are for huge pages.
const LINUX_LISTS: usize = 14;
/// Number of lists where CPUs own pageblocks: three more for each order from 4 to 9.
const LISTS: usize = LINUX_LISTS + 3 * 6;

/// One CPU's lists for one zone.
pub(crate) struct Lists {
    pub lists: [VecDeque<u32>; LISTS],
    /// Blocks of its pageblocks that other CPUs freed, oldest first.
    pub stack: Vec<Block>,
    pub count: i64,
    pub high: i64,
    batch: i64,
    high_min: i64,
    high_max: i64,
    alloc_factor: u32,
    free_count: i64,
    /// Recently freed pages from which on a free of a large block drains many blocks.
    free_high_from: i64,
    previous_was_high_order: bool,
    free_high_batch: bool,
    pub stirred: bool,
    expire: u8,
}

impl Lists {
    pub(crate) fn with(limits: Limits, world: &World) -> Lists {
        let percent = i64::from(world.policy.numbers.pcp_free_high.unwrap_or(0));
        Lists {
            lists: Default::default(),
            stack: Vec::new(),
            count: 0,
            high: i64::from(limits.high_min),
            batch: i64::from(limits.batch),
            high_min: i64::from(limits.high_min),
            high_max: i64::from(limits.high_max),
            alloc_factor: 0,
            free_count: 0,
            // Where CPUs own pageblocks, smaller requests can split any block on the lists, so large blocks stay there.
            free_high_from: match world.policy.pcp.owns() {
                true => i64::MAX,
                false => i64::from(limits.batch) + i64::from(limits.high_min) * percent / 100,
            },
            previous_was_high_order: false,
            free_high_batch: world.cache_slice > 3 * limits.batch,
            stirred: false,
            expire: 0,
        }
    }

    /// Returns the number of pages on the stack.
    pub(crate) fn stacked(&self) -> i64 {
        self.stack.iter().map(|&(_, order)| 1 << order).sum()
    }

    /// Returns the list for parts of this order and type, or for whole pageblocks.
    pub(crate) fn part(&mut self, order: u8, migratetype: MigrateType, block: u8) -> &mut VecDeque<u32> {
        &mut self.lists[part_of(order, migratetype, block).expect("every order up to a pageblock's has a list")]
    }

    pub(crate) fn nr_alloc(&mut self, order: u8, below_high: bool) -> i64 {
        self.high = self.high.clamp(self.high_min, self.high_max);
        if self.high < self.batch {
            return 1;
        }
        let mut pages = if order > 0 { self.batch } else { self.batch << self.alloc_factor };
        if self.high_min != self.high_max && !below_high {
            self.high = (self.high + pages).min(self.high_max);
        }
        if order == 0 {
            let most = (self.high - self.count - self.batch).max(self.batch);
            if pages <= most && self.alloc_factor < 5 {
                self.alloc_factor += 1;
            }
            pages = pages.min(most);
        }
        if pages > 1 { (pages >> order).max(2) } else { pages }
    }

    fn nr_high(&mut self, below_high: bool, reclaim_active: bool, free_high: bool) -> i64 {
        self.high = self.high.clamp(self.high_min, self.high_max);
        let high = self.high;
        let recent = self.free_count.max(self.batch);
        if high == 0 {
            0
        } else if free_high {
            self.high = (high - (self.batch << 5)).max(self.high_min);
            0
        } else if reclaim_active {
            self.high = (high - recent).max(self.high_min);
            (4 * self.batch).min(self.high)
        } else if self.high_min == self.high_max {
            high
        } else if below_high {
            self.high = (high - recent).max(self.high_min);
            self.count.max(self.high_min)
        } else {
            if self.count >= high && high < self.free_count + self.batch {
                self.high = (self.free_count + self.batch).clamp(self.high_min, self.high_max);
            }
            high
        }
    }

    /// Merges the largest aligned blocks of a run, from its start on, with their buddies.
    fn merge_run(&mut self, leaving: &mut Vec<Block>, run: Range<u32>, block: u8) {
        for (pfn, order) in natural(run, block) {
            self.absorb_buddies(leaving, pfn, order, block);
        }
    }

    /// Merges a block with its buddies on these lists and among the leaving blocks, up to a pageblock. The merged block
    /// takes the place of its first part among the leaving blocks, or the last place.
    fn absorb_buddies(&mut self, leaving: &mut Vec<Block>, mut pfn: u32, mut order: u8, block: u8) {
        let mut place = None;
        while order < block {
            let buddy = pfn ^ 1 << order;
            let met = leaving.iter().position(|&leaver| leaver == (buddy, order));
            if met.is_none() && !self.unlist(buddy, order, block) {
                break;
            }
            let upper = if buddy < pfn { std::mem::replace(&mut place, met) } else { met };
            if let Some(upper) = upper {
                leaving[upper] = ABSORBED;
            }
            (pfn, order) = (pfn & buddy, order + 1);
        }
        match place {
            Some(place) => leaving[place] = (pfn, order),
            None => leaving.push((pfn, order)),
        }
    }

    fn unlist(&mut self, pfn: u32, order: u8, block: u8) -> bool {
        let mut listed = (0..LISTS).filter(|&index| order_of(index, block) == order);
        let place = listed.find_map(|index| Some((index, self.lists[index].iter().position(|&at| at == pfn)?)));
        let Some((index, at)) = place else { return false };
        self.lists[index].remove(at);
        self.count -= 1 << order;
        true
    }

    fn nr_free(&self, high: i64, free_high: bool) -> i64 {
        if free_high {
            self.count.min(self.batch << 5)
        } else if high < self.batch {
            1
        } else {
            self.free_count.max(self.batch).min(high - self.batch)
        }
    }
}

/// Returns the list for blocks of this order and type, if Linux has one.
pub(crate) fn index_of(order: u8, migratetype: MigrateType, block: u8) -> Option<usize> {
    match order {
        0..=3 => Some(usize::from(order) * 3 + migratetype.index()),
        _ if order == block => Some(12 + usize::from(migratetype == MigrateType::Movable)),
        _ => None,
    }
}

/// Like [`index_of`], with the lists for orders between 3 and a pageblock's that exist where CPUs own pageblocks.
pub(crate) fn part_of(order: u8, migratetype: MigrateType, block: u8) -> Option<usize> {
    if (4..block).contains(&order) {
        return Some(LINUX_LISTS + usize::from(order - 4) * 3 + migratetype.index());
    }
    index_of(order, migratetype, block)
}

fn order_of(index: usize, block: u8) -> u8 {
    match index {
        0..12 => (index / 3) as u8,
        12..LINUX_LISTS => block,
        _ => 4 + ((index - LINUX_LISTS) / 3) as u8,
    }
}

impl Reference {
    /// Returns a block from this CPU's list, after a refill from the zone if the list is empty.
    pub(crate) fn pop_or_refill(&mut self, zone: usize, search: Search) -> Option<u32> {
        if self.owns() {
            return self.pop_owned(zone, search);
        }
        let index = index_of(search.order, search.migratetype, self.map.block)?;
        let below_high = self.zones[zone].below_high;
        let passes_by = self.passes_by(search.flags);
        let lists = &mut self.lists[self.cpu][zone];
        if lists.lists[index].is_empty() {
            let goal = lists.nr_alloc(search.order, below_high);
            if passes_by {
                return None;
            }
            lists.stirred = true;
            let mut mode = Mode::Normal;
            for _ in 0..goal {
                let Some(pfn) = self.zones[zone].take(&mut self.map, search, &mut mode) else { break };
                self.map.paint(pfn, search.order, Page::Listed);
                lists.lists[index].push_back(pfn);
                lists.count += 1 << search.order;
            }
        }
        let pfn = lists.lists[index].pop_front()?;
        lists.count -= 1 << search.order;
        Some(pfn)
    }

    /// Returns whether such a request refills no list.
    pub(crate) fn passes_by(&self, flags: AllocFlags) -> bool {
        let rules = matches!(self.rival, HighAtomicPolicy::PastLists | HighAtomicPolicy::ReuseFirst);
        rules && flags.contains(AllocFlags::HIGHATOMIC)
    }

    /// Allocates a block for a single request. Halves the count of recent frees.
    pub(crate) fn take_from_lists(&mut self, zone: usize, search: Search) -> Option<u32> {
        let list = if self.owns() { part_of } else { index_of };
        list(search.order, search.migratetype, self.map.block)?;
        if !self.has_lists {
            return None;
        }
        self.lists[self.cpu][zone].free_count >>= 1;
        self.pop_or_refill(zone, search)
    }

    /// Frees a block whose last reference was dropped.
    pub(crate) fn free(&mut self, pfn: u32, order: u8) {
        self.map.paint(pfn, order, Page::Gone);
        if let Some(owner) = self.map.owner(pfn)
            && (order > 3 || owner != self.cpu && self.has_plenty(pfn))
        {
            return self.free_home((pfn, order), owner);
        }
        let migratetype = match self.map.type_of(pfn) {
            MigrateType::HighAtomic | MigrateType::Cma => MigrateType::Movable,
            other => other,
        };
        let has_parts = self.owns() && (order <= 3 || self.is_at_ease(pfn));
        let list = if has_parts { part_of } else { index_of };
        match list(order, migratetype, self.map.block) {
            Some(index) if self.has_lists && migratetype != MigrateType::Isolate => {
                self.free_to_lists(self.cpu, (pfn, order), index);
            }
            _ => self.free_to_zone(pfn, order, false),
        }
    }

    pub(crate) fn free_to_lists(&mut self, cpu: usize, (pfn, order): Block, index: usize) {
        let zone = self.map.zone(pfn).expect("freed frames belong to a zone");
        let (below_high, reclaim_active) = (self.zones[zone].below_high, self.zones[zone].reclaim_active);
        self.map.paint(pfn, order, Page::Listed);
        let lists = &mut self.lists[cpu][zone];
        lists.alloc_factor >>= 1;
        lists.lists[index].push_front(pfn);
        lists.count += 1 << order;
        let mut free_high = false;
        if (1..=3).contains(&order) {
            free_high = lists.free_count >= lists.free_high_from
                && lists.previous_was_high_order
                && (!lists.free_high_batch || lists.count >= lists.batch);
        }
        lists.previous_was_high_order = (1..=3).contains(&order);
        if lists.free_count < lists.batch << 5 {
            lists.free_count += 1 << order;
        }
        let high = lists.nr_high(below_high, reclaim_active, free_high);
        if lists.count >= high {
            self.bring_home(cpu, zone);
            let pages = self.lists[cpu][zone].nr_free(high, free_high);
            self.drain_full(cpu, zone, pages, index);
            let zone = &mut self.zones[zone];
            if zone.below_high
                && zone.watermark_ok(0, zone.high + zone.boost, ZoneKind::Movable, AllocFlags::empty(), 0)
            {
                zone.below_high = false;
                let node = zone.node.0;
                self.hope_after_drain(node);
            }
        }
    }

    /// Drains excess pages: all at once, or in batches, as long as any page is left.
    fn drain_full(&mut self, cpu: usize, zone: usize, pages: i64, first: usize) {
        let batch = self.lists[cpu][zone].batch;
        let step = if self.rules.drain == DrainPolicy::Batched { batch } else { pages.max(1) };
        let mut left = pages;
        while left > 0 && self.lists[cpu][zone].count > 0 {
            self.drain(cpu, zone, left.min(step), first);
            left -= step;
        }
    }

    /// Drains pages from the tails of the lists, in the order of the lists.
    fn drain(&mut self, cpu: usize, zone: usize, pages: i64, first: usize) {
        let block = self.map.block;
        let lists = &mut self.lists[cpu][zone];
        lists.stirred = true;
        let stop = (lists.count - pages).max(0);
        let mut index = first;
        let mut leaving = Vec::new();
        // Neighbouring blocks that left consecutively. No frame has the number of the initial value.
        let mut run = u32::MAX..u32::MAX;
        while lists.count > stop {
            let Some(pfn) = lists.lists[index].pop_back() else {
                index = (index + 1) % LISTS;
                continue;
            };
            let order = order_of(index, block);
            lists.count -= 1 << order;
            if !self.merges {
                leaving.push((pfn, order));
                continue;
            }
            if !joins(&mut run, (pfn, order)) {
                lists.merge_run(&mut leaving, run, block);
                run = pfn..pfn + (1 << order);
            }
        }
        lists.merge_run(&mut leaving, run, block);
        let leavers = leaving.into_iter().filter(|&leaver| leaver != ABSORBED);
        leavers.for_each(|leaver| self.return_to_zone(zone, leaver));
    }

    pub(crate) fn drain_pages_zone(&mut self, cpu: usize, zone: usize) {
        self.bring_home(cpu, zone);
        self.empty_lists(cpu, zone);
    }

    pub(crate) fn empty_lists(&mut self, cpu: usize, zone: usize) {
        while self.lists[cpu][zone].count > 0 {
            let pages = self.lists[cpu][zone].batch << 5;
            self.drain(cpu, zone, pages, 0);
        }
    }

    pub(crate) fn drain_all_pages(&mut self) {
        for cpu in 0..self.lists.len() {
            for zone in 0..self.zones.len() {
                self.drain_pages_zone(cpu, zone);
            }
        }
    }

    pub(crate) fn decay(&mut self, cpu: usize, zone: usize) {
        self.bring_home(cpu, zone);
        let lists = &mut self.lists[cpu][zone];
        if lists.high > lists.high_min {
            let by_count = lists.count - (lists.batch << 5);
            lists.high = by_count.max(lists.high - lists.high / 8).max(lists.high_min);
        }
        let (mut left, batch) = (lists.count - lists.high, lists.batch);
        while left > 0 {
            self.drain(cpu, zone, left.min(batch), 0);
            left -= batch;
        }
        let is_remote = zone / ZoneKind::COUNT != usize::from(self.node_of_cpu[cpu]);
        let lists = &mut self.lists[cpu][zone];
        if is_remote {
            lists.expire = if std::mem::take(&mut lists.stirred) { 3 } else { lists.expire };
            if lists.expire > 0 && lists.count > 0 {
                lists.expire -= 1;
                if lists.expire == 0 {
                    self.drain(cpu, zone, batch, 0);
                }
            }
        }
    }
}
