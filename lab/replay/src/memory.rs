//! What is in the engine's memory, as far as reclaim and compaction must know it.
//!
//! Pages that reclaim may take are of two kinds. *Cold* ones are those that the recorded kernel reclaimed, from their
//! birth on: they go first, and in its order. When none is left, *cached* ones follow, oldest first: single pages of
//! page cache that the recorded kernel had not reclaimed when the workload freed them, or the recording ended. Nothing
//! else is ever taken: anonymous memory without a recorded place in swap has nowhere to go.
//!
//! A page is looked at when it is taken, and so are those that the recorded kernel looked at in vain before it took
//! that page.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use freehold::base::{NodeId, Order, Pfn, ZoneKind};
use freehold::page::Range;
use freehold::platform::{Migration, Reclaim};

use super::identity::{Hold, Identity, Tenant};
use super::survey::ReclaimOrder;

/// A block that the recorded kernel reclaimed.
#[derive(Clone, Copy, Debug)]
struct Cold {
    /// Who has it, while it can be taken.
    home: Option<u32>,
    order: u8,
    in_vain: u32,
}

/// A zone of the engine, and its pages that reclaim may take.
#[derive(Debug)]
struct Zone {
    range: Range,
    reclaimable: u64,
}

/// Everything that is allocated, by tenant.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) identity: Identity,
    cold: Vec<Cold>,
    /// Numbers of cold blocks that can be taken, and perhaps of some that are gone; the coldest first.
    coldest: BinaryHeap<Reverse<u32>>,
    /// Cached pages, and perhaps tenants that are none any more; the oldest first.
    cached: VecDeque<u32>,
    zones: Vec<Zone>,
    /// Pages that reclaim took although the recorded kernel kept them.
    taken_early: u64,
}

/// What one look for pages found.
#[derive(Debug, Default)]
pub(crate) struct ReclaimBatch {
    /// Blocks to be freed.
    pub(crate) blocks: Vec<(Pfn, Order)>,
    /// Their pages.
    pub(crate) pages: u64,
    /// Pages looked at.
    pub(crate) scanned: u64,
}

impl Memory {
    /// Nothing is allocated yet.
    pub(crate) fn new(identity: Identity, order: &ReclaimOrder, ranges: &[Range]) -> Memory {
        let cold = order.blocks().iter();
        Memory {
            identity,
            cold: cold.map(|block| Cold { home: None, order: block.order, in_vain: block.in_vain }).collect(),
            coldest: BinaryHeap::new(),
            cached: VecDeque::new(),
            zones: ranges.iter().map(|&range| Zone { range, reclaimable: 0 }).collect(),
            taken_early: 0,
        }
    }

    /// Reclaim may take this tenant's block, which the recorded kernel reclaimed under this number.
    pub(crate) fn make_cold(&mut self, number: u32, tenant: Tenant) {
        let block = &mut self.cold[number as usize];
        block.home = Some(tenant as u32);
        let pages = 1 << block.order;
        self.coldest.push(Reverse(number));
        self.make_reclaimable(tenant, Hold::Cold, pages);
    }

    /// Reclaim may take this tenant's page when nothing colder is left.
    pub(crate) fn make_cached(&mut self, tenant: Tenant) {
        self.cached.push_back(tenant as u32);
        self.make_reclaimable(tenant, Hold::Cached, 1);
    }

    fn make_reclaimable(&mut self, tenant: Tenant, hold: Hold, pages: u64) {
        self.identity.set_hold(tenant, hold);
        if let Some(zone) = self.zone_of(tenant) {
            zone.reclaimable += pages;
        }
    }

    /// Who has the block of this number, if reclaim could still take it.
    pub(crate) fn home(&self, number: u32) -> Option<Tenant> {
        self.cold.get(number as usize)?.home.map(|tenant| tenant as usize)
    }

    /// The recording uses the frames of this block for something else from now on; what is in it stays, as cold as it
    /// was.
    pub(crate) fn let_stay(&mut self, number: u32, recorded: usize, pages: usize) {
        self.cold[number as usize].home = Some(self.identity.move_out(recorded, pages) as u32);
    }

    /// Moves tenants above all frames, and out of reach of reclaim.
    pub(crate) fn move_out(&mut self, recorded: usize, pages: usize) -> Tenant {
        self.release(recorded, pages as u64);
        self.identity.set_hold(recorded, Hold::Used);
        self.identity.move_out(recorded, pages)
    }

    /// The tenants that stand for these recorded frames are gone.
    pub(crate) fn clear(&mut self, recorded: usize, pages: usize) {
        self.release(recorded, pages as u64);
        self.identity.clear(recorded, pages);
    }

    fn release(&mut self, tenant: Tenant, pages: u64) {
        if self.identity.hold(tenant) != Hold::Used
            && let Some(zone) = self.zone_of(tenant)
        {
            zone.reclaimable -= pages;
        }
    }

    fn zone_of(&mut self, tenant: Tenant) -> Option<&mut Zone> {
        let pfn = self.identity.get(tenant)?.pfn;
        self.zones.iter_mut().find(|zone| (zone.range.start..zone.range.end).contains(&pfn))
    }

