//! Compaction: making large free blocks by migrating pages.
//!
//! ```text
//! suitable   decides whether there is room to move pages to, and whether moving them helps
//! hints      resets the skip hints of pageblocks
//! freepages  free blocks that a run has taken as targets
//! run        one run: two scanners move towards each other
//! source     ... the lower scanner finds pages to move
//! target     ... the upper scanner finds free pages
//! moves      ... the pages of a batch are moved
//! fast_*     ... both scanners search the free lists first
//! ```
//!
//! The zone remembers where the last run stopped, and whether another run is due (`zone/compact_state`).
//!
//! A request compacts for itself, zone by zone, with growing effort (`slowpath`). kcompactd compacts for kswapd, and
//! proactively (`kcompactd`). The platform moves the pages (`migrate`), and `zone` provides the targets. This module
//! decides which pages are moved, where to, and when a run ends. Cost: one step per scanned frame, one hold of the zone
//! lock for each 32 frames in which targets are taken, two to start and end a capture for each batch of a direct
//! compaction, and a free for each moved block.
//!
//! linux: mm/compaction.c:try_to_compact_pages, kcompactd_do_work, compact_node

mod fast_isolate;
mod fast_search;
mod freepages;
mod hints;
mod moves;
mod run;
mod source;
mod suitable;
mod target;

use super::allocator::PageAllocator;
use super::zone::Zone;
use crate::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::platform::probe::{Compactor, ZoneOutcome};
use crate::platform::{CompactEffort, CompactResult, Event, Platform, Request};
use crate::policy::compaction::{AfterDeferral, Deferral};
use crate::policy::flags::AllocFlags;

use run::{Aim, Run};

