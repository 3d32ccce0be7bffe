//! One run: a workload on a machine with a number of CPUs, under one policy, with one seed.
//!
//! CPUs begin at slightly different random times, so that they do not run in lockstep. Their operations are counted
//! within the window. The state of memory is sampled when the window begins, several times within it, and when it ends.
//! After that the CPUs wind down and free the blocks that they hold. The page cache of the memory model stays.

use std::cell::RefCell;

use freehold::base::CpuId;
use freehold::machine::MachineError;
use freehold::page::Violation;
use freehold::platform::Platform;
use freehold::stats::Counts;
use freehold::{PageAllocator, Policy};
use freehold_report::room::{self, TooLittle};

use super::CPUS_MAX;
use super::background;
use super::costs::Costs;
use super::cpu::Cpu;
use super::machine::Machine;
use super::memory::Model;
use super::meter::{self, Meter};
use super::outcome::fragmentation::Fragmentation;
use super::outcome::tally::Tally;
use super::outcome::vmstat::{self, Vmstat};
use super::outcome::{Outcome, Times};
use super::playback::Play;
use super::start::{self, SnapshotError, Start};
use super::task::Task;
use super::virtual_time::{self, Observer, StopReason, VirtualTime};
use super::window::Window;
use super::workload::Workload;
use super::world::World;

/// Nanoseconds within which the CPUs begin.
const START_SPREAD_NS: u64 = 20_000;
/// Parts of the window. Memory is sampled when the window begins, and at the end of each part.
pub const LOOKS: u64 = 8;

/// All inputs that determine the outcome of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'s> {
    /// Workload that the CPUs run.
    pub workload: &'s Workload,
    /// Machine that they run on.
    pub machine: &'s Machine,
    /// State of the memory when the run begins. If `None`, all of it is free.
    pub start: Option<&'s Start>,
    /// Number of CPUs, 1 to [`CPUS_MAX`].
    pub cpus: u16,
    /// Policy of the allocator.
    pub policy: Policy,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Costs of steps.
    pub costs: &'s Costs,
    /// Measured part of the run.
    pub window: Window,
}

/// Reason why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The plan's machine cannot be built.
    #[error("{0}; correct the plan's `machine`")]
    Machine(#[from] MachineError),
    /// The start state could not be made.
    #[error("{0}")]
    Start(String),
    /// There is less memory than the runs need.
    #[error("{0}; simulate less memory (--memory) or fewer CPUs, or one run at a time (RAYON_NUM_THREADS=1)")]
    Room(#[from] TooLittle),
    /// The memory that was available when the runs started is no longer available.
    #[error("there is no memory for another run; simulate less memory or fewer CPUs, or close other programs")]
    Memory,
    /// The workload is a recording that cannot be played.
    #[error("{0}")]
    Recording(String),
    /// The CPUs of the run did not finish.
    #[error(transparent)]
    Stopped(#[from] StopReason),
    /// The engine violated an invariant.
    #[error("{0}; this is a fault of the program, please report it")]
    Broken(Violation),
    /// The memory model did not do what it reported to the engine.
    #[error(
        "the memory model broke {count} promises to the allocator; this is a fault of the program, please report it"
    )]
    Promises {
        /// Number of broken promises.
        count: u64,
    },
    /// The workload did not free all pages.
    #[error("{pages} pages are still in use at the end of all CPUs; this is a fault of the program, please report it")]
    Leaked {
        /// Number of pages that are still allocated.
        pages: u64,
    },
}

impl From<SnapshotError> for RunError {
    fn from(error: SnapshotError) -> RunError {
        RunError::Start(error.to_string())
    }
}

/// Simulates a run. The same setup gives the same outcome on every machine.
///
/// # Errors
/// See [`RunError`].
pub fn simulate(setup: &Setup<'_>) -> Result<Outcome, RunError> {
    simulate_metered(setup, &Meter::without_progress(setup.cpus, setup.window))
}

/// Simulates a run like [`simulate`], and reports its progress to `meter`.
///
/// # Errors
/// See [`RunError`].
pub fn simulate_metered(setup: &Setup<'_>, meter: &Meter<'_>) -> Result<Outcome, RunError> {
    assert!((1..=CPUS_MAX).contains(&setup.cpus), "{} CPUs are outside 1 to {CPUS_MAX}", setup.cpus);
    // An allocation that fails during the run would abort the process, so the large allocation is tried first.
    if !room::is_to_be_had(meter::need(setup.machine, setup.cpus).memory as usize) {
        return Err(RunError::Memory);
    }
    let model = Model::new(setup.machine, &setup.workload.memory(), setup.seed);
    let platform = VirtualTime::new(setup.machine, setup.cpus, setup.costs, setup.window, model);
    setup.machine.build(platform, setup.cpus, setup.policy, |allocator| {
        let fixed = begin(setup, allocator)?;
        allocator.set_up_watermarks(setup.workload.min_free());
        let mut world = World::new(setup.cpus, setup.window, list_high(allocator));
        world.play = stage(setup)?;
        let outcome = run_on(setup, allocator, &world, meter)?;
        let count = allocator.platform().counts().broken_promises;
        if count > 0 {
            return Err(RunError::Promises { count });
        }
        check(allocator, &world, fixed)?;
        Ok(outcome)
    })?
}

/// Creates the state of memory in which the run begins. Returns the number of fixed pages, which no part of the
/// simulation ever frees.
fn begin(setup: &Setup<'_>, allocator: &mut PageAllocator<'_, VirtualTime>) -> Result<u64, RunError> {
    match setup.start {
        Some(start) => Ok(start::restore(start, allocator, setup.seed)),
        None => setup.machine.release(allocator).map(|()| 0).map_err(RunError::Machine),
    }
}