    /// Pages of a zone that reclaim may take.
    pub(crate) fn reclaimable(&self, node: NodeId, kind: ZoneKind) -> u64 {
        let zones = self.zones.iter().filter(|zone| zone.range.node == node && zone.range.kind == kind);
        zones.map(|zone| zone.reclaimable).sum()
    }

    /// Pages that reclaim took although the recorded kernel kept them for as long as the workload did.
    pub(crate) fn taken_early(&self) -> u64 {
        self.taken_early
    }

    /// Moves whoever is in a block; `false` if nobody is.
    pub(crate) fn migrate(&mut self, migration: &Migration) -> bool {
        let Migration { from, to, order, .. } = *migration;
        let Some(tenant) = self.identity.tenant_of(from) else { return false };
        self.release(tenant, u64::from(order.pages()));
        let moved = self.identity.move_block(from, to, order.pages());
        let hold = self.identity.hold(tenant);
        if hold != Hold::Used {
            self.make_reclaimable(tenant, hold, u64::from(order.pages()));
        }
        moved
    }

    /// Whether the block that begins at a frame may become single pages; if so, it is from now on.
    pub(crate) fn split(&mut self, pfn: Pfn, order: Order) -> bool {
        let all = (0..order.pages()).all(|page| self.identity.tenant_of(pfn.offset(page)).is_some());
        if let Some(tenant) = self.identity.tenant_of(pfn).filter(|_| all) {
            self.identity.mark_split(tenant);
        }
        all
    }

    /// Looks for pages: the coldest first, until the goal is met or enough were looked at. What it finds is no tenant's
    /// any more.
    pub(crate) fn reclaim(&mut self, wanted: &Reclaim) -> ReclaimBatch {
        self.reclaim_some(wanted, self.pages_to_scan(wanted))
    }

    /// Pages that a look at this priority is about.
    pub(crate) fn pages_to_scan(&self, wanted: &Reclaim) -> u64 {
        let kinds = ZoneKind::ALL.into_iter().filter(|&kind| kind <= wanted.highest);
        kinds.map(|kind| self.reclaimable(wanted.node, kind)).sum::<u64>() >> wanted.priority
    }

    /// The same, of at most so many pages.
    pub(crate) fn reclaim_some(&mut self, wanted: &Reclaim, enough: u64) -> ReclaimBatch {
        let mut found = ReclaimBatch::default();
        let (mut cold, mut cached) = (Vec::new(), Vec::new());
        while found.pages < wanted.goal && found.scanned < enough {
            if let Some(Reverse(number)) = self.coldest.pop() {
                if !self.take_cold(number, wanted, &mut found) {
                    cold.push(Reverse(number));
                }
            } else if let Some(tenant) = self.cached.pop_front() {
                if !self.take_cached(tenant, wanted, &mut found) {
                    cached.push(tenant);
                }
            } else {
                break;
            }
        }
        self.coldest.extend(cold);
        cached.into_iter().rev().for_each(|tenant| self.cached.push_front(tenant));
        found
    }

    /// Takes a cold block; `false` if it lies where it is of no use. Such a block does not count as looked at.
    /// linux: mm/vmscan.c:isolate_lru_folios
    fn take_cold(&mut self, number: u32, wanted: &Reclaim, found: &mut ReclaimBatch) -> bool {
        let Cold { home, order, in_vain } = self.cold[number as usize];
        let Some(tenant) = home.map(|tenant| tenant as usize) else { return true };
        if self.identity.hold(tenant) != Hold::Cold {
            return true;
        }
        let taken = self.take(tenant, Order::new(order), wanted, found);
        if taken {
            found.scanned += u64::from(in_vain) + (1 << order);
            self.cold[number as usize].home = None;
        }
        taken
    }

    fn take_cached(&mut self, tenant: u32, wanted: &Reclaim, found: &mut ReclaimBatch) -> bool {
        let tenant = tenant as usize;
        if self.identity.hold(tenant) != Hold::Cached {
            return true;
        }
        let taken = self.take(tenant, Order::ZERO, wanted, found);
        found.scanned += u64::from(taken);
        self.taken_early += u64::from(taken);
        taken
    }

    fn take(&mut self, tenant: Tenant, order: Order, wanted: &Reclaim, found: &mut ReclaimBatch) -> bool {
        let Some(entry) = self.identity.get(tenant) else { return true };
        let zone = self.zone_of(tenant).map(|zone| zone.range);
        if !zone.is_some_and(|zone| zone.node == wanted.node && zone.kind <= wanted.highest) {
            return false;
        }
        let pages = u64::from(order.pages());
        self.release(tenant, pages);
        if self.identity.is_split(tenant) {
            let singles = (tenant..tenant + order.pages() as usize).filter_map(|page| self.identity.get(page));
            found.blocks.extend(singles.map(|entry| (entry.pfn, Order::ZERO)));
        } else {
            found.blocks.push((entry.pfn, order));
        }
        self.identity.mark_reclaimed(tenant, order.pages() as usize);
        found.pages += pages;
        true
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
