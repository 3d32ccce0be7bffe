//! Reclaim: one scan over a part of a node's memory, as the promise [`Platform::reclaim`] requires.
//!
//! The part is the length of each list shifted right by the priority. Pages are taken 32 at a time. If the inactive
//! list is too short, pages move from the tail of the active list to its head. At the tail of the inactive list, clean
//! unpinned pages are freed, dirty pages are written back, and pinned pages are moved to the head. A page that was used
//! once since it was read gets no second chance; a page that was used twice is on the active list already. The scan
//! ends when the goal is reached, except that the first scan of direct reclaim covers its whole part. Then shrinkers
//! free objects.
//!
//! Tasks' pages are not scanned, since there is no swap.
//!
//! linux: mm/vmscan.c:shrink_node, get_scan_count, shrink_lruvec, shrink_active_list, shrink_folio_list
//!
//! [`Platform::reclaim`]: freehold::platform::Platform::reclaim

use freehold::base::{Order, Pfn};
use freehold::platform::{FreePages, Reclaim, Reclaimed, Reclaimer};

use super::frames::List;
use super::lists::End;
use super::{Model, Node};
use crate::executor::{Executor, Step};

/// Pages that are taken off a list together. linux: include/linux/swap.h:SWAP_CLUSTER_MAX
const CLUSTER: usize = 32;
/// Priority of the first scan. linux: include/linux/mmzone.h:DEF_PRIORITY
const PRIORITY_FIRST: u8 = 12;
/// Picoseconds in a microsecond.
const PS_PER_US: u64 = 1_000_000;

/// One scan of a node.
struct Look<'a, X: Executor> {
    executor: &'a X,
    model: &'a Model,
    node: &'a Node,
    pages: &'a dyn FreePages,
    freed: u64,
    scanned: u64,
}

/// Scans a node once, on the CPU that runs. Returns the number of pages freed, and the number of pages scanned: pages
/// of the inactive list, and pages of slabs that were freed.
pub(crate) fn shrink_node<X: Executor>(
    executor: &X,
    model: &Model,
    pages: &dyn FreePages,
    wanted: &Reclaim,
) -> Reclaimed {
    let node = model.node(wanted.node);
    let mut look = Look { executor, model, node, pages, freed: 0, scanned: 0 };
    look.begin();
    look.shrink_cache(wanted);
    look.shrink_slabs(wanted.priority);
    Reclaimed { pages: look.freed, scanned: look.scanned }
}

impl<X: Executor> Look<'_, X> {
    /// Takes a turn, and finishes the node's writes and all pins that have ended by then.
    fn begin(&self) {
        self.executor.take_turn();
        let now = self.executor.now();
        self.model.finish_writes(self.node, now);
        self.model.pins.expire(&self.model.frames, now);
    }

    fn shrink_cache(&mut self, wanted: &Reclaim) {
        let lists = &self.node.lists;
        let mut inactive = lists.pages_of(List::InactiveFile) >> wanted.priority;
        let is_low = lists.inactive_is_low();
        let mut active = if is_low { lists.pages_of(List::ActiveFile) >> wanted.priority } else { 0 };
        let is_whole = wanted.by == Reclaimer::Direct && wanted.priority == PRIORITY_FIRST;
        while inactive + active > 0 && (is_whole || self.freed < wanted.goal) {
            active -= self.deactivate(active);
            let batch = inactive.min(CLUSTER as u64);
            self.evict(batch);
            inactive -= batch;
        }
    }

    /// Moves at most a cluster of the oldest active pages to the inactive list. Returns the smaller of `pages` and the
    /// size of a cluster, by which the rest of the part to scan shrinks.
    fn deactivate(&self, pages: u64) -> u64 {
        let batch = pages.min(CLUSTER as u64);
        let (lists, frames) = (&self.node.lists, &self.model.frames);
        for _ in 0..batch {
            let Some(pfn) = lists.oldest(List::ActiveFile) else { break };
            self.executor.charge(Step::Scan);
            let owner = lists.remove(frames, pfn);
            lists.add(frames, pfn, owner.with_list(List::InactiveFile), End::Head);
            self.model.counters.pgdeactivate.add(1);
        }
        self.model.counters.pgrefill.add(batch);
        batch
    }

    /// Scans the `batch` oldest inactive pages, at most a cluster, and frees those that are freeable.
    fn evict(&mut self, batch: u64) {
        let mut singles = [Pfn::new(0); CLUSTER];
        let mut count = 0;
        for _ in 0..batch {
            let Some(pfn) = self.node.lists.oldest(List::InactiveFile) else { break };
            self.scanned += self.model.frames.owner(pfn).order().map_or(1, |order| u64::from(order.pages()));
            match self.take_if_freeable(pfn) {
                Some(Order::ZERO) => {
                    singles[count] = pfn;
                    count += 1;
                }
                Some(order) => self.free_block(pfn, order),
                None => {}
            }
        }
        if count > 0 {
            self.freed += count as u64;
            self.pages.free_pages_bulk(&singles[..count]);
            self.begin();
        }
    }

    /// Removes the block from the cache and returns its order if it can be freed. Otherwise moves it away from the
    /// tail.
    fn take_if_freeable(&self, pfn: Pfn) -> Option<Order> {
        let (lists, frames) = (&self.node.lists, &self.model.frames);
        let owner = frames.owner(pfn);
        if owner.is_pinned() {
            self.executor.charge(Step::Scan);
            lists.remove(frames, pfn);
            lists.add(frames, pfn, owner, End::Head);
            return None;
        }
        if owner.is_dirty() {
            self.executor.charge(Step::Scan);
            let due = self.executor.now() + self.model.parameters.writeback_us * PS_PER_US;
            self.model.write(self.node, pfn, due);
            return None;
        }
        self.executor.charge(Step::Reclaim);
        self.executor.touch(pfn);
        self.executor.charge(Step::Free);
        lists.remove(frames, pfn).order()
    }

    fn shrink_slabs(&mut self, priority: u8) {
        let due = self.node.slabs.due(priority);
        for _ in 0..due {
            self.executor.charge(Step::Scan);
            let gone = self.node.slabs.give_up_one(&self.model.frames, &mut self.model.rng.borrow_mut());
            if let Some((pfn, order)) = gone {
                self.executor.charge(Step::Free);
                self.scanned += u64::from(order.pages());
                self.free_block(pfn, order);
            }
        }
        self.model.counters.slabs_scanned.add(due);
    }

    fn free_block(&mut self, pfn: Pfn, order: Order) {
        self.freed += u64::from(order.pages());
        self.pages.free_pages(pfn, order);
    }
}
