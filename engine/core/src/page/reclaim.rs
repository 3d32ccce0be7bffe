//! Direct reclaim: a request that found too little asks the platform to free pages, with growing urgency.
//!
//! ```text
//! priority 12, 11, ... 0     the nodes of the request, each once: look at a 4096th of its pages, a 2048th, ... all
//!   a node                   for large blocks again and again, until compaction has room or nothing more comes
//! over                       once a cluster of 32 pages came, or compaction could go ahead in some zone
//! ```
//!
//! The platform frees through a handle that counts, and what it counted is what came: a platform that says something
//! else is reported by name, and so is one that frees what is not there to be freed. Every loop here ends: a priority
//! only falls, and a node is asked again only for as long as pages come, and no more of them than could help.
//! No lock is held while the platform works.
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

/// The least urgent priority. linux: DEF_PRIORITY
pub(super) const PRIORITY_FIRST: u8 = 12;

/// What direct reclaim did for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReclaimProgress {
    /// Pages that came back, over all nodes.
    pub(super) pages: u64,
    /// Some zone has room enough to compact, and was spared.
    pub(super) spared: bool,
}

impl ReclaimProgress {
    /// Whether the request may hope for more than before.
    pub(super) fn is_made(self) -> bool {
        self.pages > 0 || self.spared
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Reclaims for a request, with rising urgency, until enough came or a zone is ready to be compacted.
    /// linux: mm/vmscan.c:try_to_free_pages
    pub(super) fn try_to_free_pages(&self, request: &Request) -> ReclaimProgress {
        self.report(Event::DirectReclaim { highest: request.highest });
        let mut progress = ReclaimProgress { pages: 0, spared: false };
        for priority in (0..=PRIORITY_FIRST).rev() {
            self.shrink_zones(request, priority, &mut progress);
            if progress.pages >= Reclaim::CLUSTER || progress.spared {
                break;
            }
        }
        progress
    }

    /// Asks every node that the request may use once, but for those whose zones are all ready to be compacted.
    /// linux: mm/vmscan.c:shrink_zones
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
                progress.pages += self.shrink_node(&wanted).pages;
            }
        }
    }

    /// Whether pages may be moved for a request with these flags. linux: gfp_compaction_allowed
    pub(super) fn gfp_compaction_allowed(&self, gfp: Gfp) -> bool {
        gfp.contains(Gfp::IO) && self.platform.migrates()
    }

    /// Whether reclaim should leave a zone alone, since compaction has all that it needs there.
    /// linux: mm/vmscan.c:compaction_ready
    fn compaction_ready(&self, zone: &Zone<P::Lock>, request: &Request) -> bool {
        let Request { gfp, order, highest, .. } = *request;
        if !self.gfp_compaction_allowed(gfp) {
            return false;
        }
        let none = AllocFlags::empty();
        zone.watermark_ok(order, zone.mark(none), highest, none) || self.should_spare(zone, order, highest)
    }

    /// Asks the platform to look a node over at one priority; for large blocks again and again.
    /// linux: mm/vmscan.c:shrink_node
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

    /// Whether pages that were reclaimed make a kswapd that has given up try again.
    fn revives_kswapd(&self, wanted: &Reclaim) -> bool {
        let Reclaim { node, highest, order, .. } = *wanted;
        kswapd::hopes_for_any_page(self.rules().kswapd.hope) || self.pgdat_balanced(node, order, highest)
    }

    /// Whether more should be reclaimed for a block that no single pages can make: no zone can be compacted yet, there
    /// is more to be had, and less came than would have brought every zone to its high watermark.
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

    /// Whether a zone has a block of this order, or room to compact for one.
    fn can_compact_now(&self, zone: &Zone<P::Lock>, order: Order, highest: ZoneKind) -> bool {
        let none = AllocFlags::empty();
        zone.watermark_ok(order, zone.mark(none), highest, none) || self.compaction_suitable(zone, order, highest)
    }

    /// Pages that the platform could still reclaim in the zones of a node.
    fn reclaimable_up_to(&self, node: NodeId, highest: ZoneKind) -> u64 {
        let zones = self.managed_up_to(node, highest);
        zones.map(|zone| self.platform.reclaimable(node, zone.kind())).fold(0, u64::saturating_add)
    }

    /// Asks the platform once. What came through the handle is what it freed, whatever it says.
    fn reclaim_once(&self, wanted: &Reclaim) -> Reclaimed {
        let returns = FreeCounter { wanted: Some(wanted), ..FreeCounter::new(self, Promise::Reclaim) };
        let said = self.platform.reclaim(&returns, wanted);
        let pages = returns.pages.get();
        // A look passes over a page once, and over what it frees at least.
        let scanned = said.scanned.clamp(pages, pages.max(self.present_on(wanted.node)));
        if said != (Reclaimed { pages, scanned }) {
            self.report(Event::BrokenPromise { promise: Promise::Reclaim });
        }
        self.report(Event::Reclaim { by: wanted.by, pages, scanned });
        Reclaimed { pages, scanned }
    }

    /// Whether a look for kswapd may end before its time: each zone has a batch more than its high watermark.
    fn has_enough_for(&self, wanted: &Reclaim) -> bool {
        let Reclaim { node, highest, order, by, .. } = *wanted;
        by == Reclaimer::Kswapd
            && order == Order::ZERO
            && self.managed_up_to(node, highest).all(|zone| {
                let mark = zone.mark(AllocFlags::WMARK_HIGH) + Reclaim::GENERATION_BATCH;
                zone.watermark_ok(Order::ZERO, mark, highest, AllocFlags::empty())
            })
    }

    /// The priority at which kswapd begins, where pages are kept by generation: that at which a look brings as much as
    /// is wanted, but not the most urgent half of all. linux: mm/vmscan.c:set_initial_priority
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

    /// Asks the platform to end something for a request; how many pages came of it. Memory that did not come through
    /// the handle was not freed, whatever the platform says. linux: mm/oom_kill.c:out_of_memory
    pub(super) fn out_of_memory(&self, request: &Request) -> u64 {
        let returns = FreeCounter::new(self, Promise::OutOfMemory);
        let said = self.platform.out_of_memory(&returns, request);
        let pages = returns.pages.get();
        if (said == OutOfMemory::Freed) != (pages > 0) {
            self.report(Event::BrokenPromise { promise: Promise::OutOfMemory });
        }
        pages
    }
}

/// Number of binary digits of a number.
fn bit_length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Number of entries that repeat an earlier one.
fn count_repeats(pages: &[Pfn]) -> u64 {
    (0..pages.len()).filter(|&at| pages[..at].contains(&pages[at])).count() as u64
}

/// Frees pages for a promise of the platform, and counts those that become free.
struct FreeCounter<'a, 'm, P: Platform> {
    allocator: &'a PageAllocator<'m, P>,
    promise: Promise,
    pages: Cell<u64>,
    /// What is reclaimed for.
    wanted: Option<&'a Reclaim>,
}

impl<'a, 'm, P: Platform> FreeCounter<'a, 'm, P> {
    fn new(allocator: &'a PageAllocator<'m, P>, promise: Promise) -> FreeCounter<'a, 'm, P> {
        FreeCounter { allocator, promise, pages: Cell::new(0), wanted: None }
    }

    /// Pages that are free once the caller's reference to a block is gone.
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
        // A page that is named twice was counted twice, and refused once.
        let excess = if freed.is_ok() { 0 } else { count_repeats(pages) };
        self.book(expected.saturating_sub(excess), freed);
    }
}
