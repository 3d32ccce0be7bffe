//! Concurrent threads: some own blocks of every kind, while others allocate ranges in the same pageblocks, by frame
//! number, by search and from a CMA area. Meanwhile zones are compacted, and frames break.
//!
//! No frame ever has two owners, and the stamps of a block survive its moves. At the end every frame that is not broken
//! is free, and every pageblock has its original type.

mod platform;
mod workers;

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use fastrand::Rng;
use freehold::Policy;
use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, ContigError, MinFree};
use freehold::platform::Platform;
use freehold::platform::host::run_on_cpu;
use freehold::policy::{ContigPolicy, Numbers, PcpPolicy};
use freehold::stats::Counts;
use parking_lot::Mutex;

use crate::common::{self, Memory, range, repetitions};
use crate::contig::scene::bitmap;
use platform::{Moving, Sabotage};
use workers::{Area, Engine, HeldBlock, Worker};

const FRAMES: u32 = 6144;
/// Start and end of the CMA area.
const AREA: (u32, u32) = (2048, 3072);
const CPUS: u16 = 4;
/// Threads that own blocks, threads that allocate ranges, and one thread on the area. There are more threads than CPUs,
/// so that trylocks fail.
const THREADS: u16 = 7;

/// Kinds of requests for blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Classes {
    /// Every mobility: pageblocks change their types.
    All,
    /// Movable requests only: pageblocks keep their types.
    Movable,
}

impl Classes {
    fn draw(self, rng: &mut Rng) -> Gfp {
        const ALL: [Gfp; 6] = [
            Gfp::HIGHUSER_MOVABLE,
            Gfp::KERNEL.union(Gfp::MOVABLE),
            Gfp::KERNEL.union(Gfp::MOVABLE).union(Gfp::COMP),
            Gfp::HIGHUSER_MOVABLE.union(Gfp::COMP),
            Gfp::KERNEL,
            Gfp::KERNEL.union(Gfp::RECLAIMABLE),
        ];
        ALL[rng.usize(0..if self == Classes::All { 6 } else { 4 })]
    }
}

/// Counts of the threads' events.
#[derive(Debug, Default)]
struct Encounters {
    taken: AtomicU32,
    busy: AtomicU32,
    unmovable: AtomicU32,
    from_area: AtomicU32,
    broken: Mutex<BTreeSet<Pfn>>,
}

impl Encounters {
    fn count(&self, refusal: Option<ContigError>) {
        let counter = match refusal {
            None => &self.taken,
            Some(ContigError::Busy { .. }) => &self.busy,
            Some(_) => &self.unmovable,
        };
        counter.fetch_add(1, Relaxed);
    }

    fn count_area(&self, taken: bool) {
        self.from_area.fetch_add(u32::from(taken), Relaxed);
    }
}

/// Parameters of a race.
#[derive(Clone, Copy, Debug)]
struct Race {
    contig: ContigPolicy,
    pcp: PcpPolicy,
    classes: Classes,
    sabotage: Sabotage,
    seed: u64,
    steps: u32,
}

impl Race {
    const USUAL: Race = Race {
        contig: ContigPolicy::Batched,
        pcp: PcpPolicy::Linux,
        classes: Classes::All,
        sabotage: Sabotage::None,
        seed: 0,
        steps: 20_000,
    };

    /// Runs the race. Returns the counts of the threads and of the engine, or the first problem.
    fn run(self) -> Result<(Encounters, Counts), String> {
        let numbers = Numbers { pcp_batch: Some(3), compaction_proactiveness: Some(100), ..Numbers::default() };
        let policy = Policy { contig: self.contig, pcp: self.pcp, numbers, ..Policy::LINUX_6_12 };
        let cpu_nodes = [NodeId(0); CPUS as usize];
        let config = Config { cpu_nodes: &cpu_nodes, policy, pageblock_order: Order::new(5), ..Config::default() };
        let ranges = [range(ZoneKind::Normal, 0, 0, 4096), range(ZoneKind::Movable, 0, 4096, FRAMES)];
        let mut memory = Memory::on::<Moving>(&config, &ranges);
        let mut bitmap = bitmap(AREA.1 - AREA.0, 1);
        let engine = common::build_on(Moving::new(FRAMES, self.sabotage), &config, &ranges, &mut memory);
        let area = engine.reserve_cma(crate::contig::span(AREA.0, AREA.1), Order::new(1), &mut bitmap);
        let area = area.map_err(|error| error.to_string())?;
        for (start, end) in [(0, AREA.0), (AREA.1, FRAMES)] {
            engine.release(Pfn::new(start), Pfn::new(end)).map_err(|error| error.to_string())?;
        }
        engine.set_up_watermarks(MinFree::Pages(64));
        let seen = self.work(&engine, &area);
        match engine.platform().problem() {
            Some(problem) => Err(problem),
            None => self.look_back(&engine, &area, &seen).map(|counts| (seen, counts)),
        }
    }

    /// Runs a worker, whose number selects its role, and reports a panic.
    fn live(self, number: u16, worker: Worker<'_, '_>) {
        let engine = worker.engine;
        let work = AssertUnwindSafe(|| match number {
            0 => worker.live_on_area(self.steps / 4),
            1..4 => worker.take_ranges(self.steps / 4),
            _ => worker.own_blocks(self.steps),
        });
        if panic::catch_unwind(work).is_err() {
            engine.platform().report("a thread panicked".into());
        }
    }

