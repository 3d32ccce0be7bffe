//! Contents of the engine's memory, as far as reclaim and compaction need to know them.
//!
//! Reclaim may take two kinds of pages. *Cold* pages are those that the recorded kernel reclaimed, and they are cold
//! from their allocation on. They are taken first, in the recorded order. When no cold page is left, *cached* pages
//! follow, oldest first: page cache that the recorded kernel did not reclaim before the workload freed it or the
//! recording ended. No other pages are taken. Anonymous memory without a recorded place in swap has no place to which
//! it could be written.
//!
//! A block is taken as a whole. A block of which the workload freed a part is no longer taken.
//!
//! A taken page counts as scanned. So do the pages that the recorded kernel scanned in vain before it took that page.

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
    /// Tenant of the block from its allocation on; `None` before, and after the replay's reclaim took the block. If the
    /// workload freed the block, the tenant's state is no longer [`Hold::Cold`].
    tenant: Option<u32>,
    order: u8,
    in_vain: u32,
}

/// A zone of the engine, and the number of its pages that reclaim may take.
#[derive(Debug)]
struct Zone {
    range: Range,
    reclaimable: u64,
}

/// All allocated memory, by tenant.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) identity: Identity,
    cold: Vec<Cold>,
    /// Numbers of the cold blocks that can be taken, the coldest first. May contain numbers of blocks that are gone.
    coldest: BinaryHeap<Reverse<u32>>,
    /// First tenants and orders of cached blocks, the oldest first. May contain blocks that are no longer cached.
    cached: VecDeque<(u32, Order)>,
    zones: Vec<Zone>,
    /// Cached pages that the replay's reclaim took; the recorded kernel did not reclaim them.
    taken_early: u64,
}

/// Result of one reclaim scan.
#[derive(Debug, Default)]
pub(crate) struct ReclaimBatch {
    /// Blocks to free.
    pub(crate) blocks: Vec<(Pfn, Order)>,
    /// Pages in these blocks.
    pub(crate) pages: u64,
    /// Pages scanned.
    pub(crate) scanned: u64,
}

impl Memory {
    /// Creates the state of a machine on which no memory is allocated.
    pub(crate) fn new(identity: Identity, order: &ReclaimOrder, ranges: &[Range]) -> Memory {
        let cold = order.blocks().iter();
        Memory {
            identity,
            cold: cold.map(|block| Cold { tenant: None, order: block.order, in_vain: block.in_vain }).collect(),
            coldest: BinaryHeap::new(),
            cached: VecDeque::new(),
            zones: ranges.iter().map(|&range| Zone { range, reclaimable: 0 }).collect(),
            taken_early: 0,
        }
    }

    /// Makes a tenant's block available to reclaim. `number` is its position in the order in which the recorded kernel
    /// reclaimed blocks.
    pub(crate) fn make_cold(&mut self, number: u32, tenant: Tenant) {
        let block = &mut self.cold[number as usize];
        block.tenant = Some(tenant as u32);
        let order = Order::new(block.order);
        self.coldest.push(Reverse(number));
        self.make_reclaimable(tenant, Hold::Cold, order, order.pages() as usize);
    }

    /// Makes a tenant's block available to reclaim once no cold page is left.
    pub(crate) fn make_cached(&mut self, tenant: Tenant, order: Order) {
        self.cached.push_back((tenant as u32, order));
        self.make_reclaimable(tenant, Hold::Cached, order, order.pages() as usize);
    }

    /// Makes `pages` pages of a block of this order available to reclaim.
    fn make_reclaimable(&mut self, first: Tenant, hold: Hold, order: Order, pages: usize) {
        for tenant in first..first + pages {
            self.identity.set_hold(tenant, hold);
            self.identity.set_hold_order(tenant, order);
            if let Some(zone) = self.zone_of(tenant) {
                zone.reclaimable += 1;
            }
        }
    }

    /// Returns the tenant of the block of this number; `None` if the block was not allocated yet, or the replay's
    /// reclaim took it.
    pub(crate) fn tenant(&self, number: u32) -> Option<Tenant> {
        self.cold.get(number as usize)?.tenant.map(|tenant| tenant as usize)
    }

