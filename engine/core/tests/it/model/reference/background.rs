//! kswapd and kcompactd: the end of rule 9, pass by pass.

use freehold::base::{Gfp, NodeId, Order, ZoneKind};
use freehold::platform::{Reclaim, Reclaimer};
use freehold::policy::flags::AllocFlags;
use freehold::policy::kswapd::{BoostRuns, Hope};

use super::{Call, Reference};
use crate::model::runner::Sabotage;

/// State of a node's background tasks.
#[derive(Default)]
pub(crate) struct Node {
    kswapd_awake: bool,
    /// Order and highest zone that were requested of kswapd.
    kswapd_errand: Option<(u8, ZoneKind)>,
    run: Option<Run>,
    last_highest: Option<ZoneKind>,
    /// Runs of kswapd without success since the last reset.
    pub failures: u32,
    kcompactd_awake: bool,
    kcompactd_errand: Option<(u8, ZoneKind)>,
    /// Ticks until kcompactd runs proactively again.
    ticks: u32,
}

/// A run of kswapd.
struct Run {
    asked: u8,
    order: u8,
    highest: ZoneKind,
    priority: u8,
    freed: i64,
    boost_left: i64,
    /// Boosts at the start of the run, by zone.
    boosts: Vec<(usize, i64)>,
}

impl Reference {
    pub(crate) fn zones_of(&self, node: u8, highest: ZoneKind) -> Vec<usize> {
        let zones = self.zones.iter().filter(|zone| zone.node.0 == node && zone.kind <= highest && zone.populated);
        zones.map(|zone| zone.index).collect()
    }

    pub(crate) fn managed_of(&self, node: u8, highest: ZoneKind) -> Vec<usize> {
        self.zones_of(node, highest).into_iter().filter(|&zone| self.zones[zone].managed > 0).collect()
    }

    pub(crate) fn is_busy(&self, node: NodeId) -> bool {
        self.nodes[usize::from(node.0)].kswapd_awake
    }

    /// Resets kswapd's failures after reclaim has freed pages of a node.
    pub(crate) fn hope_after_reclaim(&mut self, node: u8, order: u8, highest: ZoneKind) {
        if self.rules.kswapd.hope != Hope::Balance || self.is_balanced(node, order, highest) {
            self.nodes[usize::from(node)].failures = 0;
        }
    }

    /// Resets kswapd's failures after a drain has lifted a zone of a node above its high watermark.
    pub(crate) fn hope_after_drain(&mut self, node: u8) {
        let has_successor = self.zones.iter().any(|zone| zone.node.0 > node && zone.populated);
        if self.rules.kswapd.hope != Hope::Reclaim && has_successor {
            self.nodes[usize::from(node)].failures = 0;
        }
    }

    fn is_balanced(&self, node: u8, order: u8, highest: ZoneKind) -> bool {
        let zones = self.managed_of(node, highest);
        zones.is_empty()
            || zones.into_iter().any(|zone| {
                let zone = &self.zones[zone];
                zone.watermark_ok(order, zone.high + zone.boost, highest, AllocFlags::empty(), 0)
            })
    }

    /// Wakes kswapd if necessary. Returns whether it is awake afterwards.
    pub(crate) fn wake_kswapd(&mut self, node: NodeId, highest: ZoneKind, order: u8) -> bool {
        let boosted = self.managed_of(node.0, highest).into_iter().any(|zone| self.zones[zone].boost > 0);
        let idle = self.is_balanced(node.0, order, highest) && !boosted;
        let state = &mut self.nodes[usize::from(node.0)];
        let (larger, higher) = state.kswapd_errand.unwrap_or((order, highest));
        state.kswapd_errand = Some((larger.max(order), higher.max(highest)));
        if state.kswapd_awake {
            return true;
        }
        if idle || state.failures >= 16 {
            return false;
        }
        state.kswapd_awake = true;
        self.expect_call(&Call::Kswapd(node));
        true
    }

    pub(crate) fn wake_kcompactd(&mut self, node: NodeId, highest: ZoneKind, order: u8) {
        if order == 0 {
            return;
        }
        let state = &mut self.nodes[usize::from(node.0)];
        let (larger, lower) = state.kcompactd_errand.unwrap_or((order, highest));
        let (order, highest) = (larger.max(order), lower.min(highest));
        state.kcompactd_errand = Some((order, highest));
        if state.kcompactd_awake {
            return;
        }
        let suits = self.managed_of(node.0, highest).into_iter().any(|zone| {
            let zone = &self.zones[zone];
            !zone.watermark_ok(order, zone.min + zone.boost, highest, AllocFlags::empty(), 0)
                && zone.is_suitable(order, highest)
        });
        if suits {
            self.rouse_kcompactd(node);
        }
    }

    fn rouse_kcompactd(&mut self, node: NodeId) {
        let awake = &mut self.nodes[usize::from(node.0)].kcompactd_awake;
        if !std::mem::replace(awake, true) {
            self.expect_call(&Call::Kcompactd(node));
        }
    }

