//! Costs of two CPUs that share data in the engine: pages that one CPU allocates and the other frees, stacks, and the
//! zone lock.
//!
//! The two CPUs take turns, so neither ever waits for a lock: the measured cost is the transfer of cache lines. Each
//! part is timed by the CPU time of its thread, except [`zone_turns`], where the turn itself is timed.

use std::sync::Mutex;

use fastrand::Rng;
use freehold::PageAllocator;
use freehold::base::{Gfp, Order};
use freehold_timing::clock::Sample;
use freehold_timing::clock::time;
use freehold_timing::spin_barrier::{SpinBarrier, run_beside};

use super::alone::ps_per_operation;
use super::lines::Turns;
use crate::block::Block;
use crate::cpu::Cpu;
use crate::error::Error;
use crate::machine::Machine;
use crate::threads::Threads;
use crate::window::Window;
use crate::world::World;

/// Machine of a gibibyte, on which no list reaches its limit.
const MACHINE: Machine = Machine { pages: 1 << 18, nodes: 1 };
const ALWAYS: Window = Window { begin: 0, end: u64::MAX };
/// Pages that are exchanged in a round; few enough that no stack is full.
const PAGES: usize = 256;
/// Rounds before the timed rounds, and number of timed rounds.
const WARM_UP: usize = 4;
const ROUNDS: usize = 32;
/// Number of timed pairs and of timed parcels on one CPU.
const TIMES: u64 = 4000;

/// Costs of pages that one CPU allocates and the other frees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Allocating the pages.
    pub get: Sample,
    /// Freeing the pages on the other CPU.
    pub put: Sample,
}

/// The CPU that allocates, in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giver {
    /// Always the first CPU.
    First,
    /// The CPUs in turn: a CPU allocates the pages that it freed to its list in the previous round.
    Alternating,
}

/// Measures pages that move between per-CPU lists, under the lists of Linux.
///
/// # Errors
/// Returns an error if the machine cannot be built, or if the second thread may not run on `partner`.
pub(super) fn exchange_by_list(partner: u16) -> Result<Exchange, Error> {
    sum_on_two(partner, "linux-6.12", |cpu, mailbox, barrier| exchange(cpu, mailbox, barrier, Giver::Alternating))
}

/// Measures pages that return to their owner's stack.
///
/// # Errors
/// See [`exchange_by_list`].
pub(super) fn exchange_by_stack(partner: u16) -> Result<Exchange, Error> {
    sum_on_two(partner, "linux-6.12,pcp=owned-remote", |cpu, mailbox, barrier| {
        exchange(cpu, mailbox, barrier, Giver::First)
    })
}

/// Returns the picoseconds of a turn in which two CPUs alternate, each with an allocation and a free under the zone
/// lock. The handover of the turn is included.
///
/// # Errors
/// See [`exchange_by_list`].
pub(super) fn zone_turns(partner: u16) -> Result<f64, Error> {
    let turns = Turns::default();
    let (ps_per_turn, _) =
        run_on_two(partner, "linux-6.12,pcp=off", |cpu, _, _| turns.take(cpu.number().into(), || alloc_and_free(cpu)))?;
    Ok(ps_per_turn)
}

/// Returns the picoseconds of an allocation and a free under the zone lock on one CPU, and of sending or receiving a
/// parcel.
///
/// # Errors
/// Returns an error if the machine cannot be built.
pub(super) fn pair_and_parcel_alone() -> Result<(f64, f64), Error> {
    with_machine("linux-6.12,pcp=off", 1, |allocator, world| {
        allocator.platform().start(0);
        let mut cpu = Cpu::new(allocator, world, 0, 1);
        let pairs = time(TIMES, || (0..TIMES).for_each(|_| alloc_and_free(&mut cpu)));
        let parcels = time(2 * TIMES, || {
            for _ in 0..TIMES {
                cpu.send(0, Vec::with_capacity(PAGES / 8));
                drop(cpu.try_receive());
            }
        });
        (ps_per_operation(pairs), ps_per_operation(parcels))
    })
}

