//! Suitability of a zone for compaction, and fragmentation scores of zones and nodes.
//!
//! Compaction needs room: free pages above the watermark as targets. It helps only if a request fails because of
//! fragmentation and not because of lack of memory, which the fragmentation index shows. The index counts free blocks
//! of every type, including those of the high-atomic reserve, although an ordinary request cannot use them. The
//! watermark, in contrast, excludes the reserve. Linux has the same asymmetry;
//! [`ReservePolicy`](crate::policy::ReservePolicy) can remove it.
//!
//! linux: mm/compaction.c:__compaction_suitable, compaction_suitable, compaction_zonelist_suitable,
//! fragmentation_score_node; mm/vmscan.c:compaction_ready

use super::run::Aim;
use crate::base::{MigrateType, NodeId, Order, RawLock, ZoneKind};
use crate::page::allocator::PageAllocator;
use crate::page::zone::{FreeAreas, Zone};
use crate::platform::probe::ZoneOutcome;
use crate::platform::{Platform, Request};
use crate::policy::ReserveIndex;
use crate::policy::compaction::{self, FreeShape, ScoreMarks, SparedZones};
use crate::policy::flags::AllocFlags;

impl<P: Platform> PageAllocator<'_, P> {
    /// Returns whether compaction of a zone may make a block of this order: the platform migrates, the zone has room
    /// above its min watermark and, for a costly order, its free memory is fragmented. Takes the zone lock for costly
    /// orders. linux: mm/compaction.c:compaction_suitable
    pub(in crate::page) fn compaction_suitable(&self, zone: &Zone<P::Lock>, order: Order, highest: ZoneKind) -> bool {
        self.unsuitable(zone, order, highest).is_none()
    }

    /// Returns the reason for which a zone is not suitable; `None` if it is.
    pub(super) fn unsuitable(&self, zone: &Zone<P::Lock>, order: Order, highest: ZoneKind) -> Option<ZoneOutcome> {
        self.unsuitable_above(zone.watermarks().min, zone, order, highest)
    }

    /// Returns whether reclaim for a block of this costly order should leave a zone to compaction.
    pub(in crate::page) fn should_spare(&self, zone: &Zone<P::Lock>, order: Order, highest: ZoneKind) -> bool {
        let high = zone.watermarks().high;
        match self.rules().compaction.spared {
            SparedZones::WithRoom => {
                let room = high + zone.boost() + compaction::gap(order);
                self.compaction_suitable(zone, order, highest)
                    && zone.watermark_ok(Order::ZERO, room, highest, AllocFlags::empty())
            }
            SparedZones::AtHighMark => self.unsuitable_above(high, zone, order, highest).is_none(),
        }
    }

    /// Returns the reason for which compaction is of no use with room above a mark; `None` if the platform migrates,
    /// the zone has that room, and, for a costly order, its free memory is fragmented.
    fn unsuitable_above(
        &self,
        mark: u64,
        zone: &Zone<P::Lock>,
        order: Order,
        highest: ZoneKind,
    ) -> Option<ZoneOutcome> {
        if !self.platform.migrates() || !zone.has_room_to_compact(mark, order, highest, 0) {
            return Some(ZoneOutcome::NoRoom);
        }
        (order > Order::COSTLY && !self.is_in_pieces(zone, order)).then_some(ZoneOutcome::NotFragmented)
    }

    /// Returns whether a run needs room outside of CMA areas, by the policy, and lacks it, in which case it should not
    /// compact the zone.
    pub(super) fn lacks_own_room(&self, zone: &Zone<P::Lock>, order: Order, aim: &Aim) -> bool {
        let room = zone.mark(aim.flags) + compaction::gap(order);
        compaction::needs_own_room(self.rules().compaction.cma, order, aim.trial(), aim.flags)
            && !zone.watermark_ok(Order::ZERO, room, aim.highest, AllocFlags::empty())
    }

    /// Returns whether compaction for a request may have room in some zone, if a part of the zone's reclaimable pages
    /// were free: all of them divided by the order. linux: mm/compaction.c:compaction_zonelist_suitable
    pub(in crate::page) fn compaction_zonelist_suitable(&self, request: &Request) -> bool {
        let order = request.order;
        self.platform.migrates()
            && self.zones_for(request).any(|zone| {
                let reclaimable = self.platform.reclaimable(zone.node(), zone.kind());
                let mark = zone.watermarks().min;
                zone.has_room_to_compact(mark, order, request.highest, reclaimable / u64::from(order.get().max(1)))
            })
    }

    /// Returns whether a request of this order fails in a zone because of fragmentation, by the fragmentation index.
    /// The answer is also yes if a sufficient block is free.
    fn is_in_pieces(&self, zone: &Zone<P::Lock>, order: Order) -> bool {
        let threshold = self.policy.numbers.compaction_extfrag_threshold.unwrap_or(compaction::EXTFRAG_THRESHOLD);
        self.free_shape(zone, order).fragmentation_index(order).is_none_or(|index| index > threshold)
    }

    /// Returns the numbers of free blocks in a zone that describe its fragmentation. Takes the zone lock.
    fn free_shape(&self, zone: &Zone<P::Lock>, wanted: Order) -> FreeShape {
        let apart = self.rules().reserve.index == ReserveIndex::Apart;
        zone.inspect(|areas| shape_of(areas, wanted, |migratetype| !(apart && migratetype == MigrateType::HighAtomic)))
    }

    /// Returns the fragmentation score of a node with regard to pageblocks, in percent.
    /// linux: mm/compaction.c:fragmentation_score_node
    pub(in crate::page) fn fragmentation_score_node(&self, node: NodeId) -> u32 {
        let present: u64 = self.populated_up_to(node, ZoneKind::Movable).map(Zone::present).sum();
        self.populated_up_to(node, ZoneKind::Movable)
            .map(|zone| compaction::weighted_score(self.fragmentation_score_zone(zone), zone.present(), present))
            .sum()
    }

    /// Returns the fragmentation score of a zone with regard to pageblocks, in percent.
    /// linux: mm/compaction.c:fragmentation_score_zone
    pub(super) fn fragmentation_score_zone(&self, zone: &Zone<P::Lock>) -> u32 {
        let order = self.map.pageblock_order();
        zone.inspect(|areas| shape_of(areas, order, |_| true)).unusable_percent(order)
    }

    /// Returns the scores at which proactive compaction starts and ends, or `None` if it is off.
    pub(in crate::page) fn score_marks(&self) -> Option<ScoreMarks> {
        let proactiveness = self.policy.numbers.compaction_proactiveness.unwrap_or(compaction::PROACTIVENESS);
        let marks = ScoreMarks::for_proactiveness(proactiveness, self.rules().compaction.marks);
        marks.filter(|_| self.platform.migrates())
    }
}

impl<L: RawLock> Zone<L> {
    /// Returns whether a zone would have enough free pages, including those of CMA areas, above a mark to serve as
    /// targets, if `more` pages more were free. For costly orders the mark is raised by the distance from min to low.
    fn has_room_to_compact(&self, mark: u64, order: Order, highest: ZoneKind, more: u64) -> bool {
        let marks = self.watermarks();
        let raised = if order > Order::COSTLY { (mark + marks.low).saturating_sub(marks.min) } else { mark };
        self.would_pass(raised + self.boost() + compaction::gap(order), highest, AllocFlags::CMA, more)
    }
}

fn shape_of(areas: &FreeAreas, wanted: Order, counts: impl Fn(MigrateType) -> bool) -> FreeShape {
    let mut shape = FreeShape::default();
    for order in Order::all() {
        let area = areas.area(order);
        let counted = MigrateType::ALL.into_iter().filter(|&migratetype| counts(migratetype));
        shape.add(order, counted.map(|migratetype| u64::from(area.len(migratetype))).sum(), wanted);
    }
    shape
}
