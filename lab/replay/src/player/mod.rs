//! Second pass of a replay: every event, in order, through the engine.
//!
//! An allocation is requested from the engine on the CPU on which the recorded task ran. A free frees the block that
//! stands for the recorded one. Where the engine and the recorded kernel give different results, the replay continues
//! with the recorded course. A recorded failure is attempted and counted; if it succeeds, the block is kept for its
//! task ([`held`]) or freed at once. A recorded success that fails is made up of single pages. Events that cannot be
//! played are counted by their reason.
//!
//! Reclaim and compaction are either played as recorded ([`recorded`]), or left out and decided by the engine
//! ([`model`]).

mod compaction;
mod explain;
mod failures;
mod held;
mod make_up;
mod model;
mod recorded;
mod serve;
mod tally;
mod together;
mod waiting;

use std::cell::RefMut;
use std::hint::black_box;
use std::ops::Range;

use compaction::ComparisonLog;
use explain::DecisionLog;
use failures::Failures;
use freehold::base::{CpuId, Frame, Gfp, Order, Pfn, State};
use freehold::page::Mobility;
use freehold::stats::Counts;
use freehold_trace::event::NO_PFN;
use freehold_trace::facts::Facts;
use freehold_trace::{Batch, Columns, Kind, Row};
use model::{Cache, ModelReclaim};
use recorded::RecordedReclaim;

use super::divergence::Line;
use super::identity::{Entry, Tenant};
use super::memory::Memory;
use super::moments::Moments;
use super::settings::{HugeRequests, Situation};
use super::survey::{Place, Silent, Stall, Survey, Work};
use super::{Engine, Options, Pacing, ProbeCounts, ReclaimMode};
use crate::report::course::{Course, OutOfMemory};
pub(crate) use tally::Tally;
use together::{Belongs, Neighbours};
use waiting::Claim;

/// Nanoseconds between two decays of the per-CPU lists. They happen on all CPUs at nearly the same time, since the
/// kernel rounds the time to whole seconds of its own clock. linux: mm/vmstat.c:vmstat_update
const TICK: u64 = 1_000_000_000;

/// Nanoseconds without an event after which lists decay no further.
const QUIET_MAX: u64 = 1000 * TICK;

/// Number of events whose memory is read ahead together.
const AHEAD: usize = 16;

/// State of the pass.
pub(crate) struct Player<'e, 'm> {
    engine: &'e Engine<'m>,
    survey: &'e Survey,
    silent: std::iter::Peekable<std::slice::Iter<'e, Silent>>,
    stalls: std::iter::Peekable<std::slice::Iter<'e, Stall>>,
    together: Neighbours<'e>,
    options: Options,
    huge: HugeRequests,
    tally: Tally,
    row: u64,
    /// Time of the current event.
    now: u64,
    next_tick: u64,
    line: Line<'e>,
    moments: Moments,
    decision_log: DecisionLog,
    /// Comparison of decisions about compaction; `None` if it is played as recorded or has no events.
    comparison: Option<ComparisonLog<'e>>,
    failures: Failures,
    /// Time and task of the first request that may reclaim and for which no page was left, and the pages missing since.
    out_of_memory: Option<(u64, u32, u64)>,
    /// The engine's counters at the start.
    at_start: Counts,
    consequences: Consequences<'e, 'm>,
}

/// Treatment of the recorded kernel's reclaim and compaction.
enum Consequences<'e, 'm> {
    Recorded(RecordedReclaim<'e, 'm>),
    Model(Box<ModelReclaim<'e, 'm>>),
}

