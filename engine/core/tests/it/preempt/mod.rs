//! Preemption at any point: threads are preempted before, under and after every lock, and may run on another CPU
//! between two reads of the CPU number. Trylocks therefore fail, and results may be outdated when they are used.
//!
//! More threads than CPUs allocate, free each other's blocks one by one, in bulk and as ranges, allocate given ranges,
//! break frames, drain lists, take CPUs offline and online, and use memory up to the last page. Between rounds all
//! threads have ended and all pages are counted. At the end all memory is free and merged, and no pageblock has an
//! owner.
//!
//! ```text
//! cargo test -p freehold --test it preempt::                                a few seconds
//! TEST_FACTOR=500 cargo test --release -p freehold --test it preempt::      a whole night
//! ```

mod platform;
mod worker;

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use fastrand::Rng;
use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, MinFree, Range};
use freehold::policy::{Numbers, PcpPolicy, highatomic};
use freehold::stats::Counts;

use crate::common::holders::{Beside, Hold};
use crate::common::{Memory, build_on, join_all, random_events, range, repetitions};
use platform::Floating;
use worker::{Engine, Sabotage, Worker};

const CPUS: u16 = 4;
const THREADS: u64 = 6;
const ROUNDS: u64 = 4;
const STEPS: u32 = 4000;
/// Start of the Movable zone. The zone below it is large enough for a reserve of one pageblock.
const MOVABLE: u32 = 3328;
/// End of both zones.
const END: u32 = 4096;

/// Runs all rounds on a machine with small pageblocks and lists that hold four of them. Returns the engine's counts.
fn run(pcp: PcpPolicy, seed: u64, sabotage: Sabotage) -> Counts {
    let policy = Policy { pcp, numbers: Numbers { pcp_batch: Some(32), ..Numbers::default() }, ..Policy::FREEHOLD };
    let cpu_nodes = [NodeId(0); CPUS as usize];
    let config = Config { cpu_nodes: &cpu_nodes, policy, pageblock_order: Order::new(5), ..Config::default() };
    let ranges = [range(ZoneKind::Normal, 0, 0, MOVABLE), range(ZoneKind::Movable, 0, MOVABLE, END)];
    let mut memory = Memory::on::<Floating>(&config, &ranges);
    let engine = build_on(Floating::new(CPUS), &config, &ranges, &mut memory);
    for Range { start, end, .. } in ranges {
        engine.release(start, end).expect("the range is online");
    }
    engine.set_up_watermarks(MinFree::Pages(64));
    let beside = Beside::new(END);
    for round in 0..ROUNDS {
        play(&engine, &beside, seed * ROUNDS + round, sabotage);
        look(&engine, &beside);
    }
    finish(&engine, &beside);
    engine.platform().counts()
}

/// Runs one round: all threads work, and then put the blocks that they hold into the mailbox.
fn play(engine: &Engine<'_>, beside: &Beside, round: u64, sabotage: Sabotage) {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for seed in round * THREADS..(round + 1) * THREADS {
            threads.push(scope.spawn(move || {
                random_events::draw_from(seed);
                Worker { engine, beside, rng: Rng::with_seed(seed), sabotage, mine: Vec::new() }.work(STEPS);
            }));
        }
        join_all(threads);
    });
}

/// Checks the machine while no thread runs: every page is accounted for, and requests that use all memory leave no page
/// on a stack.
fn look(engine: &Engine<'_>, beside: &Beside) {
    let census = engine.check().expect("the check must find no error");
    assert_eq!(census.allocated, beside.held(), "{census:?}");
    for zone in engine.zones() {
        let cap = highatomic::cap(zone.managed(), 32);
        assert!(zone.reserved_highatomic() <= cap, "two concurrent requests reserved more than the limit");
    }
    let last = Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC;
    let pages: Vec<Pfn> = std::iter::from_fn(|| engine.alloc_pages(last, Order::ZERO).ok()).collect();
    pages.iter().for_each(|&pfn| beside.mark((pfn, Order::ZERO), Hold::Taken));
    for (zone, cpu) in engine.zones().iter().flat_map(|zone| (0..CPUS).map(move |cpu| (zone, CpuId(cpu)))) {
        assert_eq!(engine.pcp(cpu, zone).waiting(), 0, "a request failed although pages waited for their owner");
    }
    assert_eq!(engine.check().expect("the check must find no error").allocated, beside.held());
    pages.iter().for_each(|&pfn| beside.mark((pfn, Order::ZERO), Hold::Dropped));
    engine.free_pages_bulk(&pages).expect("the test holds these pages");
}

/// Frees everything. All memory must then be merged, and no whole pageblock may have an owner.
fn finish(engine: &Engine<'_>, beside: &Beside) {
    while let Some((pfn, order)) = beside.collect() {
        beside.mark((pfn, order), Hold::Dropped);
        engine.free_pages(pfn, order).expect("the block must still be allocated");
    }
    (0..CPUS).for_each(|cpu| engine.cpu_online(CpuId(cpu)));
    engine.drain_all_pages();
    let census = engine.check().expect("the check must find no error");
    let broken = engine.platform().counts().withheld;
    let found = (census.free, census.cached, census.allocated, census.withheld);
    assert_eq!(found, (u64::from(END) - broken, 0, 0, broken));
    for block in engine.map().pageblocks().take_while(|block| block.raw() < END) {
        let mut frames = block.up_to(block.offset(32));
        let is_whole = frames.all(|pfn| engine.state(pfn) != Some(State::Withheld));
        assert!(!is_whole || engine.map().pageblock(block).owner().is_none(), "pageblock {block} is whole, and owned");
    }
}

#[track_caller]
fn expect_order(pcp: PcpPolicy) -> Counts {
    let sum = (0..repetitions(1)).map(|seed| run(pcp, seed, Sabotage::None)).reduce(|sum, counts| sum.plus(&counts));
    let counts = sum.expect("there must be at least one run");
    let rare = [counts.trylock_failures, counts.failures, counts.withheld, counts.reserves, counts.fallback_claims];
    assert!(
        !rare.contains(&0) && counts.pcp_refills > 0 && counts.pcp_drains > 0,
        "an event that must occur did not occur: {counts:?}"
    );
    counts
}

#[test]
fn linux_lists() {
    expect_order(PcpPolicy::Linux);
}

#[test]
fn merge_lists() {
    assert!(expect_order(PcpPolicy::Merge).pcp_merge_blocks > 0);
}

#[test]
fn owned_pageblocks() {
    let counts = expect_order(PcpPolicy::Owned);
    assert!(counts.pcp_split_blocks > 0 && counts.stack_pushes == 0, "{counts:?}");
}

#[test]
fn owned_pageblocks_with_stacks() {
    let counts = expect_order(PcpPolicy::OwnedRemote);
    assert!(counts.pcp_split_blocks > 0 && counts.stack_pushes > counts.stack_takes, "{counts:?}");
}

/// Tests the harness: it detects a double free and a lost block.
#[test]
fn planted_faults_are_found() {
    for sabotage in [Sabotage::FreesTwice, Sabotage::LosesABlock] {
        for pcp in [PcpPolicy::Owned, PcpPolicy::OwnedRemote] {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(pcp, 0, sabotage)));
            assert!(outcome.is_err(), "{sabotage:?} was not found under {pcp:?}");
        }
    }
}
