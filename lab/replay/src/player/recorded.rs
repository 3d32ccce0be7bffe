//! Reclaim and compaction played as recorded: their actions besides freeing pages.
//!
//! Their frees and the targets of their migrations are played like all other events. This module handles the drains of
//! per-CPU lists that they requested, and the flags that kswapd sets on zones.

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, NodeId, Order, Pfn};
use freehold::page::{Background, Zone, has_pcp_list};
use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Row};

use super::super::Engine;

/// State of the recorded tasks and CPUs.
#[derive(Debug)]
pub(crate) struct RecordedReclaim<'e, 'm> {
    engine: &'e Engine<'m>,
    /// Boost of each zone when kswapd woke.
    boosts: Vec<u64>,
    /// Tasks that are compacting.
    compactors: Vec<u32>,
    /// Last event of each recorded CPU: its kind and task.
    last: Vec<Option<(Kind, u32)>>,
    /// For each recorded CPU, whether its last event before any drains was a free that fills a list.
    follows_free: Vec<bool>,
    /// Number of requested drains.
    drains: u64,
}

impl<'e, 'm> RecordedReclaim<'e, 'm> {
    /// Creates the state in which no task compacts and kswapd is asleep.
    pub(crate) fn new(engine: &'e Engine<'m>, facts: &Facts) -> RecordedReclaim<'e, 'm> {
        RecordedReclaim {
            engine,
            boosts: vec![0; engine.zones().len()],
            compactors: Vec::new(),
            last: vec![None; usize::from(facts.cpus)],
            follows_free: vec![false; usize::from(facts.cpus)],
            drains: 0,
        }
    }

    /// Returns the number of requested drains.
    pub(crate) fn drains(&self) -> u64 {
        self.drains
    }

    /// Plays an event of reclaim or compaction, and ignores others. `cpu` is the CPU on which events of its task are
    /// played.
    pub(crate) fn play(&mut self, row: &Row, cpu: CpuId) {
        match row.kind {
            Kind::PcpuDrain => self.drain(row, cpu),
            Kind::CompactionBegin => self.compactors.push(row.task),
            Kind::CompactionEnd => self.compactors.retain(|&task| task != row.task),
            Kind::KswapdWake => self.kswapd_wakes(row),
            Kind::KswapdSleep => self.kswapd_sleeps(row),
            _ => {}
        }
        let at = usize::from(row.cpu);
        if row.kind != Kind::PcpuDrain {
            self.follows_free[at] = self.fills_list(row);
        }
        self.last[at] = Some((row.kind, row.task));
    }

    /// Returns whether an event is a free that may fill a per-CPU list, and so trigger a drain.
    fn fills_list(&self, row: &Row) -> bool {
        let pageblock_order = self.engine.map().pageblock_order();
        row.kind == Kind::Free && Order::from_u8(row.order).is_some_and(|order| has_pcp_list(order, pageblock_order))
    }

    /// Handles a block that the recorded kernel drained. Two kinds of drain belong to reclaim and compaction and are
    /// played as recorded; all others follow from the policy. A task that finishes direct reclaim without finding a
    /// block drains the lists of all CPUs. A task that compacts drains its own CPU's lists of the zone, where no free
    /// triggered the drain. linux: drain_all_pages, mm/compaction.c:compact_zone
    fn drain(&mut self, row: &Row, cpu: CpuId) {
        if self.last[usize::from(row.cpu)] == Some((Kind::DirectReclaimEnd, row.task)) {
            self.drains += 1;
            return self.engine.drain_all_pages();
        }
        let Some(pfn) = u32::try_from(row.pfn).ok().map(Pfn::new) else { return };
        let asked = self.compactors.contains(&row.task) && !self.follows_free[usize::from(row.cpu)];
        if !asked || self.engine.state(pfn).is_none() {
            return;
        }
        let zone = usize::from(self.engine.map().pageblock(pfn).zone());
        if let Some(zone) = self.engine.zones().get(zone) {
            self.drains += u64::from(self.last[usize::from(row.cpu)] != Some((row.kind, row.task)));
            self.engine.drain_pages_zone(cpu, zone);
        }
    }

    fn zones_of(&self, row: &Row) -> impl Iterator<Item = &'m Zone<SoloLock>> + use<'m> {
        let node = NodeId(row.args[0].clamp(0, 62) as u8);
        self.engine.zones().iter().filter(move |zone| zone.node() == node && zone.is_populated())
    }

    /// Starts a run of kswapd. If kswapd was awake, its last run ends here. linux: mm/vmscan.c:kswapd
    fn kswapd_wakes(&mut self, row: &Row) {
        self.kswapd_sleeps(row);
        for zone in self.zones_of(row) {
            self.engine.note_kswapd(zone.node(), zone.kind(), Background::Working);
            self.boosts[zone.index()] = zone.boost();
        }
    }

    fn kswapd_sleeps(&mut self, row: &Row) {
        for zone in self.zones_of(row) {
            self.engine.note_kswapd(zone.node(), zone.kind(), Background::Asleep);
            let boost = std::mem::take(&mut self.boosts[zone.index()]);
            self.engine.note_boost_worked_off(zone.node(), zone.kind(), boost);
        }
    }
}