impl<'e, 'm> Player<'e, 'm> {
    /// Creates a player at the start of the recording. Each allocated frame maps to the engine's frame of the same
    /// number.
    pub(crate) fn new(
        engine: &'e Engine<'m>,
        situation: &Situation<'e>,
        survey: &'e Survey,
        options: Options,
    ) -> Player<'e, 'm> {
        let facts = &situation.facts;
        let player = Player {
            engine,
            survey,
            silent: survey.silent.iter().peekable(),
            stalls: survey.stalls.iter().peekable(),
            together: Neighbours::new(&survey.together, facts.cpus),
            options,
            huge: situation.huge_requests(),
            tally: Tally::default(),
            row: survey.start_rows,
            now: 0,
            line: Line::new(situation.recorded),
            moments: Moments::new(engine, options.watch, facts),
            decision_log: DecisionLog::new(&survey.stalls),
            comparison: match options.reclaim {
                ReclaimMode::Recorded => None,
                ReclaimMode::Model => survey.decisions.as_ref().map(|recorded| ComparisonLog::new(engine, recorded)),
            },
            failures: Failures::default(),
            out_of_memory: None,
            at_start: engine.platform().probe_counts(),
            next_tick: survey.tick.map_or(TICK, |time| time % TICK),
            consequences: match options.reclaim {
                ReclaimMode::Recorded => Consequences::Recorded(RecordedReclaim::new(engine, facts)),
                ReclaimMode::Model => {
                    Consequences::Model(Box::new(ModelReclaim::new(engine, facts, survey, options.pacing)))
                }
            },
        };
        let heads = survey.allocated.iter().flat_map(|owned| owned.heads().map(|pfn| (pfn, owned.order)));
        let mut memory = player.memory();
        for (pfn, order) in heads.chain(survey.untouched.iter().map(|&pfn| (pfn, 0))) {
            if matches!(engine.state(Pfn::new(pfn)), Some(State::Allocated { .. })) {
                memory.identity.start_with(pfn as usize, 1 << order);
            }
        }
        drop(memory);
        player.settle_start();
        player
    }

    /// Plays all events, and then the allocations that only the end state shows.
    pub(crate) fn play(&mut self, events: &Columns, advance: &mut dyn FnMut(u64)) {
        events.walk(|batch| {
            let mut rows = batch.rows();
            for start in (0..batch.len()).step_by(AHEAD) {
                self.look_ahead(batch, start..batch.len().min(start + AHEAD));
                rows.by_ref().take(AHEAD).for_each(|row| self.step(&row));
            }
            advance(batch.len() as u64);
        });
        while self.line.next_time() != u64::MAX {
            self.sample();
        }
        self.work_to_end();
        while let Some(&silent) = self.silent.next() {
            self.allocate_silently(silent);
        }
        while self.moments.next_time() != u64::MAX {
            self.look();
        }
    }

    /// Reads the entries of the next events' frames, and the state words of those that are freed, so that their cache
    /// misses overlap. Each event alone would wait for two cache misses, which is most of its cost. Changes nothing.
    fn look_ahead(&self, batch: &Batch, rows: Range<usize>) {
        let (memory, map) = (self.memory(), self.engine.map());
        let mut found = [None; AHEAD];
        for (found, &pfn) in found.iter_mut().zip(&batch.pfn()[rows.clone()]) {
            *found = memory.identity.get(usize::try_from(pfn).unwrap_or(usize::MAX));
        }
        for (found, kind) in found.iter().zip(&batch.kind()[rows]) {
            if let (Some(entry), Kind::Free) = (found, kind) {
                black_box(map.try_frame(entry.pfn).map(Frame::word));
            }
        }
    }

    /// Compares the engine with the next recorded sample.
    #[cold]
    fn sample(&mut self) {
        self.work_until(self.line.next_time());
        let counts = self.engine.platform().probe_counts().since(&self.at_start);
        self.line.take(self.engine, &counts);
    }

    /// Records the next moment of the course.
    #[cold]
    fn look(&mut self) {
        let counts = self.engine.platform().probe_counts().since(&self.at_start);
        self.moments.take(self.engine, &counts, self.tally.failed, self.tally.huge_served);
    }

    /// Returns the course of the replay, and removes it from the player.
    pub(crate) fn course(&mut self, facts: &Facts) -> Course {
        let (moments, watched) = self.moments.finish();
        Course {
            moments,
            watched,
            divergence: self.line.take_all(),
            stalls: self.stalls(),
            decisions: self.decision_log.finish(facts),
            compaction: self.compaction_decisions(facts),
            failures: self.failures.finish(facts),
            failures_over_time: self.failures.over_time(),
            uncompared: Vec::new(),
            out_of_memory: self.out_of_memory.map(|(time, task, pages)| OutOfMemory {
                time,
                task: facts.task_name(task).to_owned(),
                pages,
            }),
        }
    }