    /// Runs one pass. Returns whether kswapd is still awake.
    pub(crate) fn run_kswapd(&mut self, node: NodeId) -> bool {
        let index = usize::from(node.0);
        if !self.nodes[index].kswapd_awake {
            return false;
        }
        let mut run = match self.nodes[index].run.take() {
            Some(run) => run,
            None => self.begin_run(node),
        };
        let balanced = self.is_balanced(node.0, run.order, run.highest);
        if balanced && run.boost_left == 0 {
            return self.end_run(node, run);
        }
        if !balanced && run.boost_left > 0 {
            (run.boost_left, run.priority) = (0, 12);
        }
        let mut raises = !(run.boost_left > 0 && run.priority == 10);
        let zones = self.managed_of(node.0, run.highest);
        let goal: i64 = zones.into_iter().map(|zone| (self.zones[zone].high + self.zones[zone].boost).max(32)).sum();
        let (by, gfp) = (Reclaimer::Kswapd, Gfp::KERNEL);
        let Run { highest, priority, .. } = run;
        let order = Order::new(run.order);
        let (pages, scanned) = self.shrink_node(Reclaim { node, highest, goal: goal as u64, order, priority, by, gfp });
        raises &= pages.max(scanned) < goal;
        run.freed += pages;
        run.boost_left = (run.boost_left - pages).max(0);
        if run.freed >= 2 << run.order {
            run.order = 0;
        }
        let stuck = run.boost_left > 0 && pages == 0;
        if !stuck && (raises || pages == 0) {
            run.priority -= 1;
        }
        if !stuck && run.priority > 0 {
            self.nodes[index].run = Some(run);
            return true;
        }
        let excused = self.rules.kswapd.boosts == BoostRuns::Excused && run.boosts.iter().any(|&(_, boost)| boost > 0);
        if run.freed == 0 && !excused {
            self.nodes[index].failures += 1;
        }
        self.end_run(node, run)
    }

    fn begin_run(&mut self, node: NodeId) -> Run {
        self.tally.pageoutrun += 1;
        let state = &mut self.nodes[usize::from(node.0)];
        let last = state.last_highest.unwrap_or(ZoneKind::Movable);
        let (order, highest) = state.kswapd_errand.take().unwrap_or((0, last));
        let zones = self.managed_of(node.0, highest);
        let boosts: Vec<_> = zones.into_iter().map(|zone| (zone, self.zones[zone].boost)).collect();
        boosts.iter().for_each(|&(zone, _)| self.zones[zone].reclaim_active = true);
        let boost_left = boosts.iter().map(|&(_, boost)| boost).sum();
        Run { asked: order, order, highest, priority: 12, freed: 0, boost_left, boosts }
    }

    fn end_run(&mut self, node: NodeId, run: Run) -> bool {
        let index = usize::from(node.0);
        for &(zone, boost) in &run.boosts {
            self.zones[zone].reclaim_active = false;
            let worked_off = if self.mistake == Sabotage::KeepBoost { 0 } else { boost };
            self.zones[zone].boost = (self.zones[zone].boost - worked_off).max(0);
        }
        if run.boosts.iter().any(|&(_, boost)| boost > 0) {
            self.wake_kcompactd(node, run.highest, self.map.block);
        }
        self.nodes[index].last_highest = Some(run.highest);
        let (asked, order, highest) = if run.order < run.asked {
            (run.asked, run.order, run.highest)
        } else {
            let (order, highest) = self.nodes[index].kswapd_errand.unwrap_or((0, run.highest));
            (order, order, highest)
        };
        if self.nodes[index].failures < 16 && !self.is_balanced(node.0, order, highest) {
            return true;
        }
        for zone in self.zones_of(node.0, ZoneKind::Movable) {
            self.zones[zone].look_over_hints(&mut self.map);
        }
        self.wake_kcompactd(node, highest, asked);
        self.nodes[index].kswapd_awake = false;
        false
    }

    /// Runs kcompactd once. Returns whether it is still awake.
    pub(crate) fn run_kcompactd(&mut self, node: NodeId) -> bool {
        let index = usize::from(node.0);
        if !std::mem::take(&mut self.nodes[index].kcompactd_awake) {
            return false;
        }
        if let Some((order, highest)) = self.nodes[index].kcompactd_errand {
            self.tally.compact_daemon_wake += 1;
            self.compact_node_for(node.0, order, highest);
        }
        // With a single thread, no request can wake kcompactd while it runs.
        self.nodes[index].kcompactd_errand = None;
        self.nodes[index].ticks = 0;
        false
    }

    /// Runs the work of kcompactd's timer.
    pub(crate) fn tick(&mut self, node: NodeId) {
        self.give_back_reserve(node);
        let index = usize::from(node.0);
        if self.nodes[index].kcompactd_errand.is_some() {
            self.rouse_kcompactd(node);
            return;
        }
        if self.nodes[index].ticks > 0 {
            self.nodes[index].ticks -= 1;
            return;
        }
        let before = self.score(node.0);
        if self.nodes[index].kswapd_awake || self.nodes[index].kcompactd_awake || before <= 90 {
            return;
        }
        self.compact_node_unasked(node.0);
        if self.score(node.0) >= before {
            self.nodes[index].ticks = 63;
        }
    }
}
