//! The second pass: every event, in order, through the engine.
//!
//! An allocation is asked of the engine on the CPU that the recorded task ran on; a free is given to the block that stands
//! for the recorded one. Where the two part, the recording's story goes on: a recorded failure is attempted,
//! counted, and freed at once if it succeeds; a recorded success that fails is made up of single pages. Whatever does not
//! fit is counted by its reason.
//!
//! What the recorded kernel did because memory was short is either played like all else ([`played`]), or left out and decided
//! anew ([`decided`]).

mod decided;
mod held;
mod played;
mod tally;
mod together;

use std::cell::RefMut;
use std::hint::black_box;
use std::ops::Range;

use decided::{Cache, Decided};
use freehold::base::{CpuId, Frame, Gfp, Order, Pfn, State};
use freehold::page::{AllocError, Mobility};
use freehold::platform::{Context, Task};
use freehold_trace::event::NO_PFN;
use freehold_trace::{Batch, Columns, Kind, Row};
use held::is_huge;
use played::Played;

use super::identity::Entry;
use super::memory::Memory;
use super::settings::{HugeRequests, Situation};
use super::survey::{Place, Silent, Survey, Work};
use super::{Engine, HUGE, Options, ProbeCounts, ReclaimMode};
pub use tally::Tally;
use together::{Belongs, Neighbours};

/// Nanoseconds between two ticks of the per-CPU lists' decay: on all CPUs at nearly the same moment, since the kernel rounds
/// it to whole seconds of its own clock. linux: mm/vmstat.c:vmstat_update
const TICK: u64 = 1_000_000_000;

/// Events that are looked at together.
const AHEAD: usize = 16;

/// A task that reclaims.
const MEMALLOC: Task = Task { memalloc: true, oom_victim: false, realtime: false, context: Context::Task };

/// The pass while it runs.
pub struct Player<'e, 'm> {
    engine: &'e Engine<'m>,
    survey: &'e Survey,
    silent: std::iter::Peekable<std::slice::Iter<'e, Silent>>,
    together: Neighbours<'e>,
    options: Options,
    huge: HugeRequests,
    tally: Tally,
    row: u64,
    next_tick: u64,
    consequences: Consequences<'e, 'm>,
}

/// What becomes of the recorded kernel's reclaim and compaction.
enum Consequences<'e, 'm> {
    Played(Played<'e, 'm>),
    Decided(Box<Decided>),
}

impl<'e, 'm> Player<'e, 'm> {
    /// A player at the start of the recording; everything allocated stands for itself.
    pub fn new(
        engine: &'e Engine<'m>,
        situation: &Situation<'_>,
        survey: &'e Survey,
        options: Options,
    ) -> Player<'e, 'm> {
        let facts = &situation.facts;
        let player = Player {
            engine,
            survey,
            silent: survey.silent.iter().peekable(),
            together: Neighbours::new(&survey.together, facts.cpus),
            options,
            huge: situation.huge_requests(),
            tally: Tally::default(),
            row: survey.start_rows,
            next_tick: survey.tick.map_or(TICK, |time| time % TICK),
            consequences: match options.reclaim {
                ReclaimMode::Recorded => Consequences::Played(Played::new(engine, facts)),
                ReclaimMode::Model => Consequences::Decided(Box::new(Decided::new(engine, facts, survey))),
            },
        };
        let heads = survey.owned.iter().flat_map(|owned| owned.heads().map(|pfn| (pfn, owned.order)));
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

    /// Plays all events, and then what only the end state shows.
    pub fn play(&mut self, events: &Columns, mut advance: impl FnMut(u64)) {
        events.walk(|batch| {
            let mut rows = batch.rows();
            for start in (0..batch.len()).step_by(AHEAD) {
                self.look_ahead(batch, start..batch.len().min(start + AHEAD));
                rows.by_ref().take(AHEAD).for_each(|row| self.step(&row));
            }
            advance(batch.len() as u64);
        });
        while let Some(&silent) = self.silent.next() {
            self.allocate_silently(silent);
        }
    }

    /// Reads what stands on the frames of the next events, so that the waits for memory are one wait: each event by itself
    /// would wait twice, and that is most of what it costs. Changes nothing.
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

    /// What was found.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally;
        match &self.consequences {
            Consequences::Played(played) => tally.drains_asked_for = played.drains(),
            Consequences::Decided(decided) => tally.lost_moves = decided.lost_moves(),
        }
        tally.taken_early = self.memory().taken_early();
        tally
    }

