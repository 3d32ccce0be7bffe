//! Reclaim and compaction played as recorded: what they did besides freeing pages.
//!
//! Their frees and the targets of their migrations are played like all others. What remains are the drains of per-CPU
//! lists that they asked for, and the marks that kswapd leaves on zones.

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, NodeId, Order, Pfn};
use freehold::page::{Background, Zone, has_pcp_list};
use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Row};

use super::super::Engine;

/// What is known of the recorded tasks and CPUs.
#[derive(Debug)]
pub(crate) struct RecordedReclaim<'e, 'm> {
    engine: &'e Engine<'m>,
    /// Boost of each zone when kswapd woke.
    boosts: Vec<u64>,
    /// Tasks that compact.
    compactors: Vec<u32>,
    /// For each recorded CPU, its last event.
    last: Vec<Option<(Kind, u32)>>,
    /// For each recorded CPU, whether its last event before any drains was a free that fills a list.
    follows_free: Vec<bool>,
    /// Drains that were asked for.
    drains: u64,
}

impl<'e, 'm> RecordedReclaim<'e, 'm> {
    /// Nobody compacts, kswapd sleeps.
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

    /// Drains that were asked for.
    pub(crate) fn drains(&self) -> u64 {
        self.drains
    }

    /// Plays an event, if it is one of these; `cpu` is where events of its task are played.
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

    /// Whether an event is a free that may fill a per-CPU list, and so set a drain off.
    fn fills_list(&self, row: &Row) -> bool {
        let pageblock_order = self.engine.map().pageblock_order();
        row.kind == Kind::Free && Order::from_u8(row.order).is_some_and(|order| has_pcp_list(order, pageblock_order))
    }

    /// A block that the recorded kernel drained. Two kinds of drain are what reclaim and compaction did, and are played
    /// as recorded; all others are the policy's. A task that comes out of direct reclaim and still finds no block
    /// empties every CPU's lists; one that compacts empties its own CPU's lists of the zone, where no free set the
    /// drain off. linux: drain_all_pages, mm/compaction.c:compact_zone
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

    /// A run of kswapd begins; if it was awake, its last run has ended. linux: mm/vmscan.c:kswapd
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
