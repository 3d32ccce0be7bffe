//! Races on real threads: two threads do something to one block or one range that only one of them may do. In every
//! round exactly one succeeds. At the end no frame is lost, and none has two owners.
//!
//! No thread sleeps. The two threads meet at a barrier before and after each round. The order of their steps is random;
//! the outcome must not be. Cost: some microseconds per round.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State};
use freehold::page::Config;
use freehold::platform::host::run_on_cpu;
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::attackers::machine::{Engine, with_frames};

/// Rounds for each pair of ways under each policy.
const ROUNDS: u32 = if cfg!(miri) { 2 } else { 150 };
const FRAMES: u32 = 8192;
pub(super) const PCP: [PcpPolicy; 5] =
    [PcpPolicy::Off, PcpPolicy::Linux, PcpPolicy::Merge, PcpPolicy::Owned, PcpPolicy::OwnedRemote];

pub(super) fn config(pcp: PcpPolicy, contig: ContigPolicy) -> Config<'static> {
    let policy = Policy { pcp, contig, ..Policy::FREEHOLD };
    Config { cpu_nodes: &[NodeId(0); 2], policy, ..Config::default() }
}

/// Barrier for two threads. A thread that panics counts as arrived for all further rounds, so that the other thread
/// ends.
#[derive(Default)]
struct Barrier(AtomicU32);

/// Registration of one thread at the barrier.
struct Arrival<'m>(&'m Barrier);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(u32::MAX / 4, SeqCst);
    }
}

