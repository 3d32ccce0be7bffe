//! kswapd: reclaim in the background, as a state machine that the platform drives.
//!
//! A request that finds no zone above its low watermark wakes, if its flags allow it, the kswapd of each node that it
//! may use and on which kswapd has work: no zone can serve the request above its high watermark, or a watermark was
//! boosted. A request whose zone was boosted wakes it too. The platform then calls
//! [`run_kswapd`](PageAllocator::run_kswapd), in a task of its own, until it returns [`Background::Asleep`].
//!
//! ```text
//! run    one errand: an order and a highest zone       starts at priority 12
//! pass   one call: reclaims once at one priority       the next pass is more urgent if it freed too little
//! end    balanced, or all priorities down to 1 tried   after 16 failed runs kswapd gives up (see policy/kswapd)
//! sleep  if the node is balanced or kswapd has given up: kcompactd is woken to make blocks of the freed pages
//! ```
//!
//! A run that has freed twice the size of the requested block continues for single pages, and leaves the rest to
//! compaction. A run for a boost alone is gentle: its priority stays at 10 or above, and it ends as soon as a pass
//! frees nothing. Cost of a pass, in addition to the platform's: a few loads per zone.
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

/// Most urgent priority of a run for a boost alone.
const BOOST_PRIORITY_MIN: u8 = reclaim::PRIORITY_FIRST - 2;

/// Result of a request for background reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// kswapd is awake and has the errand.
    Awake,
    /// kswapd has no work on the node, or has given up.
    Needless,
}

/// Result of one pass of kswapd.
enum Pass {
    /// The node is not balanced yet.
    Again,
    /// The node is balanced, and no boost remains.
    Balanced,
    /// The node is not balanced, and this run can do no more.
    Exhausted,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Marks the start or the end of work on a zone by a kswapd that is not driven here, such as the kswapd of a
    /// recording.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn note_kswapd(&self, node: NodeId, kind: ZoneKind, now: Background) {
        match now {
            Background::Working => self.zone(node, kind).set(ZoneFlag::ReclaimActive),
            Background::Asleep => _ = self.zone(node, kind).clear(ZoneFlag::ReclaimActive),
        }
    }

    /// Lowers a zone's boost by `pages`, after a kswapd that is not driven here has reclaimed for it.
    /// linux: mm/vmscan.c:balance_pgdat
    ///
    /// # Panics
    /// If there is no such node.
    pub fn note_boost_worked_off(&self, node: NodeId, kind: ZoneKind, pages: u64) {
        self.zone(node, kind).lower_boost(pages);
    }

    /// Does one pass of kswapd over a node. Must be called after [`Platform::wake_kswapd`] until it returns
    /// [`Background::Asleep`].
    ///
    /// May be called at any time: it returns that value if kswapd was not woken, or if another CPU drives it.
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

    /// Requests background reclaim on a node, for a block of `order` in zones up to `highest`. The errand is kept for
    /// the next run even if kswapd is not woken. linux: mm/vmscan.c:wakeup_kswapd
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

    /// Returns whether requests skip a node while its kswapd is awake, unless no other node can serve them: the policy
    /// requires it, and there are several nodes.
    #[inline]
    pub(super) fn spares_busy_nodes(&self) -> bool {
        self.rules().kswapd.nodes == BusyNodes::Spared && self.nodes() > 1
    }

    /// Lets a kswapd that has given up try again after a drain has lifted a zone of its node above the high watermark.
    /// Does so only if a node with a higher number has memory: requests may have moved there, so that no request
    /// reclaims on this node.
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

    /// Reclaims once at the run's priority, then chooses the next priority. linux: mm/vmscan.c:balance_pgdat
    fn balance_pgdat_pass(&self, node: NodeId, run: &mut KswapdRun) -> Pass {
        let balanced = self.pgdat_balanced(node, run.order, run.errand.highest);
        if balanced && run.boost_left == 0 {
            return Pass::Balanced;
        }
        if !balanced && run.boost_left > 0 {
            // An unbalanced node matters more than a boost, so the run restarts without regard to the boost.
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

    /// Returns the reclaim request of kswapd. Its goal is the sum of the zones' high watermarks, with at least one
    /// cluster per zone: as many pages as would lift every zone to its high watermark if no page were free.
    fn kswapd_reclaim(&self, node: NodeId, run: &KswapdRun) -> Reclaim {
        let KswapdRun { errand: Errand { highest, .. }, order, priority, .. } = *run;
        let zones = self.managed_up_to(node, highest);
        let goal = zones.map(|zone| zone.mark(AllocFlags::WMARK_HIGH).max(Reclaim::CLUSTER)).sum();
        Reclaim { node, highest, goal, order, priority, by: Reclaimer::Kswapd, gfp: Gfp::KERNEL }
    }

    /// Ends a run: lowers the boosts that the run started with and, if there were any, wakes kcompactd. kswapd sleeps
    /// if the node is balanced or kswapd has given up, and wakes kcompactd before it sleeps; otherwise the next run
    /// begins.
    fn end_run(&self, node: NodeId, run: &KswapdRun) -> Background {
        let kswapd = &self.node(node).kswapd;
        let highest = run.errand.highest;
        self.managed_up_to(node, highest).for_each(|zone| _ = zone.clear(ZoneFlag::ReclaimActive));
        if run.boosts.iter().any(|&boost| boost > 0) {
            for zone in self.managed_up_to(node, highest) {
                // Boosts are raised under the zone's lock, so they are lowered under it too.
                let locked = self.lock_zone(zone);
                locked.zone.lower_boost(run.boosts[zone.kind().index()]);
            }
            self.wakeup_kcompactd(node, self.map.pageblock_order(), highest);
        }
        kswapd.run.end(highest);
        // If the run gave up its order, the node is checked for the reduced order only, because the original order is
        // not tried again; an errand that was posted meanwhile waits for the next run. Otherwise the node is checked
        // for the pending errand.
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
        // A wakeup between this check and the sleep is lost. The next request that finds too little memory repeats it.
        Background::Asleep
    }

    /// Returns whether some zone up to `highest` can serve a block of `order` above its high watermark, boost included,
    /// or no such zone manages pages. linux: mm/vmscan.c:pgdat_balanced
    pub(super) fn pgdat_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        let mut zones = self.managed_up_to(node, highest).peekable();
        zones.peek().is_none()
            || zones
                .any(|zone| zone.watermark_ok(order, zone.mark(AllocFlags::WMARK_HIGH), highest, AllocFlags::empty()))
    }

    /// Returns whether a zone up to `highest` has a boosted watermark. linux: mm/vmscan.c:pgdat_watermark_boosted
    fn pgdat_watermark_boosted(&self, node: NodeId, highest: ZoneKind) -> bool {
        self.managed_up_to(node, highest).any(|zone| zone.boost() > 0)
    }
}

/// Returns whether a pass freed or scanned enough pages that the next pass need not be more urgent.
fn is_enough(found: Reclaimed, goal: u64) -> bool {
    found.pages.max(found.scanned) >= goal
}
