//! Direct reclaim: a request that found too little memory asks the platform to free pages, with rising urgency.
//!
//! ```text
//! priority 12, 11, ... 0   each node of the request once: scans 1/4096 of its pages, then 1/2048, ... then all
//!   one node               for large blocks repeatedly, until compaction has room or no more pages are freed
//! end                      once a cluster of 32 pages is freed or, for a costly order, a zone is ready for compaction
//! ```
//!
//! The platform frees pages through a handle that counts them, and this count decides. If the platform reports another
//! number, or frees pages that are not allocated, an event names the broken promise. Every loop ends: the priority only
//! falls, and a node is tried again only while pages are freed, and only up to the number of pages that could help. No
//! lock is held while the platform works.
//!
//! linux: mm/vmscan.c:try_to_free_pages, do_try_to_free_pages, shrink_zones, compaction_ready, shrink_node,
//! should_continue_reclaim

use core::cell::Cell;

use super::allocator::PageAllocator;
use super::error::FreeError;
use super::zone::Zone;
use crate::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use crate::platform::{Event, FreePages, OutOfMemory, Platform, Promise, Reclaim, Reclaimed, Reclaimer, Request};
use crate::policy::compaction::gap;
use crate::policy::flags::AllocFlags;
use crate::policy::kswapd;

/// Least urgent priority. linux: DEF_PRIORITY
pub(super) const PRIORITY_FIRST: u8 = 12;

/// Result of direct reclaim for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReclaimProgress {
    /// Pages freed, over all nodes.
    pub(super) pages: u64,
    /// Pages scanned, over all nodes.
    scanned: u64,
    /// Set if some zone was not reclaimed because it has a block for the request, or enough room for compaction.
    pub(super) spared: bool,
}

