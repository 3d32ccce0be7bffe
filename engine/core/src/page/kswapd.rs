//! kswapd: reclaim in the background, as a state machine that the platform drives.
//!
//! A request that finds no zone above its low watermark wakes the kswapd of each node it may use, if there is something
//! to do there: no zone is above its high watermark, or a watermark was boosted. From then on the platform calls
//! [`run_kswapd`](PageAllocator::run_kswapd), in a task of its own, until the answer is [`Background::Asleep`].
//!
//! ```text
//! run    one errand: an order, and the zones up to one       begins at priority 12
//! pass   one call: the node is looked over at one priority   the next one is more urgent if that brought too little
//! over   balanced, or every priority down to 1 was tried     16 runs in vain: kswapd gives up, until reclaim works again
//! sleep  if the node is balanced: kcompactd takes over, to make blocks of what was freed
//! ```
//!
//! A run that has freed twice the block it was asked for goes on for single pages: the rest is up to compaction. A run
//! for a boost alone is gentle: never below priority 10, and over as soon as a pass brings nothing. Cost of a pass,
//! besides the platform's own: a few loads a zone.
//!
//! linux: mm/vmscan.c:wakeup_kswapd, kswapd_try_to_sleep, balance_pgdat, kswapd_shrink_node

use core::sync::atomic::Ordering::Relaxed;

use super::allocator::PageAllocator;
use super::background::{Background, Errand};
use super::node::KswapdRun;
use super::reclaim;
use super::zone::ZoneFlag;
use crate::base::{Gfp, NodeId, Order, ZoneKind};
use crate::platform::{Event, Platform, Reclaim, Reclaimed, Reclaimer};
use crate::policy::compaction::gap;
use crate::policy::flags::AllocFlags;
use crate::policy::kswapd::{self as policy, BusyNodes, RunFacts};

/// The most urgent priority of a run for a boost alone.
const BOOST_PRIORITY_MIN: u8 = reclaim::PRIORITY_FIRST - 2;

/// What asking for background reclaim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// kswapd is awake, and has the errand.
    Awake,
    /// There is nothing for it to do, or nothing that it can do.
    Needless,
}

/// How one pass of kswapd ended.
enum Pass {
    /// The node is not balanced yet.
    Again,
    /// The node is balanced, and no boost is left to work off.
    Balanced,
    /// It is not, and that is all that this run can do.
    Exhausted,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Says that a kswapd which is not driven here, such as the one of a recording, begins or ends its work on a zone.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn note_kswapd(&self, node: NodeId, kind: ZoneKind, now: Background) {
        match now {
            Background::Working => self.zone(node, kind).set(ZoneFlag::ReclaimActive),
            Background::Asleep => _ = self.zone(node, kind).clear(ZoneFlag::ReclaimActive),
        }
    }

    /// Takes so much of a zone's boost back, when a kswapd which is not driven here has worked it off.
    /// linux: mm/vmscan.c:balance_pgdat
    ///
    /// # Panics
    /// If there is no such node.
    pub fn note_boost_worked_off(&self, node: NodeId, kind: ZoneKind, pages: u64) {
        self.zone(node, kind).lower_boost(pages);
    }