impl Arrival<'_> {
    /// Waits until both threads have arrived for the `turn`-th time.
    fn wait(&self, turn: u32) {
        let Arrival(Barrier(came)) = self;
        came.fetch_add(1, SeqCst);
        for look in 0_u32.. {
            if came.load(SeqCst) >= 2 * turn {
                return;
            }
            // Spins at first, so that both threads leave the barrier at nearly the same time.
            if look < 1000 { std::hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

/// Operation of one of the two threads. It takes the number of the round and returns whether it succeeded.
pub(super) type Deed<'d> = &'d (dyn Fn(u32) -> bool + Sync);

/// Runs the operations of two threads at the same time, each on its own CPU, for `rounds` rounds. One of the threads
/// calls `before` ahead of each round, and afterwards calls `after` with the number of successes.
pub(super) fn race(
    rounds: u32,
    before: &(dyn Fn(u32) + Sync),
    deeds: [Deed<'_>; 2],
    after: &(dyn Fn(u32, u32) + Sync),
) {
    let (barrier, successes) = (Barrier::default(), AtomicU32::new(0));
    thread::scope(|scope| {
        for (cpu, deed) in deeds.into_iter().enumerate() {
            let (barrier, successes) = (&barrier, &successes);
            scope.spawn(move || {
                let arrival = Arrival(barrier);
                run_on_cpu(CpuId(cpu as u16));
                for round in 0..rounds {
                    if cpu == 0 {
                        successes.store(0, SeqCst);
                        before(round);
                    }
                    arrival.wait(3 * round + 1);
                    let done = deed(round);
                    successes.fetch_add(u32::from(done), SeqCst);
                    arrival.wait(3 * round + 2);
                    if cpu == 0 {
                        after(round, successes.load(SeqCst));
                    }
                    arrival.wait(3 * round + 3);
                }
            });
        }
    });
}

type Free = fn(&Engine<'_, '_>, Pfn, Order) -> bool;

fn whole(pfn: Pfn, order: Order) -> core::ops::Range<Pfn> {
    pfn..pfn.offset(order.pages())
}

/// Ways to free a block with one reference, and below, ways to free a frozen block. The flag marks those for single
/// pages only.
const REFERENCED: [(&str, bool, Free); 4] = [
    ("free_pages", false, |engine, pfn, order| engine.free_pages(pfn, order).is_ok()),
    ("put_page", false, |engine, pfn, _| engine.put_page(pfn).is_ok()),
    ("free_contig_range", false, |engine, pfn, order| engine.free_contig_range(whole(pfn, order)).is_ok()),
    ("free_pages_bulk", true, |engine, pfn, _| engine.free_pages_bulk(&[pfn]).is_ok()),
];
const FROZEN: [(&str, bool, Free); 2] = [
    ("free_frozen_pages", false, |engine, pfn, order| engine.free_frozen_pages(pfn, order).is_ok()),
    ("free_contig_frozen_range", false, |engine, pfn, order| {
        engine.free_contig_frozen_range(whole(pfn, order)).is_ok()
    }),
];

/// Loads the frame that one of the two threads stored.
pub(super) fn load_pfn(block: &AtomicU32) -> Pfn {
    Pfn::new(block.load(SeqCst))
}

/// Lets two threads free the same block, each in its own way. Returns an error for the first round in which the number
/// of successes was not one.
fn both_free(
    engine: &Engine<'_, '_>,
    order: Order,
    (frozen, rounds): (bool, u32),
    ways: [(&str, bool, Free); 2],
) -> Result<(), String> {
    let (block, wrong) = (AtomicU32::new(0), std::sync::Mutex::new(None));
    let gfp = Gfp::HIGHUSER_MOVABLE | Gfp::NOWARN;
    let [(first, _, one), (second, _, other)] = ways;
    race(
        rounds,
        &|_| {
            let asked = if frozen { engine.alloc_frozen_pages(gfp, order) } else { engine.alloc_pages(gfp, order) };
            block.store(asked.expect("enough memory must be free").raw(), SeqCst);
        },
        [&|_| one(engine, load_pfn(&block), order), &|_| other(engine, load_pfn(&block), order)],
        &|round, successes| {
            if successes != 1 {
                wrong.lock().expect("no thread panicked while it held the lock").get_or_insert((round, successes));
            }
        },
    );
    match wrong.into_inner().expect("no thread panicked while it held the lock") {
        None => Ok(()),
        Some((round, successes)) => {
            Err(format!("{first} against {second}, order {order}: {successes} freed in round {round}"))
        }
    }
}

fn every_pair(engine: &Engine<'_, '_>, order: Order) -> Result<(), String> {
    for (frozen, ways) in [(false, &REFERENCED[..]), (true, &FROZEN[..])] {
        let suit: Vec<_> = ways.iter().filter(|(_, single, _)| !single || order == Order::ZERO).collect();
        for (at, &&first) in suit.iter().enumerate() {
            for &&second in &suit[at..] {
                both_free(engine, order, (frozen, ROUNDS), [first, second])?;
            }
        }
    }
    engine.drain_all_pages();
    let census = engine.check().map_err(|violation| violation.to_string())?;
    if census.free == u64::from(FRAMES) { Ok(()) } else { Err(format!("{census:?}")) }
}

#[test]
fn concurrent_double_free_succeeds_once() {
    for pcp in PCP {
        for contig in [ContigPolicy::OneByOne, ContigPolicy::Batched] {
            with_frames(&config(pcp, contig), FRAMES, |engine| {
                for order in [0, 3, 9, 10].map(Order::new) {
                    every_pair(engine, order).unwrap_or_else(|wrong| panic!("{pcp:?}, {contig:?}: {wrong}"));
                }
            });
        }
    }
}

/// Tests the harness: a planted fault makes a block allocated twice, both frees succeed, and the harness reports this.
#[test]
fn planted_double_allocation_is_found() {
    with_frames(&config(PcpPolicy::Linux, ContigPolicy::Batched), FRAMES, |engine| {
        let forge: Free = |engine, pfn, order| {
            while engine.state(pfn).is_some_and(|state| matches!(state, State::Allocated { .. })) {
                thread::yield_now();
            }
            let refs = 1;
            let state = State::Allocated { order, refs, movable: false, compound: false, poisoned: false, slab: false };
            engine.damage().set_state(pfn, state);
            engine.put_page(pfn).is_ok()
        };
        let ways = [REFERENCED[0], ("a forger", false, forge)];
        let wrong = both_free(engine, Order::ZERO, (false, 1), ways).expect_err("both freed");
        assert!(wrong.contains("2 freed in round 0"), "{wrong}");
    });
}