    /// Detaches a cold block from its recorded frames, which the recording reuses from now on. The contents stay
    /// allocated and keep their place in the order of reclaim.
    pub(crate) fn let_stay(&mut self, number: u32, recorded: usize, pages: usize) {
        self.cold[number as usize].tenant = Some(self.identity.move_out(recorded, pages) as u32);
    }

    /// Moves tenants to numbers above all frame numbers, and makes their pages unavailable to reclaim. Returns the
    /// first of the new numbers.
    pub(crate) fn move_out(&mut self, recorded: usize, pages: usize) -> Tenant {
        self.release_around(recorded, pages);
        self.identity.move_out(recorded, pages)
    }

    /// Removes the tenants of these recorded frames.
    pub(crate) fn clear(&mut self, recorded: usize, pages: usize) {
        self.release_around(recorded, pages);
        self.identity.clear(recorded, pages);
    }

    /// Makes the pages of these recorded frames unavailable to reclaim. If they are a part of a block that reclaim could
    /// take, the whole block becomes unavailable.
    fn release_around(&mut self, recorded: usize, pages: usize) {
        let block = self.identity.hold_order(recorded).pages() as usize;
        if block > pages && self.identity.hold(recorded) != Hold::Used {
            self.release(recorded - recorded % block, block);
        }
        self.release(recorded, pages);
    }

    /// Makes the pages of these tenants unavailable to reclaim.
    fn release(&mut self, first: Tenant, pages: usize) {
        for tenant in first..first + pages {
            if self.identity.hold(tenant) != Hold::Used
                && let Some(zone) = self.zone_of(tenant)
            {
                zone.reclaimable -= 1;
                self.identity.set_hold(tenant, Hold::Used);
            }
        }
    }

    fn zone_of(&mut self, tenant: Tenant) -> Option<&mut Zone> {
        let pfn = self.identity.get(tenant)?.pfn;
        self.zones.iter_mut().find(|zone| (zone.range.start..zone.range.end).contains(&pfn))
    }

    /// Returns the number of pages of a zone that reclaim may take.
    pub(crate) fn reclaimable(&self, node: NodeId, kind: ZoneKind) -> u64 {
        let zones = self.zones.iter().filter(|zone| zone.range.node == node && zone.range.kind == kind);
        zones.map(|zone| zone.reclaimable).sum()
    }

    /// Returns the number of pages that the replay's reclaim took although the recorded kernel did not reclaim them:
    /// the workload freed them, or they were still in use at the end.
    pub(crate) fn taken_early(&self) -> u64 {
        self.taken_early
    }

    /// Returns whether a frame of the engine holds a page that is known to have a mapping.
    pub(crate) fn has_mapping(&self, pfn: Pfn) -> bool {
        self.identity.tenant_of(pfn).is_some_and(|tenant| self.identity.has_mapping(tenant))
    }

    /// Moves the tenants of a block to the block's new frames. Returns `false` and moves nothing if one of the frames
    /// has no tenant.
    pub(crate) fn migrate(&mut self, migration: &Migration) -> bool {
        let Migration { from, to, order, .. } = *migration;
        let Some(tenant) = self.identity.tenant_of(from) else { return false };
        let (hold, pages) = (self.identity.hold(tenant), order.pages() as usize);
        let block = self.identity.hold_order(tenant);
        self.release(tenant, pages);
        let moved = self.identity.move_block(from, to, order.pages());
        if hold != Hold::Used {
            self.make_reclaimable(tenant, hold, block, pages);
        }
        moved
    }

    /// Marks the block that begins at a frame as split into single pages. Returns `false` and changes nothing if one of
    /// its frames has no tenant.
    pub(crate) fn split(&mut self, pfn: Pfn, order: Order) -> bool {
        let all = (0..order.pages()).all(|page| self.identity.tenant_of(pfn.offset(page)).is_some());
        if let Some(tenant) = self.identity.tenant_of(pfn).filter(|_| all) {
            self.identity.mark_split(tenant);
        }
        all
    }

