//! The second pass: every event, in order, through the engine.
//!
//! An allocation is asked of the engine on the CPU that the recorded task ran on; a free is given to the block that stands
//! for the recorded one. Where the two part, the recording's story goes on: a recorded failure is attempted,
//! counted, and freed at once if it succeeds; a recorded success that fails is made up of single pages. Whatever does not
//! fit is counted by its reason.

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State};
use freehold::page::{AllocError, Mobility, ZoneFlag, has_pcp_list};
use freehold::platform::Task;
use freehold_trace::event::{NO_PFN, Section};
use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Reader, Row};

use super::identity::Identity;
use super::survey::{Place, Silent, Survey};
use super::{Engine, Options, ProbeCounts};
use crate::error::Error;

/// Nanoseconds between two ticks of the per-CPU lists' decay: on all CPUs at nearly the same moment, since the kernel rounds
/// it to whole seconds of its own clock. linux: mm/vmstat.c:vmstat_update
const TICK: u64 = 1_000_000_000;

/// What could not be played as it stands, by reason, and what was found on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that the engine refused, recorded failures among them.
    pub failed: u64,
    /// Recorded failures among them.
    pub failed_in_both: u64,
    /// Recorded successes served below the watermark, where only reclaim could have helped.
    pub below_watermark: u64,
    /// Recorded failures that the engine could serve.
    pub failures_served: u64,
    /// Recorded successes made up of single pages.
    pub made_up: u64,
    /// Blocks that left the free lists for that.
    pub made_up_blocks: u64,
    /// Pages for which not even a single page could be had.
    pub unbacked: u64,
    /// Frees of blocks that were allocated on another CPU, while the recording ran.
    pub cross_cpu_frees: u64,
    /// Allocations without an event, placed by rule.
    pub silent_allocs: u64,
    /// Frees without an event, shown by a later allocation of the same frame.
    pub silent_frees: u64,
    /// Events on frames that nothing stands on: in no zone of the recording, or pages that could not be backed.
    pub outside: u64,
    /// Frees of frames that became memory while the recording ran.
    pub appeared: u64,
    /// Frees that the engine refused.
    pub refused_frees: u64,
    /// Drains that reclaim or compaction asked for: each empties a CPU's lists, or all of them.
    pub drains_asked_for: u64,
    /// Blocks that were freed in parts.
    pub splits: u64,
    /// Requests with flags that contradict each other, or of an order above 10.
    pub impossible: u64,
}

/// The pass while it runs.
pub struct Player<'e, 'm> {
    engine: &'e Engine<'m>,
    identity: Identity,
    silent: std::iter::Peekable<std::slice::Iter<'e, Silent>>,
    options: Options,
    tally: Tally,
    row: u64,
    next_tick: u64,
    /// Boost of each zone when kswapd woke.
    boosts: Vec<u64>,
    /// Tasks that compact.
    compactors: Vec<u32>,
    /// For each recorded CPU, its last event.
    last: Vec<Option<(Kind, u32)>>,
    /// For each recorded CPU, whether its last event before any drains was a free that fills a list.
    follows_free: Vec<bool>,
}

impl<'e, 'm> Player<'e, 'm> {
    /// A player at the start of the recording; everything allocated stands for itself.
    pub fn new(engine: &'e Engine<'m>, facts: &Facts, survey: &'e Survey, options: Options) -> Player<'e, 'm> {
        let mut identity = Identity::new(survey.end);
        let heads = survey.owned.iter().map(|owned| (owned.pfn, owned.order));
        for (pfn, order) in heads.chain(survey.untouched.iter().map(|&pfn| (pfn, 0))) {
            if matches!(engine.state(Pfn::new(pfn)), Some(State::Allocated { .. })) {
                identity.set(pfn as usize, Pfn::new(pfn), 1 << order, None);
            }
        }
        Player {
            engine,
            identity,
            silent: survey.silent.iter().peekable(),
            options,
            tally: Tally::default(),
            row: 0,
            next_tick: survey.tick.map_or(TICK, |time| time % TICK),
            boosts: vec![0; engine.zones().len()],
            last: vec![None; usize::from(facts.cpus)],
            compactors: Vec::new(),
            follows_free: vec![false; usize::from(facts.cpus)],
        }
    }