impl ReclaimProgress {
    /// Returns whether the request may find more memory than before.
    pub(super) fn is_made(self) -> bool {
        self.pages > 0 || self.spared
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Reclaims for a request, with rising urgency, until a cluster of pages is freed, a zone is ready for compaction,
    /// or the last priority was tried. linux: mm/vmscan.c:try_to_free_pages
    pub(super) fn try_to_free_pages(&self, request: &Request) -> ReclaimProgress {
        self.report(Event::DirectReclaim { highest: request.highest });
        let mut progress = ReclaimProgress { pages: 0, scanned: 0, spared: false };
        for priority in (0..=PRIORITY_FIRST).rev() {
            self.shrink_zones(request, priority, &mut progress);
            if progress.pages >= Reclaim::CLUSTER || progress.spared {
                break;
            }
        }
        let ReclaimProgress { pages, scanned, .. } = progress;
        self.report(Event::DirectReclaimEnd { order: request.order, pages, scanned });
        progress
    }

    /// Reclaims once on every node that the request may use, except, for a costly order, on nodes whose zones are all
    /// ready for compaction. linux: mm/vmscan.c:shrink_zones
    fn shrink_zones(&self, request: &Request, priority: u8, progress: &mut ReclaimProgress) {
        let Request { gfp, order, highest, .. } = *request;
        let mut last: Option<NodeId> = None;
        for zone in self.zones_for(request) {
            if order > Order::COSTLY && self.compaction_ready(zone, request) {
                progress.spared = true;
                continue;
            }
            let node = zone.node();
            if last.replace(node) != Some(node) {
                let by = Reclaimer::Direct;
                let wanted = Reclaim { node, highest, goal: Reclaim::CLUSTER, order, priority, by, gfp };
                let found = self.shrink_node(&wanted);
                progress.pages += found.pages;
                progress.scanned += found.scanned;
            }
        }
    }

    /// Returns whether pages may be migrated for a request with these flags. linux: gfp_compaction_allowed
    pub(super) fn gfp_compaction_allowed(&self, gfp: Gfp) -> bool {
        gfp.contains(Gfp::IO) && self.platform.migrates()
    }

    /// Returns whether reclaim should skip a zone because the zone already has a block for the request, or everything
    /// that compaction needs. Returns `false` if compaction is not allowed. linux: mm/vmscan.c:compaction_ready
    fn compaction_ready(&self, zone: &Zone<P::Lock>, request: &Request) -> bool {
        let Request { gfp, order, highest, .. } = *request;
        if !self.gfp_compaction_allowed(gfp) {
            return false;
        }
        let none = AllocFlags::empty();
        zone.watermark_ok(order, zone.mark(none), highest, none) || self.should_spare(zone, order, highest)
    }

    /// Reclaims on a node at one priority, repeatedly for large blocks. linux: mm/vmscan.c:shrink_node
    pub(super) fn shrink_node(&self, wanted: &Reclaim) -> Reclaimed {
        let mut sum = Reclaimed::default();
        loop {
            let found = self.reclaim_once(wanted);
            sum.pages += found.pages;
            sum.scanned += found.scanned;
            if found.pages == 0 || self.platform.lru_gen_enabled() || !self.should_continue_reclaim(wanted, sum.pages) {
                break;
            }
        }
        if sum.pages > 0 && self.revives_kswapd(wanted) {
            self.node(wanted.node).kswapd.clear_hopeless();
        }
        sum
    }

    /// Returns whether the reclaimed pages let a kswapd that has given up try again: the policy requires only that
    /// pages are freed, or the node is balanced now.
    fn revives_kswapd(&self, wanted: &Reclaim) -> bool {
        let Reclaim { node, highest, order, .. } = *wanted;
        kswapd::hopes_for_any_page(self.rules().kswapd.hope) || self.pgdat_balanced(node, order, highest)
    }

    /// Returns whether reclaim at one priority should continue for a block above order 0, after `pages` pages were
    /// freed. It does so for costly orders, and for others at priorities below 10, if compaction is allowed. It
    /// continues while no zone has a block of the order or room to compact for one, more than [`gap`] pages are
    /// reclaimable, and fewer pages were freed than the sum of the zones' high watermarks plus that gap.
    /// linux: mm/vmscan.c:should_continue_reclaim
    fn should_continue_reclaim(&self, wanted: &Reclaim, pages: u64) -> bool {
        let Reclaim { node, highest, order, priority, gfp, .. } = *wanted;
        let is_hard = order > Order::COSTLY || priority < PRIORITY_FIRST - 2;
        if order == Order::ZERO || !is_hard || !self.gfp_compaction_allowed(gfp) {
            return false;
        }
        let high: u64 = self.managed_up_to(node, highest).map(|zone| zone.mark(AllocFlags::WMARK_HIGH)).sum();
        pages < high + gap(order)
            && !self.managed_up_to(node, highest).any(|zone| self.can_compact_now(zone, order, highest))
            && self.reclaimable_up_to(node, highest) > gap(order)
    }

    /// Returns whether a zone has a block of this order, or room to compact for one.
    fn can_compact_now(&self, zone: &Zone<P::Lock>, order: Order, highest: ZoneKind) -> bool {
        let none = AllocFlags::empty();
        zone.watermark_ok(order, zone.mark(none), highest, none) || self.compaction_suitable(zone, order, highest)
    }

    /// Returns the number of pages that the platform can still reclaim in the zones of a node up to `highest`.
    fn reclaimable_up_to(&self, node: NodeId, highest: ZoneKind) -> u64 {
        let zones = self.managed_up_to(node, highest);
        zones.map(|zone| self.platform.reclaimable(node, zone.kind())).fold(0, u64::saturating_add)
    }

    /// Calls the platform once. Only pages that were freed through the handle count, regardless of the number that the
    /// platform returns; a different number is reported as a broken promise.
    fn reclaim_once(&self, wanted: &Reclaim) -> Reclaimed {
        let returns = FreeCounter { wanted: Some(wanted), ..FreeCounter::new(self, Promise::Reclaim) };
        let answer = self.platform.reclaim(&returns, wanted);
        let pages = returns.pages.get();
        // A pass scans each page at most once, and scans at least the pages that it frees.
        let scanned = answer.scanned.clamp(pages, pages.max(self.present_on(wanted.node)));
        if answer != (Reclaimed { pages, scanned }) {
            self.report(Event::BrokenPromise { promise: Promise::Reclaim });
        }
        self.report(Event::Reclaim { by: wanted.by, pages, scanned });
        Reclaimed { pages, scanned }
    }

    /// Returns whether a pass may end early: it is kswapd's, for single pages, and each zone is above its high
    /// watermark by more than [`Reclaim::GENERATION_BATCH`].
    fn has_enough_for(&self, wanted: &Reclaim) -> bool {
        let Reclaim { node, highest, order, by, .. } = *wanted;
        by == Reclaimer::Kswapd
            && order == Order::ZERO
            && self.managed_up_to(node, highest).all(|zone| {
                let mark = zone.mark(AllocFlags::WMARK_HIGH) + Reclaim::GENERATION_BATCH;
                zone.watermark_ok(Order::ZERO, mark, highest, AllocFlags::empty())
            })
    }

    /// Returns the priority at which kswapd starts. If the platform uses a multi-generational LRU and the goal is at
    /// least a batch, it is the priority at which one pass is expected to free the goal, limited to the range from 6 to
    /// 12. linux: mm/vmscan.c:set_initial_priority
    pub(super) fn initial_priority(&self, wanted: &Reclaim) -> u8 {
        if !self.platform.lru_gen_enabled() || wanted.goal < Reclaim::GENERATION_BATCH {
            return wanted.priority;
        }
        let zones = self.managed_up_to(wanted.node, ZoneKind::Movable);
        let reclaimable: u64 = zones.map(|zone| self.platform.reclaimable(wanted.node, zone.kind())).sum();
        let priority = bit_length(reclaimable).saturating_sub(1).saturating_sub(bit_length(wanted.goal - 1));
        priority.clamp(u32::from(PRIORITY_FIRST / 2), u32::from(PRIORITY_FIRST)) as u8
    }

    fn present_on(&self, node: NodeId) -> u64 {
        self.managed_up_to(node, ZoneKind::Movable).map(Zone::present).sum()
    }

    /// Asks the platform to end something, such as a process, to free memory for a request. Returns the number of pages
    /// that were freed. Only pages that were freed through the handle count, regardless of the platform's answer.
    /// linux: mm/oom_kill.c:out_of_memory
    pub(super) fn out_of_memory(&self, request: &Request) -> u64 {
        let returns = FreeCounter::new(self, Promise::OutOfMemory);
        let answer = self.platform.out_of_memory(&returns, request);
        let pages = returns.pages.get();
        if (answer == OutOfMemory::Freed) != (pages > 0) {
            self.report(Event::BrokenPromise { promise: Promise::OutOfMemory });
        }
        pages
    }
}

/// Returns the number of binary digits of a number.
fn bit_length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Returns the number of entries that are equal to an earlier entry.
fn count_repeats(pages: &[Pfn]) -> u64 {
    (0..pages.len()).filter(|&at| pages[..at].contains(&pages[at])).count() as u64
}

/// Handle through which the platform frees pages; it counts the pages that become free.
struct FreeCounter<'a, 'm, P: Platform> {
    allocator: &'a PageAllocator<'m, P>,
    promise: Promise,
    pages: Cell<u64>,
    /// The reclaim request that the platform serves, if it serves one.
    wanted: Option<&'a Reclaim>,
}

impl<'a, 'm, P: Platform> FreeCounter<'a, 'm, P> {
    fn new(allocator: &'a PageAllocator<'m, P>, promise: Promise) -> FreeCounter<'a, 'm, P> {
        FreeCounter { allocator, promise, pages: Cell::new(0), wanted: None }
    }