    /// What is allocated, by tenant. Not to be held while the engine is asked for anything.
    fn memory(&self) -> RefMut<'e, Memory> {
        self.engine.platform().memory()
    }

    fn step(&mut self, row: &Row) {
        if row.kind.is_observation() {
            self.row += 1;
            return;
        }
        while let Some(&silent) = self.silent.next_if(|silent| silent.before <= self.row) {
            self.allocate_silently(silent);
        }
        match row.kind {
            Kind::Alloc => self.allocate(row),
            Kind::Free => match self.together.of(self.row, row) {
                Belongs::ToNone => self.free(row),
                Belongs::First(pages) => self.free_together(row, pages),
                Belongs::Further => {}
            },
            _ => {}
        }
        let cpu = self.cpu_of(row);
        match &mut self.consequences {
            Consequences::Played(played) => played.play(row, cpu),
            Consequences::Decided(decided) => decided.observe(row, self.engine),
        }
        self.tick(row.time);
        self.row += 1;
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
        let gfp = self.huge.asked(gfp, order);
        if row.pfn == NO_PFN {
            return self.attempt(row.task, gfp, order);
        }
        let (recorded, pages) = (row.pfn as usize, order.pages() as usize);
        if !self.memory().identity.covers(recorded, pages) {
            self.tally.outside += 1;
            return;
        }
        self.free_leftovers(recorded, pages);
        if self.find_in_huge(row.task, gfp, order, recorded, cpu) {
            self.tally.found_in_huge += 1;
            return;
        }
        match self.ask(row.task, gfp, order).or_else(|_| self.ask_below_watermark(gfp, order)) {
            Ok(pfn) => {
                self.tally.huge_served += u64::from(order.get() == HUGE);
                self.memory().identity.set(recorded, pfn, pages, Some(cpu));
                self.settle(recorded, order, self.row, Cache::of_request(gfp));
            }
            Err(_) => {
                self.tally.failed += 1;
                self.make_up(recorded, pages, gfp, cpu);
            }
        }
    }

    /// A request of a task. One that reclaims or compacts does not begin to do so for this request as well, and may use all reserves.
    fn ask(&self, task: u32, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        match &self.consequences {
            // The recorded compaction is played: the engine's own would come on top, and leaves requests without I/O alone.
            Consequences::Played(_) => self.engine.alloc_pages(gfp - Gfp::IO, order),
            Consequences::Decided(decided) if decided.work_of(task) != Work::Own => self.ask_as(MEMALLOC, gfp, order),
            Consequences::Decided(_) => self.engine.alloc_pages(gfp, order),
        }
    }

    fn ask_as(&self, task: Task, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        self.engine.platform().run_as(task);
        let served = self.engine.alloc_pages(gfp, order);
        self.engine.platform().run_as(Task::default());
        served
    }

    /// A recorded success that the engine refuses, once more without watermarks if the request might have reclaimed. Where reclaim
    /// is played as recorded, it cannot answer to what is short here; the recorded kernel's did. Where it is decided anew, this
    /// is for small blocks alone, which the kernel does not refuse either. What still fails, fails for want of a block.
    fn ask_below_watermark(&mut self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let decided = matches!(self.consequences, Consequences::Decided(_));
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || (decided && order > Order::COSTLY) {
            return Err(AllocError::OutOfMemory);
        }
        let served = self.ask_as(MEMALLOC, gfp - Gfp::NOMEMALLOC, order);
        self.tally.below_watermark += u64::from(served.is_ok());
        served
    }

    /// A request that failed in the recording.
    fn attempt(&mut self, task: u32, gfp: Gfp, order: Order) {
        let huge = is_huge(gfp, order);
        if huge && self.repeats_huge(task) {
            self.tally.not_repeated += 1;
            return;
        }
        match self.ask(task, gfp, order) {
            Ok(pfn) => {
                self.tally.huge_served += u64::from(order.get() == HUGE);
                self.tally.failures_served += 1;
                if !(huge && self.hold_huge(task, pfn)) {
                    self.give_back(pfn, order);
                }
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
                Ok(pfn) => self.memory().identity.set(frame, pfn, 1, Some(cpu)),
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
            if self.memory().identity.get(frame).is_some() {
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
            None => self.tally.unbacked += pages as u64,
        }
    }

    /// The target of a migration, or a page of a range, comes straight from the free lists: the recorded frame itself, if that
    /// is free here too, else another of the zone.
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
        let Some(entry) = self.memory().identity.get(recorded) else { return self.free_unknown(row, order) };
        self.note_cpu(entry, cpu);
        match self.engine.allocated_block(entry.pfn) {
            Some((head, found)) if found >= order && entry.pfn.is_aligned(order) => {
                self.cut(head, found, order);
                self.give_back(entry.pfn, order);
                self.memory().clear(recorded, pages);
            }
            // Several blocks of the engine stand for this one.
            _ => (recorded..recorded + pages).for_each(|frame| self.free_page(frame)),
        }
    }

    /// Counts what is freed on another CPU than it was allocated on.
    fn note_cpu(&mut self, entry: Entry, cpu: CpuId) {
        self.tally.cross_cpu_frees += u64::from(entry.cpu.is_some_and(|allocated_on| allocated_on != cpu));
    }

    /// Frees what one recorded frame stands for.
    fn free_page(&mut self, frame: usize) {
        let Some(entry) = self.memory().identity.get(frame) else { return };
        if let Some((head, found)) = self.engine.allocated_block(entry.pfn) {
            self.cut(head, found, Order::ZERO);
            self.give_back(entry.pfn, Order::ZERO);
        }
        self.memory().clear(frame, 1);
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