    fn work<'m>(self, engine: &Engine<'m>, area: &Area<'m>) -> Encounters {
        let (seen, mailbox) = (Encounters::default(), Mutex::new(Vec::<HeldBlock>::new()));
        let start = Barrier::new(usize::from(THREADS));
        let mut workers: Vec<Worker<'_, 'm>> = Vec::new();
        for number in 0..=THREADS {
            workers.push(Worker {
                engine,
                area,
                rng: Rng::with_seed(self.seed * 100 + u64::from(number)),
                classes: self.classes,
                seen: &seen,
                mailbox: &mailbox,
                mine: Vec::new(),
            });
        }
        let mut last = workers.pop().expect("there is one more than threads");
        thread::scope(|scope| {
            let start = &start;
            let spawned = (0..THREADS).zip(workers).map(|(number, worker)| {
                scope.spawn(move || {
                    run_on_cpu(CpuId(number % CPUS));
                    start.wait();
                    self.live(number, worker);
                })
            });
            let threads: Vec<_> = spawned.collect();
            // Sanitizers do not see the implicit wait at the end of the scope; they see a join.
            threads.into_iter().for_each(|thread| thread.join().expect("the thread must catch its panics"));
        });
        let left = mailbox.lock().split_off(0);
        if !engine.platform().is_stopped() {
            left.into_iter().for_each(|held| last.free(held));
        }
        drop(last);
        seen
    }

    /// Checks the machine after all threads have ended.
    fn look_back(self, engine: &Engine<'_>, area: &Area<'_>, seen: &Encounters) -> Result<Counts, String> {
        engine.drain_all_pages();
        let census = engine.check().map_err(|violation| violation.to_string())?;
        let broken = seen.broken.lock();
        let expected = (u64::from(FRAMES) - broken.len() as u64, 0, 0, broken.len() as u64);
        if (census.free, census.cached, census.allocated, census.withheld) != expected {
            return Err(format!("{census:?}, and {} frames were broken", broken.len()));
        }
        if let Some(pfn) = broken.iter().find(|&&pfn| engine.state(pfn) != Some(State::Withheld)) {
            return Err(format!("frame {pfn} was broken, and is {:?}", engine.state(*pfn)));
        }
        if area.allocated() > 0 {
            return Err(format!("the area still counts {} pages", area.allocated()));
        }
        for pfn in engine.map().pageblocks().take_while(|pfn| pfn.raw() < FRAMES) {
            let (block, in_area) = (engine.map().pageblock(pfn), (AREA.0..AREA.1).contains(&pfn.raw()));
            let was_kept = match block.migratetype() {
                MigrateType::Cma => in_area,
                MigrateType::Movable => !in_area,
                other => other.is_mergeable() && self.classes == Classes::All && !in_area,
            };
            if !was_kept || block.isolations() > 0 {
                return Err(format!("pageblock {pfn} is {block:?} now"));
            }
        }
        Ok(engine.platform().probe().counts())
    }
}

#[track_caller]
fn expect_order(race: Race) {
    for seed in 0..repetitions(1) {
        let race = Race { seed, ..race };
        let (seen, counts) = race.run().unwrap_or_else(|problem| panic!("{race:?}: {problem}"));
        let counted = [&seen.taken, &seen.unmovable, &seen.from_area].map(|counter| counter.load(Relaxed));
        let compacted = counts.compact_isolated;
        let rare = [counts.migrations, counts.migrations_refused, counts.withheld, compacted];
        assert_eq!(counts.broken_promises, 0, "{race:?}");
        assert!(
            !counted.contains(&0) && !rare.contains(&0),
            "an event that must occur did not occur: {seen:?}, {counts:?}"
        );
        assert!(counted[0] > race.steps / 20, "too few ranges were taken: {seen:?}");
    }
}

#[test]
fn batched_range_with_linux_lists() {
    expect_order(Race::USUAL);
}

#[test]
fn one_by_one_range_with_linux_lists() {
    expect_order(Race { contig: ContigPolicy::OneByOne, ..Race::USUAL });
}

#[test]
fn batched_range_with_merge_lists() {
    expect_order(Race { pcp: PcpPolicy::Merge, ..Race::USUAL });
}

#[test]
fn batched_range_with_owned_pageblocks() {
    expect_order(Race { pcp: PcpPolicy::Owned, ..Race::USUAL });
    expect_order(Race { pcp: PcpPolicy::OwnedRemote, ..Race::USUAL });
}

#[test]
fn batched_range_without_lists() {
    expect_order(Race { pcp: PcpPolicy::Off, ..Race::USUAL });
}

#[test]
fn movable_only_load_keeps_pageblock_types() {
    expect_order(Race { classes: Classes::Movable, ..Race::USUAL });
    expect_order(Race { classes: Classes::Movable, pcp: PcpPolicy::Merge, ..Race::USUAL });
}

/// Tests the harness: it detects a platform that lies about moves, and owners that free twice.
#[test]
fn planted_faults_are_found() {
    for sabotage in [Sabotage::ClaimsMoves, Sabotage::DeniesMoves, Sabotage::FreesTwice] {
        for pcp in [PcpPolicy::Linux, PcpPolicy::Merge] {
            let race = Race { sabotage, pcp, ..Race::USUAL };
            assert!(race.run().is_err(), "{sabotage:?} was not found");
        }
    }
}