    /// Scans for pages, the coldest first, until the goal is met, [`Memory::pages_to_scan`] pages were scanned, or no
    /// page is left. The returned blocks no longer belong to a tenant; the caller frees them.
    pub(crate) fn reclaim(&mut self, wanted: &Reclaim) -> ReclaimBatch {
        self.reclaim_some(wanted, self.pages_to_scan(wanted))
    }

    /// Returns the number of pages that a scan at this priority covers: the reclaimable pages of the node's zones up to
    /// the highest, shifted right by the priority.
    pub(crate) fn pages_to_scan(&self, wanted: &Reclaim) -> u64 {
        let kinds = ZoneKind::ALL.into_iter().filter(|&kind| kind <= wanted.highest);
        kinds.map(|kind| self.reclaimable(wanted.node, kind)).sum::<u64>() >> wanted.priority
    }

    /// Works like [`Memory::reclaim`], but scans at most about `enough` pages.
    pub(crate) fn reclaim_some(&mut self, wanted: &Reclaim, enough: u64) -> ReclaimBatch {
        let mut found = ReclaimBatch::default();
        let (mut cold, mut cached) = (Vec::new(), Vec::new());
        while found.pages < wanted.goal && found.scanned < enough {
            if let Some(Reverse(number)) = self.coldest.pop() {
                if !self.take_cold(number, wanted, &mut found) {
                    cold.push(Reverse(number));
                }
            } else if let Some(block) = self.cached.pop_front() {
                if !self.take_cached(block, wanted, &mut found) {
                    cached.push(block);
                }
            } else {
                break;
            }
        }
        self.coldest.extend(cold);
        cached.into_iter().rev().for_each(|block| self.cached.push_front(block));
        found
    }

    /// Takes a cold block. Returns `false` if the block must stay in the queue, because it is in a zone that does not
    /// serve the request; such a block does not count as scanned. Returns `true` without taking anything if the block
    /// is no longer cold. linux: mm/vmscan.c:isolate_lru_folios
    fn take_cold(&mut self, number: u32, wanted: &Reclaim, found: &mut ReclaimBatch) -> bool {
        let Cold { tenant, order, in_vain } = self.cold[number as usize];
        let Some(tenant) = tenant.map(|tenant| tenant as usize) else { return true };
        if !self.is_whole(tenant, Order::new(order), Hold::Cold) {
            return true;
        }
        let taken = self.take(tenant, Order::new(order), wanted, found);
        if taken {
            found.scanned += u64::from(in_vain) + (1 << order);
            self.cold[number as usize].tenant = None;
        }
        taken
    }

    /// Takes a cached block, and returns what [`Memory::take_cold`] returns.
    fn take_cached(&mut self, (tenant, order): (u32, Order), wanted: &Reclaim, found: &mut ReclaimBatch) -> bool {
        let tenant = tenant as usize;
        if !self.is_whole(tenant, order, Hold::Cached) {
            return true;
        }
        let taken = self.take(tenant, order, wanted, found);
        let pages = if taken { u64::from(order.pages()) } else { 0 };
        found.scanned += pages;
        self.taken_early += pages;
        taken
    }

    /// Returns whether reclaim can still take a block: it is whole, and the same block as when it was queued.
    fn is_whole(&self, tenant: Tenant, order: Order, hold: Hold) -> bool {
        let mut pages = tenant..tenant + order.pages() as usize;
        self.identity.hold_order(tenant) == order && pages.all(|page| self.identity.hold(page) == hold)
    }

    fn take(&mut self, tenant: Tenant, order: Order, wanted: &Reclaim, found: &mut ReclaimBatch) -> bool {
        let Some(entry) = self.identity.get(tenant) else { return true };
        let zone = self.zone_of(tenant).map(|zone| zone.range);
        if !zone.is_some_and(|zone| zone.node == wanted.node && zone.kind <= wanted.highest) {
            return false;
        }
        let pages = order.pages() as usize;
        self.release(tenant, pages);
        if self.identity.is_split(tenant) {
            let singles = (tenant..tenant + pages).filter_map(|page| self.identity.get(page));
            found.blocks.extend(singles.map(|entry| (entry.pfn, Order::ZERO)));
        } else {
            found.blocks.push((entry.pfn, order));
        }
        self.identity.mark_reclaimed(tenant, pages);
        found.pages += pages as u64;
        true
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