impl<P: Platform> PageAllocator<'_, P> {
    /// Compacts the zones that a request may use, until one of them has its block, and then tries to take a block from
    /// them, unless compaction was skipped. Returns the block, if the request got one, and the result of the
    /// compaction. linux: mm/page_alloc.c:__alloc_pages_direct_compact
    pub(super) fn alloc_pages_direct_compact(
        &self,
        request: &Request,
        flags: AllocFlags,
        effort: CompactEffort,
    ) -> (Option<Pfn>, CompactResult) {
        let (captured, result) = self.try_to_compact_pages(request, flags, effort);
        if result == CompactResult::Skipped || (result == CompactResult::Deferred && self.leaves_deferred()) {
            return (None, result);
        }
        let pfn = captured.or_else(|| self.get_page_from_freelist(request, flags));
        if let Some(pfn) = pfn {
            let zone = self.zone_of(pfn);
            zone.compaction.clear_stale();
            zone.compaction.note_served(request.order);
        }
        let served = if pfn.is_some() { CompactResult::Succeeded } else { result.min(CompactResult::Failed) };
        self.report(Event::CompactStall { result: served });
        (pfn, result)
    }

    fn leaves_deferred(&self) -> bool {
        self.rules().compaction.deferred == AfterDeferral::Leave
    }

    /// Defers compaction in a zone after a run that did everything it could has failed, unless the policy switches
    /// deferral off.
    fn defer(&self, zone: &Zone<P::Lock>, order: Order) {
        if self.rules().compaction.deferral == Deferral::Growing {
            zone.compaction.defer(order);
        }
    }

    /// Compacts the zones of a request in turn, until one of them has its block. Returns the block if it was captured,
    /// and the best result of all zones. linux: mm/compaction.c:try_to_compact_pages
    fn try_to_compact_pages(
        &self,
        request: &Request,
        flags: AllocFlags,
        effort: CompactEffort,
    ) -> (Option<Pfn>, CompactResult) {
        let Request { order, gfp, migratetype, highest, .. } = *request;
        let aim = Aim { order: Some(order), migratetype, highest, gfp, flags, effort, by: Compactor::Direct };
        let mut result = CompactResult::Skipped;
        self.report(Event::TryToCompact { order, effort });
        for zone in self.zones_for(request) {
            let (outcome, captured) = self.compact_zone(zone, aim);
            result = result.max(outcome.into());
            match outcome {
                ZoneOutcome::HasBlock | ZoneOutcome::Made => {
                    zone.compaction.note_success(order);
                    return (captured, result);
                }
                ZoneOutcome::Complete | ZoneOutcome::Partial if effort != CompactEffort::Async => {
                    self.defer(zone, order);
                }
                _ => {}
            }
        }
        (None, result)
    }

    /// Compacts the zones of a node up to `highest`, for an errand of kcompactd with this order.
    /// linux: mm/compaction.c:kcompactd_do_work
    pub(super) fn kcompactd_do_work(&self, node: NodeId, order: Order, highest: ZoneKind) {
        for zone in self.populated_up_to(node, highest) {
            let aim = Aim { highest: zone.kind(), ..Aim::of_kcompactd(Some(order)) };
            match self.compact_zone(zone, aim).0 {
                ZoneOutcome::HasBlock | ZoneOutcome::Made => zone.compaction.note_success(order),
                ZoneOutcome::Complete | ZoneOutcome::Partial => {
                    // The pages that a block still lacks may be on a per-CPU list.
                    self.drain_all_pages_zone(zone);
                    self.defer(zone, order);
                }
                _ => {}
            }
        }
    }

    /// Compacts a whole node, until the fragmentation score of each zone is low enough, no page is left to move, or
    /// kswapd works on the zone. linux: mm/compaction.c:compact_node
    pub(super) fn compact_node(&self, node: NodeId) {
        for zone in self.populated_up_to(node, ZoneKind::Movable) {
            self.compact_zone(zone, Aim::of_kcompactd(None));
        }
    }

    /// Resets the skip hints of a node. linux: mm/compaction.c:reset_isolation_suitable
    pub(super) fn reset_isolation_suitable(&self, node: NodeId) {
        self.populated_up_to(node, ZoneKind::Movable).for_each(|zone| self.reset_zone_isolation_suitable(zone));
    }

    /// Compacts a zone, unless there is a reason to skip it. Returns the outcome, and the block that was captured, if
    /// any. linux: mm/compaction.c:compact_zone
    fn compact_zone(&self, zone: &Zone<P::Lock>, aim: Aim) -> (ZoneOutcome, Option<Pfn>) {
        let (outcome, captured) = match aim.order.and_then(|order| self.reason_to_skip(zone, order, &aim)) {
            Some(reason) => (reason, None),
            None => self.run_in_zone(zone, aim),
        };
        self.report(Event::CompactZone { zone: zone.index() as u8, by: aim.by, outcome });
        (outcome, captured)
    }

    /// Returns the reason for which a zone is not compacted for a block of this order; `None` if it is. With full
    /// effort, a deferral is ignored and its attempts are not counted.
    /// linux: mm/compaction.c:compaction_suit_allocation_order
    fn reason_to_skip(&self, zone: &Zone<P::Lock>, order: Order, aim: &Aim) -> Option<ZoneOutcome> {
        if aim.effort > CompactEffort::SyncFull && zone.compaction.is_deferred(order) {
            return Some(ZoneOutcome::Deferred);
        }
        if zone.watermark_ok(order, zone.mark(aim.flags), aim.highest, aim.flags) {
            return Some(ZoneOutcome::HasBlock);
        }
        if self.lacks_own_room(zone, order, aim) {
            return Some(ZoneOutcome::NoOwnRoom);
        }
        self.unsuitable(zone, order, aim.highest)
    }

    fn run_in_zone(&self, zone: &Zone<P::Lock>, aim: Aim) -> (ZoneOutcome, Option<Pfn>) {
        if aim.order.is_some_and(|order| zone.compaction.is_restarting(order)) {
            self.reset_zone_isolation_suitable(zone);
        }
        Run::new(self, zone, aim).run()
    }
}

impl Aim {
    /// Returns the aim of kcompactd, which may wait. As in Linux, it compacts for an unmovable block.
    fn of_kcompactd(order: Option<Order>) -> Aim {
        Aim {
            order,
            migratetype: MigrateType::Unmovable,
            highest: ZoneKind::Movable,
            gfp: Gfp::KERNEL,
            flags: AllocFlags::empty(),
            effort: CompactEffort::SyncLight,
            by: Compactor::Kcompactd,
        }
    }
}

impl From<ZoneOutcome> for CompactResult {
    fn from(outcome: ZoneOutcome) -> CompactResult {
        match outcome {
            ZoneOutcome::NoOwnRoom | ZoneOutcome::NoRoom | ZoneOutcome::NotFragmented => CompactResult::Skipped,
            ZoneOutcome::Deferred => CompactResult::Deferred,
            ZoneOutcome::Complete | ZoneOutcome::Partial | ZoneOutcome::Stopped => CompactResult::Failed,
            ZoneOutcome::HasBlock | ZoneOutcome::Made => CompactResult::Succeeded,
        }
    }
}
