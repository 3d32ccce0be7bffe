//! A run on real threads, with the same setup as in virtual time.

use std::thread;

use freehold::PageAllocator;
use freehold::stats::Counts;
use freehold_timing::affinity;
use freehold_timing::spin_barrier::SpinBarrier;

use super::Threads;
use crate::cpu::Cpu;
use crate::outcome::fragmentation::Fragmentation;
use crate::outcome::tally::Tally;
use crate::outcome::vmstat::Vmstat;
use crate::outcome::{Outcome, Times};
use crate::run::{RunError, Setup, give_back, list_high, stage};
use crate::world::World;

/// Result of a run on threads.
#[derive(Clone, Debug)]
pub(crate) struct ThreadRun {
    /// Outcome, as in virtual time. CPU time is not split by activity, and memory is sampled only once, after all CPUs
    /// have finished.
    pub outcome: Outcome,
    /// Largest ratio of wall-clock time to CPU time of any CPU, due to other load; 1 without other load.
    pub stretch: f64,
}

/// Runs a setup on threads, one for each CPU. Each thread is pinned to a separate CPU if this process may use as many.
///
/// # Errors
/// See [`RunError`].
pub(crate) fn run(setup: &Setup<'_>) -> Result<ThreadRun, RunError> {
    run_and(setup, |_| ())
}

/// Runs like [`run`], and calls `look` with the machine after all memory was freed.
fn run_and(setup: &Setup<'_>, look: impl FnOnce(&PageAllocator<'_, Threads>)) -> Result<ThreadRun, RunError> {
    let threads = Threads::new(setup.cpus, setup.window);
    let play = stage(setup)?;
    let run = setup.machine.run_released(threads, setup.cpus, setup.policy, |allocator| {
        let mut world = World::new(setup.cpus, setup.window, list_high(allocator));
        world.play = play;
        let run = run_on(setup, allocator, &world);
        give_back(allocator, &world);
        look(allocator);
        run
    })?;
    Ok(run)
}

fn run_on(setup: &Setup<'_>, allocator: &PageAllocator<'_, Threads>, world: &World) -> ThreadRun {
    let barrier = SpinBarrier::new(u32::from(setup.cpus));
    let places = places(setup.cpus);
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let (barrier, places) = (&barrier, places.as_deref());
        let mut cpus = Vec::with_capacity(usize::from(setup.cpus));
        for number in 0..setup.cpus {
            cpus.push(scope.spawn(move || {
                // A thread that is not pinned is slower but not wrong; the stretch of its time shows it.
                let _ = places.map(|places| affinity::pin(places[usize::from(number)]));
                run_cpu(setup, allocator, world, number, barrier)
            }));
        }
        cpus.into_iter().map(|cpu| cpu.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    conclude(setup, allocator, &tallies)
}

/// Runs the workload of one CPU on the calling thread, once all CPUs are ready.
fn run_cpu(
    setup: &Setup<'_>,
    allocator: &PageAllocator<'_, Threads>,
    world: &World,
    number: u16,
    barrier: &SpinBarrier,
) -> Tally {
    let mut cpu = Cpu::new(allocator, world, number, setup.seed);
    barrier.wait();
    allocator.platform().start(number);
    setup.workload.run(&mut cpu);
    cpu.into_tally()
}

/// Returns a CPU for each thread; `None` if there are not enough.
fn places(cpus: u16) -> Option<Vec<u16>> {
    affinity::usable().ok().filter(|usable| usable.len() >= usize::from(cpus))
}

fn conclude(setup: &Setup<'_>, allocator: &PageAllocator<'_, Threads>, tallies: &[Tally]) -> ThreadRun {
    let mut tally = Tally::default();
    tallies.iter().for_each(|of_cpu| tally.add(of_cpu));
    let measurements: Vec<_> = (0..setup.cpus).filter_map(|cpu| allocator.platform().measurement(cpu)).collect();
    let counts = measurements.iter().fold(Counts::default(), |sum, of_cpu| sum.plus(&of_cpu.counts));
    // Every CPU ends a little late by its own clock, so the mean of the spans is used.
    let span = measurements.iter().map(|of_cpu| of_cpu.span).sum::<u64>() / u64::from(setup.cpus);
    let end = Fragmentation::measure(allocator);
    let outcome = Outcome {
        cpus: setup.cpus,
        span,
        tally,
        counts,
        times: Times::default(),
        end,
        worst: end,
        vmstat: Vmstat::default(),
        looks: Vec::new(),
    };
    ThreadRun { outcome, stretch: measurements.iter().map(|of_cpu| of_cpu.stretch).fold(1.0, f64::max) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Costs;
    use crate::cpu::PS_PER_NS;
    use crate::machine::Machine;
    use crate::window::Window;
    use crate::workload::Workload;
    use crate::workload::pingpong::Pingpong;
    use crate::workload::purge::Purge;
    use crate::workload::steady::Steady;

    /// A millisecond of warm-up, and four that are measured.
    const WINDOW: Window = Window { begin: 1_000_000 * PS_PER_NS, end: 5_000_000 * PS_PER_NS };

    fn workloads() -> [Workload; 3] {
        [
            Workload::Steady(Steady { think_ns: 50, ..Steady::default() }),
            Workload::Purge(Purge { cpus_per_purger: 2, think_ns: 10, ..Purge::default() }),
            Workload::Pingpong(Pingpong::default()),
        ]
    }

    fn setup<'s>(workload: &'s Workload, machine: &'s Machine, costs: &'s Costs, cpus: u16, policy: &str) -> Setup<'s> {
        let policy = freehold_policies::parse(policy).unwrap().policy;
        Setup { workload, machine, start: None, cpus, policy, seed: 1, costs, window: WINDOW }
    }

    /// Also uses more threads than CPUs, so that threads are preempted at arbitrary points.
    #[test]
    fn threaded_runs_lose_no_page() {
        let (machine, costs) = (Machine { pages: 1 << 16, nodes: 1 }, Costs::reference());
        for policy in ["linux-6.12", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"] {
            for workload in &workloads() {
                for cpus in [1, 2, 5] {
                    let setup = setup(workload, &machine, &costs, cpus, policy);
                    let run = run_and(&setup, |allocator| {
                        allocator.drain_all_pages();
                        let census = allocator.check().expect("nothing is lost or broken");
                        assert_eq!((census.free, census.allocated), (1 << 16, 0), "{policy}, {workload:?}");
                    });
                    let run = run.unwrap();
                    // On a busy machine a CPU may wait for others during its whole measured time. A single CPU has no
                    // other to wait for.
                    let alone = cpus == 1;
                    assert!(!alone || run.outcome.tally.operations() > 0, "{run:?}");
                    assert!(!alone || run.outcome.span >= WINDOW.picoseconds() / 2, "{run:?}");
                }
            }
        }
    }

    #[test]
    fn only_the_measured_window_is_counted() {
        let (machine, costs) = (Machine { pages: 1 << 16, nodes: 1 }, Costs::reference());
        let steady = Workload::Steady(Steady { high_order_percent: 0, ..Steady::default() });
        let run = run(&setup(&steady, &machine, &costs, 1, "linux-6.12,pcp=off")).unwrap().outcome;
        let (locks, operations) = (run.counts.zone_lock_acquisitions, run.tally.operations());
        // Without lists every operation takes the zone lock. The two counts are at most one reading of the clock apart.
        assert!(locks.abs_diff(operations) <= operations / 20, "{locks} locks, {operations} operations");
    }
}