fn alloc_and_free(cpu: &mut Cpu<'_, '_, Threads>) {
    let block = cpu.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("the machine has free memory");
    cpu.free(block);
}

/// Pages in transit between two CPUs.
type Mailbox = Mutex<Vec<Block>>;

/// Runs one CPU's part of an exchange.
fn exchange(cpu: &mut Cpu<'_, '_, Threads>, mailbox: &Mailbox, barrier: &SpinBarrier, giver: Giver) -> Exchange {
    let none = Sample { nanoseconds: 0, operations: 0 };
    let mut sum = Exchange { get: none, put: none };
    for round in 0..WARM_UP + ROUNDS {
        let gives = match giver {
            Giver::First => cpu.number() == 0,
            Giver::Alternating => round % 2 == usize::from(cpu.number()),
        };
        let (mut get, mut put) = (none, none);
        if gives {
            get = give(cpu, mailbox, round);
        }
        barrier.wait();
        if !gives {
            let blocks = std::mem::take(&mut *mailbox.lock().expect("no thread panicked"));
            put = time(PAGES as u64, || blocks.into_iter().for_each(|block| cpu.free(block)));
        }
        barrier.wait();
        if round >= WARM_UP {
            sum = Exchange { get: sum.get + get, put: sum.put + put };
        }
    }
    sum
}

/// Allocates the pages that the other CPU will free, and puts them into the mailbox. In every other pair of rounds,
/// they are shuffled; otherwise they are in the order of allocation.
fn give(cpu: &mut Cpu<'_, '_, Threads>, mailbox: &Mailbox, round: usize) -> Sample {
    let mut blocks = Vec::with_capacity(PAGES);
    let get = time(PAGES as u64, || {
        for _ in 0..PAGES {
            blocks.extend(cpu.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO));
        }
    });
    if round / 2 % 2 == 1 {
        Rng::with_seed(round as u64).shuffle(&mut blocks);
    }
    *mailbox.lock().expect("no thread panicked") = blocks;
    get
}

/// Runs an exchange on two CPUs, and adds up the costs of both.
fn sum_on_two(
    partner: u16,
    policy: &str,
    each: impl Fn(&mut Cpu<'_, '_, Threads>, &Mailbox, &SpinBarrier) -> Exchange + Sync,
) -> Result<Exchange, Error> {
    let (here, there) = run_on_two(partner, policy, each)?;
    Ok(Exchange { get: here.get + there.get, put: here.put + there.put })
}

/// Runs the same code on two CPUs of a machine.
fn run_on_two<R: Send>(
    partner: u16,
    policy: &str,
    each: impl Fn(&mut Cpu<'_, '_, Threads>, &Mailbox, &SpinBarrier) -> R + Sync,
) -> Result<(R, R), Error> {
    with_machine(policy, 2, |allocator, world| {
        let mailbox = Mailbox::default();
        Ok(run_beside(
            partner,
            |barrier| each(&mut start_cpu(allocator, world, 0), &mailbox, barrier),
            |barrier| each(&mut start_cpu(allocator, world, 1), &mailbox, barrier),
        )?)
    })?
}

/// Binds the calling thread to a CPU of the machine, and returns that CPU.
fn start_cpu<'a, 'm>(allocator: &'a PageAllocator<'m, Threads>, world: &'a World, number: u16) -> Cpu<'a, 'm, Threads> {
    allocator.platform().start(number);
    Cpu::new(allocator, world, number, 1)
}

fn with_machine<R>(
    policy: &str,
    cpus: u16,
    run: impl FnOnce(&PageAllocator<'_, Threads>, &World) -> R,
) -> Result<R, Error> {
    let policy = freehold_policies::parse(policy)?.policy;
    let world = World::new(cpus, ALWAYS, 0);
    let done = MACHINE.run_released(Threads::new(cpus, ALWAYS), cpus, policy, |allocator| run(allocator, &world));
    done.map_err(|error| Error::Input(format!("cannot build a machine for the calibration: {error}")))
}