    /// One pass of kswapd over a node: to be called after [`Platform::wake_kswapd`] until it says
    /// [`Background::Asleep`].
    ///
    /// May be called at any time: a kswapd that was not woken, or that another CPU drives, says that it is asleep.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn run_kswapd(&self, node: NodeId) -> Background {
        let kswapd = &self.node(node).kswapd;
        let Some(driver) = kswapd.phase.drive() else { return Background::Asleep };
        let mut run = kswapd.run.take().unwrap_or_else(|| self.begin_run(node));
        match self.balance_pgdat_pass(node, &mut run) {
            Pass::Again => {
                kswapd.run.save(&run);
                driver.leave(Background::Working)
            }
            Pass::Balanced => driver.leave(self.end_run(node, &run)),
            Pass::Exhausted => {
                let facts = RunFacts { freed: run.freed, boosted: run.boosts.iter().sum() };
                if policy::is_in_vain(self.rules().kswapd.boosts, facts) {
                    kswapd.failures.fetch_add(1, Relaxed);
                }
                driver.leave(self.end_run(node, &run))
            }
        }
    }

    /// Asks for background reclaim of a node, of use to a block of `order` in zones up to `highest`.
    /// linux: mm/vmscan.c:wakeup_kswapd
    pub(super) fn wakeup_kswapd(&self, node: NodeId, highest: ZoneKind, order: Order) -> Wake {
        let kswapd = &self.node(node).kswapd;
        kswapd.errands.change(|waiting| {
            let Errand { order: larger, highest: higher } = waiting.unwrap_or(Errand { order, highest });
            Some(Errand { order: order.max(larger), highest: highest.max(higher) })
        });
        if !kswapd.is_asleep() {
            return Wake::Awake;
        }
        if kswapd.is_hopeless()
            || (self.pgdat_balanced(node, order, highest) && !self.pgdat_watermark_boosted(node, highest))
        {
            return Wake::Needless;
        }
        if kswapd.phase.wake() {
            if self.spares_busy_nodes() {
                self.populated_up_to(node, ZoneKind::Movable).for_each(|zone| zone.set(ZoneFlag::NodeBusy));
            }
            self.platform.wake_kswapd(node);
        }
        Wake::Awake
    }

    /// Whether requests pass a node over while its kswapd is awake, if others will do.
    #[inline]
    pub(super) fn spares_busy_nodes(&self) -> bool {
        self.rules().kswapd.nodes == BusyNodes::Spared && self.nodes() > 1
    }

    /// Lets a kswapd that has given up try again, after a drain has lifted a zone of its node above the high watermark:
    /// requests may have gone to a further node, and then no request reclaims here.
    pub(super) fn clear_hopeless_after_drain(&self, node: NodeId) {
        let mut further = (node.0 + 1..self.nodes()).map(NodeId);
        if further.any(|other| self.populated_up_to(other, ZoneKind::Movable).next().is_some()) {
            self.node(node).kswapd.clear_hopeless();
        }
    }

    fn begin_run(&self, node: NodeId) -> KswapdRun {
        let kswapd = &self.node(node).kswapd;
        let idle = Errand { order: Order::ZERO, highest: kswapd.run.highest() };
        let errand = kswapd.errands.take().unwrap_or(idle);
        self.report(Event::KswapdRun { node });
        let mut boosts = [0; ZoneKind::COUNT];
        for zone in self.managed_up_to(node, errand.highest) {
            boosts[zone.kind().index()] = zone.boost();
            zone.set(ZoneFlag::ReclaimActive);
        }
        let boost_left = boosts.iter().sum();
        KswapdRun { errand, order: errand.order, priority: reclaim::PRIORITY_FIRST, freed: 0, boost_left, boosts }
    }

    /// Reclaims once at the run's priority, and chooses the next priority. linux: mm/vmscan.c:balance_pgdat
    fn balance_pgdat_pass(&self, node: NodeId, run: &mut KswapdRun) -> Pass {
        let balanced = self.pgdat_balanced(node, run.order, run.errand.highest);
        if balanced && run.boost_left == 0 {
            return Pass::Balanced;
        }
        if !balanced && run.boost_left > 0 {
            // There is worse than a boost: the run begins anew, without regard to it.
            run.boost_left = 0;
            run.priority = reclaim::PRIORITY_FIRST;
        }
        let gentle = run.boost_left > 0 && run.priority == BOOST_PRIORITY_MIN;
        let mut wanted = self.kswapd_reclaim(node, run);
        if run.priority == reclaim::PRIORITY_FIRST {
            run.priority = self.initial_priority(&wanted);
            wanted.priority = run.priority;
        }
        let found = self.shrink_node(&wanted);
        run.freed += found.pages;
        run.boost_left = run.boost_left.saturating_sub(found.pages);
        if run.order > Order::ZERO && run.freed >= gap(run.order) {
            run.order = Order::ZERO;
        }
        if run.boost_left > 0 && found.pages == 0 {
            return Pass::Exhausted;
        }
        run.priority -= u8::from(found.pages == 0 || !(gentle || is_enough(found, wanted.goal)));
        if run.priority == 0 { Pass::Exhausted } else { Pass::Again }
    }

    /// Returns what kswapd asks the platform for: as many pages as would bring every zone to its high watermark, if
    /// none were free.
    fn kswapd_reclaim(&self, node: NodeId, run: &KswapdRun) -> Reclaim {
        let KswapdRun { errand: Errand { highest, .. }, order, priority, .. } = *run;
        let zones = self.managed_up_to(node, highest);
        let goal = zones.map(|zone| zone.mark(AllocFlags::WMARK_HIGH).max(Reclaim::CLUSTER)).sum();
        Reclaim { node, highest, goal, order, priority, by: Reclaimer::Kswapd, gfp: Gfp::KERNEL }
    }

    /// After a run: boosts are worked off, and kswapd sleeps if the node is balanced, or it has given up.
    fn end_run(&self, node: NodeId, run: &KswapdRun) -> Background {
        let kswapd = &self.node(node).kswapd;
        let highest = run.errand.highest;
        self.managed_up_to(node, highest).for_each(|zone| _ = zone.clear(ZoneFlag::ReclaimActive));
        if run.boosts.iter().any(|&boost| boost > 0) {
            for zone in self.managed_up_to(node, highest) {
                // Boosts are raised under the zone's lock.
                let locked = self.lock_zone(zone);
                locked.zone.lower_boost(run.boosts[zone.kind().index()]);
            }
            self.wakeup_kcompactd(node, self.map.pageblock_order(), highest);
        }
        kswapd.run.end(highest);
        // A request that was turned down meanwhile waits for the next run; what this one gave up is not asked for
        // again.
        let gave_up_order = run.order < run.errand.order;
        let next = kswapd.errands.look().unwrap_or(Errand { order: Order::ZERO, highest });
        let (for_whom, order, highest) =
            if gave_up_order { (run.errand.order, run.order, highest) } else { (next.order, next.order, next.highest) };
        if !kswapd.is_hopeless() && !self.pgdat_balanced(node, order, highest) {
            return Background::Working;
        }
        if self.spares_busy_nodes() {
            self.populated_up_to(node, ZoneKind::Movable).for_each(|zone| _ = zone.clear(ZoneFlag::NodeBusy));
        }
        self.reset_isolation_suitable(node);
        self.wakeup_kcompactd(node, for_whom, highest);
        // A wake that comes in this very moment is lost; the next request that finds too little repeats it.
        Background::Asleep
    }

    /// Whether some zone up to `highest` could give a block of `order` above its high watermark, boost included.
    /// linux: mm/vmscan.c:pgdat_balanced
    pub(super) fn pgdat_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        let mut zones = self.managed_up_to(node, highest).peekable();
        zones.peek().is_none()
            || zones
                .any(|zone| zone.watermark_ok(order, zone.mark(AllocFlags::WMARK_HIGH), highest, AllocFlags::empty()))
    }

    /// Whether a zone up to `highest` has a boosted watermark. linux: mm/vmscan.c:pgdat_watermark_boosted
    fn pgdat_watermark_boosted(&self, node: NodeId, highest: ZoneKind) -> bool {
        self.managed_up_to(node, highest).any(|zone| zone.boost() > 0)
    }
}

/// Whether a pass saw so much that the next one need not be more urgent.
fn is_enough(found: Reclaimed, goal: u64) -> bool {
    found.pages.max(found.scanned) >= goal
}
