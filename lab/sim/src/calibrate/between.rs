//! What it costs that two CPUs meet in the engine: pages that one frees and the other had, stacks, and the zone lock.
//!
//! The two take turns, so nobody ever waits for a lock: what is measured is the way of cache lines. The time of each
//! part is its own CPU time, except where the way itself is the turn.

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

/// A gibibyte: no list runs full.
const MACHINE: Machine = Machine { pages: 1 << 18, nodes: 1 };
const ALWAYS: Window = Window { begin: 0, end: u64::MAX };
/// Pages that change hands at a time: no stack runs full.
const PAGES: usize = 256;
/// Times that they do before it is timed, and while it is.
const WARM_UP: usize = 4;
const ROUNDS: usize = 32;
/// Pairs and parcels of one CPU.
const TIMES: u64 = 4000;

/// What pages that change hands cost, each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Allocating them.
    pub get: Sample,
    /// Freeing them on the other CPU.
    pub put: Sample,
}

/// Who allocates, round by round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giver {
    /// Always the first CPU.
    First,
    /// Each in turn: what one freed to its list it allocates next.
    Alternating,
}

/// Pages that go from list to list, under the lists of Linux.
///
/// # Errors
/// When the machine cannot be built, or the second thread may not run there.
pub(super) fn exchange_by_list(partner: u16) -> Result<Exchange, Error> {
    sum_on_two(partner, "linux-6.12", |cpu, mailbox, barrier| exchange(cpu, mailbox, barrier, Giver::Alternating))
}

/// Pages that go home by stack.
///
/// # Errors
/// As [`exchange_by_list`].
pub(super) fn exchange_by_stack(partner: u16) -> Result<Exchange, Error> {
    sum_on_two(partner, "linux-6.12,pcp=owned-remote", |cpu, mailbox, barrier| {
        exchange(cpu, mailbox, barrier, Giver::First)
    })
}

/// Picoseconds of a pair of allocation and free that take the zone lock, when two CPUs do it in turn; the way of the
/// turn itself included.
///
/// # Errors
/// As [`exchange_by_list`].
pub(super) fn zone_turns(partner: u16) -> Result<f64, Error> {
    let turns = Turns::default();
    let (ps_per_turn, _) =
        run_on_two(partner, "linux-6.12,pcp=off", |cpu, _, _| turns.take(cpu.number().into(), || alloc_and_free(cpu)))?;
    Ok(ps_per_turn)
}

/// Picoseconds of such a pair on one CPU, and of a parcel that it sends to itself.
///
/// # Errors
/// When the machine cannot be built.
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
    let block = cpu.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("memory is plenty");
    cpu.free(block);
}

/// Where pages lie between two CPUs.
type Mailbox = Mutex<Vec<Block>>;

/// What one of two CPUs does in an exchange.
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

/// Allocates what the other CPU will free: in the order of allocation, and every other time pair of rounds at random.
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

/// Does an exchange on two CPUs, and adds up what both did.
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

/// Makes the calling thread stand for a CPU, and returns that CPU.
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
    done.map_err(|error| Error::Input(format!("no machine can be built to calibrate on: {error}")))
}