    /// Returns the number of pages that become free when the caller's reference to a block is dropped.
    fn pages_freed_by_put(&self, pfn: Pfn, order: Order) -> u64 {
        let Some(frame) = self.allocator.map.try_frame(pfn) else { return 0 };
        let word = frame.word();
        match word.refs() {
            _ if !word.is_allocated_of(order) => 0,
            0 => 0,
            1 => u64::from(order.pages()),
            _ if word.is_compound() => 0,
            _ => u64::from(order.pages()) - 1,
        }
    }

    fn book(&self, pages: u64, freed: Result<(), FreeError>) {
        self.pages.set(self.pages.get() + pages);
        if freed.is_err() {
            self.allocator.report(Event::BrokenPromise { promise: self.promise });
        }
    }
}

impl<P: Platform> FreePages for FreeCounter<'_, '_, P> {
    fn free_pages(&self, pfn: Pfn, order: Order) {
        let pages = self.pages_freed_by_put(pfn, order);
        self.book(pages, self.allocator.free_pages(pfn, order));
    }

    fn has_enough(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.allocator.has_enough_for(wanted))
    }

    fn free_pages_bulk(&self, pages: &[Pfn]) {
        let expected: u64 = pages.iter().map(|&pfn| self.pages_freed_by_put(pfn, Order::ZERO)).sum();
        let freed = self.allocator.free_pages_bulk(pages);
        // `expected` counts a page twice if it is in the slice twice, but the second free of such a page is refused.
        let excess = if freed.is_ok() { 0 } else { count_repeats(pages) };
        self.book(expected.saturating_sub(excess), freed);
    }
}