    /// Returns the counts of the replay.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally;
        match &self.consequences {
            Consequences::Recorded(recorded) => tally.drains_asked_for = recorded.drains(),
            Consequences::Model(model) => tally.lost_moves = model.lost_moves(),
        }
        tally.taken_early = self.memory().taken_early();
        tally
    }

    /// Returns the allocated memory, by tenant. The borrow must end before the engine is called.
    fn memory(&self) -> RefMut<'e, Memory> {
        self.engine.platform().memory()
    }

    fn step(&mut self, row: &Row) {
        if row.kind.is_observation() {
            self.row += 1;
            return;
        }
        self.now = row.time;
        while let Some(&silent) = self.silent.next_if(|silent| silent.before <= self.row) {
            self.allocate_silently(silent);
        }
        while self.line.next_time() <= row.time {
            self.sample();
        }
        while self.moments.next_time() <= row.time {
            self.look();
        }
        self.work_until(row.time);
        match row.kind {
            Kind::DirectReclaimBegin | Kind::CompactionBegin => self.begin(row),
            Kind::Alloc => self.allocate(row),
            Kind::Free => match self.together.classify(self.row, row) {
                Belongs::ToNone => self.free(row),
                Belongs::First(pages) => self.free_together(row, pages),
                Belongs::Further => {}
            },
            _ => {}
        }
        let cpu = self.cpu_of(row);
        match &mut self.consequences {
            Consequences::Recorded(recorded) => recorded.play(row, cpu),
            Consequences::Model(model) => model.observe(row),
        }
        self.tick(row.time);
        self.row += 1;
    }

    /// Returns the CPU on which an event is played.
    fn cpu_of(&self, row: &Row) -> CpuId {
        match self.options.cpus {
            None => CpuId(row.cpu),
            // The hash spreads consecutive tasks over the CPUs. Events without a task are spread by their recorded CPU.
            Some(cpus) if row.task == 0 => CpuId(row.cpu % cpus.get()),
            Some(cpus) => CpuId((row.task.wrapping_mul(0x9e37_79b1) % u32::from(cpus.get())) as u16),
        }
    }

    fn allocate(&mut self, row: &Row) {
        let cpu = self.cpu_of(row);
        self.engine.platform().run_on(cpu);
        let Some((gfp, order)) = self.adjust_request(row.gfp, row.order) else {
            self.tally.impossible += 1;
            return;
        };
        let work = match &self.consequences {
            Consequences::Model(model) => model.work_of(row.task),
            Consequences::Recorded(_) => Work::Own,
        };
        let (task, number, time) = (row.task, self.row, row.time);
        let second = self.second_request(row, order);
        let (recorded, is_queued) = (None, false);
        let mut claim = Claim { task, gfp, order, cpu, row: number, time, recorded, second, work, is_queued };
        if row.pfn != NO_PFN {
            let (recorded, pages) = (row.pfn as usize, order.pages() as usize);
            if !self.memory().identity.covers(recorded, pages) {
                self.tally.outside += 1;
                return self.abandon(number, order);
            }
            self.free_leftovers(recorded, pages);
            claim.recorded = Some(recorded);
        }
        self.take_turn(claim);
    }

    /// Returns the flags and order of a recorded request on this machine; `None` if the flags or the order are
    /// impossible.
    fn adjust_request(&self, gfp: u32, order: u8) -> Option<(Gfp, Order)> {
        let (gfp, order) = (Gfp::from_bits_retain(gfp), Order::from_u8(order)?);
        gfp.migratetype()?;
        gfp.highest_zone()?;
        Some((self.huge.adjust(gfp, order), order))
    }

    /// Returns the flags of the second request that the task of a recorded request would make if this one is refused;
    /// `None` if it would make none, or if the recording has the second request. linux: mm/mempolicy.c:alloc_pages_mpol
    fn second_request(&self, row: &Row, order: Order) -> Option<Gfp> {
        let gfp = Gfp::from_bits_retain(row.gfp);
        let is_recorded = row.pfn == NO_PFN && gfp.contains(Gfp::DIRECT_RECLAIM);
        self.huge.second_request(gfp, order).filter(|_| !is_recorded)
    }

    /// Starts a recorded request that stalls, when its reclaim or compaction begins. Under [`Pacing::Recorded`] the
    /// request starts at its allocation event instead.
    fn begin(&mut self, row: &Row) {
        let number = self.row;
        while self.stalls.next_if(|stall| stall.row < number).is_some() {}
        if let Some(&stall) = self.stalls.next_if(|stall| stall.row == number)
            && self.options.pacing == Pacing::Work
        {
            let cpu = self.cpu_of(row);
            self.begin_stalled(&stall, row.time, cpu);
        }
    }

    /// Frees the remaining tenants of frames that are being allocated anew.
    fn free_leftovers(&mut self, recorded: usize, pages: usize) {
        for frame in recorded..recorded + pages {
            if self.frees_awaited(frame) {
                self.tally.silent_frees += 1;
            } else if self.memory().identity.get(frame).is_some() {
                self.tally.silent_frees += 1;
                self.free_page(frame);
            }
        }
    }

    fn allocate_silently(&mut self, silent: Silent) {
        let (recorded, pages) = (silent.pfn as usize, 1_usize << silent.order);
        let Some(order) = Order::from_u8(silent.order) else { return };
        if self.memory().identity.get(recorded).is_some() || self.moves_in(silent, order) {
            return;
        }
        let cpu = CpuId(silent.cpu % self.engine.cpus());
        self.engine.platform().run_on(cpu);
        self.tally.silent_allocs += 1;
        match self.silent_block(silent, order) {
            Some(pfn) => {
                self.memory().identity.set(recorded, pfn, pages, Some(cpu));
                self.settle(recorded, order, silent.before.saturating_sub(1), Cache::No);
            }
            None => self.miss(pages as u64, Gfp::KERNEL, self.now, 0),
        }
    }

    /// Allocates the block of a silent allocation; `None` if the engine has no memory for it. A block from a per-CPU
    /// list is requested like any other. The target of a migration and a page of a range come directly from the free
    /// lists: the recorded frame itself if it is free in the engine, else another one of the zone, else an ordinary
    /// request.
    fn silent_block(&self, silent: Silent, order: Order) -> Option<Pfn> {
        let recorded = Pfn::new(silent.pfn);
        let gfp = match silent.place {
            Place::PercpuList => return self.engine.alloc_pages(Gfp::KERNEL | Gfp::HIGHMEM, order).ok(),
            Place::FreeList => Gfp::HIGHUSER_MOVABLE,
            Place::Range => Gfp::KERNEL,
        };
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
        if self.is_consequence(row, order) {
            return;
        }
        let (recorded, pages) = (row.pfn as usize, order.pages() as usize);
        if self.frees_late(row, order, cpu) || self.frees_before_its_time(recorded, pages) {
            return;
        }
        let entry = self.memory().identity.get(recorded);
        match entry {
            Some(entry) => self.free_tenant(recorded, entry, order, cpu),
            None => self.free_unknown(row, order),
        }
    }

    /// Frees the block that backs a tenant.
    fn free_tenant(&mut self, recorded: Tenant, entry: Entry, order: Order, cpu: CpuId) {
        let pages = order.pages() as usize;
        self.note_cpu(entry, cpu);
        if let Some(whole) = self.take_whole(recorded) {
            self.give_back(entry.pfn, whole);
            return self.memory().clear(recorded, pages);
        }
        match self.engine.allocated_block(entry.pfn) {
            Some((head, found)) if found >= order && entry.pfn.is_aligned(order) => {
                self.cut(head, found, order);
                self.give_back(entry.pfn, order);
                self.memory().clear(recorded, pages);
            }
            // Several blocks of the engine back this tenant.
            _ => (recorded..recorded + pages).for_each(|frame| self.free_page(frame)),
        }
    }

    /// Counts a free on another CPU than the one that allocated the block.
    fn note_cpu(&mut self, entry: Entry, cpu: CpuId) {
        self.tally.cross_cpu_frees += u64::from(entry.cpu.is_some_and(|allocated_on| allocated_on != cpu));
    }

    /// Frees the page that backs one recorded frame.
    fn free_page(&mut self, frame: usize) {
        let Some(entry) = self.memory().identity.get(frame) else { return };
        if let Some((head, found)) = self.engine.allocated_block(entry.pfn) {
            self.cut(head, found, Order::ZERO);
            self.give_back(entry.pfn, Order::ZERO);
        }
        self.memory().clear(frame, 1);
    }

    /// Splits the block at `head`, of order `found`, into blocks of `order`, since it is freed in parts. Does nothing
    /// if `found` is not above `order`.
    fn cut(&mut self, head: Pfn, found: Order, order: Order) {
        if found > order && self.engine.split_compound(head, found, order).is_ok() {
            self.tally.splits += 1;
        }
    }

    fn give_back(&mut self, pfn: Pfn, order: Order) {
        self.memory().identity.touched().touch(pfn.raw(), order.pages());
        if self.engine.free_pages(pfn, order).is_err() {
            self.tally.refused_frees += 1;
        }
    }

    /// Handles a free of a frame without a tenant. If the frame is Reserved, it is memory that came online while the
    /// recording ran. Otherwise the frame could not be backed, or is in no zone.
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

    /// Decays the per-CPU lists, once a second of recorded time.
    #[inline]
    fn tick(&mut self, time: u64) {
        if self.next_tick <= time {
            self.decay_until(time);
        }
    }

    #[cold]
    fn decay_until(&mut self, time: u64) {
        let first = time.saturating_sub(QUIET_MAX) / TICK * TICK + self.next_tick % TICK;
        self.next_tick = self.next_tick.max(first);
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