    /// Plays the whole recording.
    pub fn play(&mut self, reader: &Reader, mut advance: impl FnMut(u64)) -> Result<(), Error> {
        for batch in reader.batches() {
            let batch = batch?;
            for row in batch.rows() {
                self.step(&row);
                self.row += 1;
            }
            advance(batch.len() as u64);
        }
        Ok(())
    }

    /// What was found.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn step(&mut self, row: &Row) {
        while let Some(&silent) = self.silent.next_if(|silent| silent.before <= self.row) {
            self.allocate_silently(silent);
        }
        match row.kind {
            Kind::Alloc => self.allocate(row),
            Kind::Free => self.free(row),
            Kind::PcpuDrain => self.drain(row),
            Kind::CompactionBegin => self.compactors.push(row.task),
            Kind::CompactionEnd => self.compactors.retain(|&task| task != row.task),
            Kind::KswapdWake => self.kswapd_wakes(row),
            Kind::KswapdSleep => self.kswapd_sleeps(row),
            _ => {}
        }
        if row.kind.section() == Section::Events {
            let cpu = usize::from(row.cpu);
            if row.kind != Kind::PcpuDrain {
                self.follows_free[cpu] = self.fills_list(row);
            }
            self.last[cpu] = Some((row.kind, row.task));
            self.tick(row.time);
        }
    }

    /// The CPU on which an event is played.
    fn cpu_of(&self, row: &Row) -> CpuId {
        match self.options.cpus {
            None => CpuId(row.cpu),
            // Neighbouring tasks end up on different CPUs; events of no task stay apart by their recorded CPU.
            Some(cpus) if row.task == 0 => CpuId(row.cpu % cpus.get()),
            Some(cpus) => CpuId((row.task.wrapping_mul(0x9e37_79b1) % u32::from(cpus.get())) as u16),
        }
    }

    fn allocate(&mut self, row: &Row) {
        let cpu = self.cpu_of(row);
        self.engine.platform().run_on(cpu);
        let gfp = Gfp::from_bits_retain(row.gfp);
        let possible = gfp.migratetype().is_some() && gfp.highest_zone().is_some();
        let (Some(order), true) = (Order::from_u8(row.order), possible) else {
            self.tally.impossible += 1;
            return;
        };
        if row.pfn == NO_PFN {
            return self.attempt(gfp, order);
        }
        let (recorded, pages) = (row.pfn as usize, order.pages() as usize);
        if !self.identity.covers(recorded, pages) {
            self.tally.outside += 1;
            return;
        }
        self.free_leftovers(recorded, pages);
        match self.engine.alloc_pages(gfp, order).or_else(|_| self.alloc_below_watermark(gfp, order)) {
            Ok(pfn) => self.identity.set(recorded, pfn, pages, Some(cpu)),
            Err(_) => {
                self.tally.failed += 1;
                self.make_up(recorded, pages, gfp, cpu);
            }
        }
    }

    /// A recorded success that the engine refuses, once more without watermarks if the request might have reclaimed. Reclaim is
    /// played as recorded and cannot answer to what is short here; the recorded kernel's did. What still fails, fails for
    /// want of a block.
    fn alloc_below_watermark(&mut self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if !gfp.contains(Gfp::DIRECT_RECLAIM) {
            return Err(AllocError::OutOfMemory);
        }
        self.engine.platform().run_as(Task { memalloc: true, ..Task::default() });
        let served = self.engine.alloc_pages(gfp - Gfp::NOMEMALLOC, order);
        self.engine.platform().run_as(Task::default());
        self.tally.below_watermark += u64::from(served.is_ok());
        served
    }

    /// A request that failed in the recording.
    fn attempt(&mut self, gfp: Gfp, order: Order) {
        match self.engine.alloc_pages(gfp, order) {
            Ok(pfn) => {
                self.tally.failures_served += 1;
                self.give_back(pfn, order);
            }
            Err(_) => {
                self.tally.failed += 1;
                self.tally.failed_in_both += 1;
            }
        }
    }

    /// Single pages instead of a block that the engine could not give.
    fn make_up(&mut self, recorded: usize, pages: usize, gfp: Gfp, cpu: CpuId) {
        self.tally.made_up += 1;
        let taken = self.blocks_taken();
        for frame in recorded..recorded + pages {
            match self.engine.alloc_pages(gfp - Gfp::COMP, Order::ZERO) {
                Ok(pfn) => self.identity.set(frame, pfn, 1, Some(cpu)),
                Err(_) => self.tally.unbacked += 1,
            }
        }
        self.tally.made_up_blocks += self.blocks_taken() - taken;
    }

    fn blocks_taken(&self) -> u64 {
        self.engine.platform().probe_counts().zone_locked_blocks
    }

    /// Frees what still stands on frames that are being allocated anew.
    fn free_leftovers(&mut self, recorded: usize, pages: usize) {
        for frame in recorded..recorded + pages {
            if self.identity.get(frame).is_some() {
                self.tally.silent_frees += 1;
                self.free_page(frame);
            }
        }
    }

    fn allocate_silently(&mut self, silent: Silent) {
        let (recorded, pages) = (silent.pfn as usize, 1_usize << silent.order);
        let Some(order) = Order::from_u8(silent.order) else { return };
        if self.identity.get(recorded).is_some() {
            return;
        }
        let cpu = CpuId(silent.cpu % self.engine.cpus());
        self.engine.platform().run_on(cpu);
        self.tally.silent_allocs += 1;
        match self.silent_block(silent, order) {
            Some(pfn) => self.identity.set(recorded, pfn, pages, Some(cpu)),
            None => self.tally.unbacked += pages as u64,
        }
    }

    /// The target of a migration comes straight from the free lists: the recorded frame itself, if that
    /// is free here too, else another of the zone.
    fn silent_block(&self, silent: Silent, order: Order) -> Option<Pfn> {
        let recorded = Pfn::new(silent.pfn);
        if silent.place == Place::PercpuList {
            return self.engine.alloc_pages(Gfp::KERNEL | Gfp::HIGHMEM, order).ok();
        }
        let gfp = Gfp::HIGHUSER_MOVABLE;
        if self.engine.isolate_free_page(recorded, order, gfp) == Ok(true) {
            return Some(recorded);
        }
        let near = self.engine.isolate_free_page_near(recorded, order, gfp);
        near.or_else(|| self.engine.alloc_pages(gfp, order).ok())
    }

    fn free(&mut self, row: &Row) {
        let cpu = self.cpu_of(row);
        self.engine.platform().run_on(cpu);
        let Some(order) = Order::from_u8(row.order) else {
            self.tally.impossible += 1;
            return;
        };
        let (recorded, pages) = (row.pfn as usize, order.pages() as usize);
        let Some(entry) = self.identity.get(recorded) else { return self.free_unknown(row, order) };
        if entry.cpu.is_some_and(|allocated_on| allocated_on != cpu) {
            self.tally.cross_cpu_frees += 1;
        }
        match self.engine.allocated_block(entry.pfn) {
            Some((head, found)) if found >= order && entry.pfn.is_aligned(order) => {
                self.cut(head, found, order);
                self.give_back(entry.pfn, order);
                self.identity.clear(recorded, pages);
            }
            // Several blocks of the engine stand for this one.
            _ => (recorded..recorded + pages).for_each(|frame| self.free_page(frame)),
        }
    }

    /// Frees what one recorded frame stands for.
    fn free_page(&mut self, frame: usize) {
        let Some(entry) = self.identity.get(frame) else { return };
        if let Some((head, found)) = self.engine.allocated_block(entry.pfn) {
            self.cut(head, found, Order::ZERO);
            self.give_back(entry.pfn, Order::ZERO);
        }
        self.identity.clear(frame, 1);
    }

    /// Cuts a block that is freed in parts.
    fn cut(&mut self, head: Pfn, found: Order, order: Order) {
        if found > order && self.engine.split_compound(head, found, order).is_ok() {
            self.tally.splits += 1;
        }
    }

    fn give_back(&mut self, pfn: Pfn, order: Order) {
        if self.engine.free_pages(pfn, order).is_err() {
            self.tally.refused_frees += 1;
        }
    }

    /// A free of a frame that nothing stands on. If the frame is Reserved, it is memory that came in while the recording ran;
    /// else it is a page that could not be backed, or is in no zone.
    fn free_unknown(&mut self, row: &Row, order: Order) {
        let pfn = u32::try_from(row.pfn).ok().map(Pfn::new);
        let reserved = pfn.filter(|&pfn| self.engine.state(pfn) == Some(State::Reserved));
        match reserved {
            Some(pfn) if self.engine.adopt(pfn, order, Mobility::Fixed).is_ok() => {
                self.tally.appeared += 1;
                self.give_back(pfn, order);
            }
            _ => self.tally.outside += 1,
        }
    }

    /// Whether an event is a free that may fill a per-CPU list, and so set a drain off.
    fn fills_list(&self, row: &Row) -> bool {
        let pageblock_order = self.engine.map().pageblock_order();
        row.kind == Kind::Free && Order::from_u8(row.order).is_some_and(|order| has_pcp_list(order, pageblock_order))
    }

    /// A block that the recorded kernel drained. Two kinds of drain are what reclaim and compaction did, and are played as
    /// recorded; all others are the policy's. A task that comes out of direct reclaim and still finds no block empties every
    /// CPU's lists; one that compacts empties its own CPU's lists of the zone, where no free set the drain off.
    /// linux: drain_all_pages, mm/compaction.c:compact_zone
    fn drain(&mut self, row: &Row) {
        if self.last[usize::from(row.cpu)] == Some((Kind::DirectReclaimEnd, row.task)) {
            self.tally.drains_asked_for += 1;
            return self.engine.drain_all();
        }
        let Some(pfn) = u32::try_from(row.pfn).ok().map(Pfn::new) else { return };
        let asked = self.compactors.contains(&row.task) && !self.follows_free[usize::from(row.cpu)];
        if !asked || self.engine.state(pfn).is_none() {
            return;
        }
        let zone = usize::from(self.engine.map().pageblock(pfn).zone());
        if let Some(zone) = self.engine.zones().get(zone) {
            self.tally.drains_asked_for += u64::from(self.last[usize::from(row.cpu)] != Some((row.kind, row.task)));
            self.engine.drain_pcp(self.cpu_of(row), zone);
        }
    }

    fn zones_of(
        &self,
        row: &Row,
    ) -> impl Iterator<Item = &'m freehold::page::Zone<freehold::base::lock::SoloLock>> + use<'m> {
        let node = NodeId(row.args[0].clamp(0, 62) as u8);
        self.engine.zones().iter().filter(move |zone| zone.node() == node && zone.is_populated())
    }

    /// A run of kswapd begins; if it was awake, its last run has ended. linux: mm/vmscan.c:kswapd
    fn kswapd_wakes(&mut self, row: &Row) {
        self.kswapd_sleeps(row);
        for zone in self.zones_of(row) {
            zone.set(ZoneFlag::ReclaimActive);
            self.boosts[zone.index()] = zone.boost();
        }
    }

    fn kswapd_sleeps(&mut self, row: &Row) {
        for zone in self.zones_of(row) {
            zone.clear(ZoneFlag::ReclaimActive);
            zone.lower_boost(std::mem::take(&mut self.boosts[zone.index()]));
        }
    }

    /// Lets per-CPU lists shrink, once a second of recorded time.
    fn tick(&mut self, time: u64) {
        while self.next_tick <= time {
            self.next_tick += TICK;
            for zone in self.engine.zones().iter().filter(|zone| zone.is_populated()) {
                for cpu in self.engine.cpu_ids() {
                    self.engine.decay_pcp(cpu, zone);
                }
            }
        }
    }
}