fn run_on(
    setup: &Setup<'_>,
    allocator: &PageAllocator<'_, VirtualTime>,
    world: &World,
    meter: &Meter<'_>,
) -> Result<Outcome, StopReason> {
    let tally = RefCell::new(Tally::default());
    let nodes = setup.machine.nodes;
    let mut sampler = Sampler::new(allocator, setup.window, meter);
    virtual_time::run(
        setup.cpus + Task::count(nodes),
        |number| match number.checked_sub(setup.cpus) {
            None => run_cpu(setup, allocator, world, number, &tally),
            Some(task) => background::run_task(Task::from_number(task, nodes), allocator),
        },
        &mut sampler,
    )?;
    meter.reach(setup.window.end);
    Ok(sampler.conclude(setup.cpus, tally.into_inner(), allocator.platform().times()))
}

/// Runs the workload of one CPU, and adds its operations to `tally`.
fn run_cpu(
    setup: &Setup<'_>,
    allocator: &PageAllocator<'_, VirtualTime>,
    world: &World,
    number: u16,
    tally: &RefCell<Tally>,
) {
    let mut cpu = Cpu::new(allocator, world, number, setup.seed);
    let late_ns = cpu.rng().u64(..START_SPREAD_NS);
    cpu.work(late_ns);
    setup.workload.run(&mut cpu);
    tally.borrow_mut().add(&cpu.into_tally());
}

/// Distributes a recording to the CPUs of a run; returns `None` if the workload is not a recording.
pub(super) fn stage(setup: &Setup<'_>) -> Result<Option<Play>, RunError> {
    let staged = setup.workload.stage(setup.cpus, setup.window, setup.seed);
    staged.map_err(|error| RunError::Recording(error.to_string()))
}

/// Returns the limit (`high`) of the list of CPU 0 in the first zone with memory, in pages; 0 if no zone has memory.
pub(super) fn list_high<P: Platform>(allocator: &PageAllocator<'_, P>) -> u32 {
    let zone = allocator.zones().iter().find(|zone| zone.is_populated());
    zone.map_or(0, |zone| allocator.pcp(CpuId(0), zone).inspect(|lists| lists.high()))
}

/// Frees the parcels in mailboxes and the blocks that were kept, after all CPUs have finished.
pub(super) fn give_back<P: Platform>(allocator: &PageAllocator<'_, P>, world: &World) {
    for block in world.leftovers() {
        allocator.free_pages(block.pfn, block.order).expect("a leftover block has no other owner");
    }
}

/// Frees everything that is left, and checks that only the `fixed` pages stay allocated. The check takes a step for
/// each frame, so only debug builds do it after each run; other builds return success.
fn check(allocator: &PageAllocator<'_, VirtualTime>, world: &World, fixed: u64) -> Result<(), RunError> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    give_back(allocator, world);
    allocator.platform().model().clear(|pfn, order| {
        allocator.free_pages(pfn, order).expect("the memory model owns the block");
    });
    let pages = allocator.check().map_err(RunError::Broken)?.allocated - fixed;
    if pages > 0 { Err(RunError::Leaked { pages }) } else { Ok(()) }
}

/// Samples the machine when the window begins, within it, and when it ends.
struct Sampler<'a, 'm> {
    allocator: &'a PageAllocator<'m, VirtualTime>,
    meter: &'a Meter<'a>,
    /// Time of the next report to the meter.
    due: u64,
    window: Window,
    /// Number of samples so far.
    looks: u64,
    begin: Counts,
    end: Counts,
    last: Fragmentation,
    worst: Fragmentation,
    /// All counters when the window began, and for each sample the difference to them.
    before: Vmstat,
    samples: Vec<Vmstat>,
}

impl<'a, 'm> Sampler<'a, 'm> {
    fn new(allocator: &'a PageAllocator<'m, VirtualTime>, window: Window, meter: &'a Meter<'a>) -> Sampler<'a, 'm> {
        Sampler {
            allocator,
            meter,
            due: 0,
            window,
            looks: 0,
            begin: Counts::default(),
            end: Counts::default(),
            last: Fragmentation::default(),
            worst: Fragmentation::default(),
            before: Vmstat::default(),
            samples: Vec::new(),
        }
    }

    fn conclude(self, cpus: u16, tally: Tally, times: Times) -> Outcome {
        Outcome {
            cpus,
            span: self.window.picoseconds(),
            tally,
            counts: self.end.since(&self.begin),
            times,
            end: self.last,
            worst: self.worst,
            vmstat: self.samples.last().cloned().unwrap_or_default(),
            looks: self.samples,
        }
    }

    fn vmstat(&self, counts: &Counts) -> Vmstat {
        let engine = vmstat::engine_gauges(self.allocator).chain(vmstat::engine_counts(counts));
        Vmstat::new(engine.chain(self.allocator.platform().model().vmstat()))
    }
}

impl Observer for Sampler<'_, '_> {
    fn next(&self) -> u64 {
        match self.looks {
            0..=LOOKS => self.window.begin + self.window.picoseconds() / LOOKS * self.looks,
            _ => u64::MAX,
        }
    }

    fn pass(&mut self, time: u64) {
        if time >= self.due {
            self.due = time + self.meter.step();
            self.meter.reach(time);
        }
    }

    fn observe(&mut self) {
        let counts = self.allocator.platform().counts();
        let fragmentation = Fragmentation::measure(self.allocator);
        self.worst = if self.looks == 0 { fragmentation } else { self.worst.worse(&fragmentation) };
        let vmstat = self.vmstat(&counts);
        if self.looks == 0 {
            self.begin = counts;
            self.before = vmstat.clone();
        }
        self.samples.push(vmstat.since(&self.before));
        self.end = counts;
        self.last = fragmentation;
        self.looks += 1;
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
