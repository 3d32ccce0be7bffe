//! Tests of the engine against two other implementations: a simple model of frames that checks every result, and a
//! reference that predicts it.
//!
//! Random steps run in shrunken worlds (`world`), on the engine, on the model (`frame_model`), and on a second
//! implementation of the rules (`reference`). The reference must return the same frame for every request, call the
//! platform in the same way and order, and keep every list in the same order. `check()` runs between the steps. A
//! failure prints the world, the seed, and a shortened list of steps that can be run again.
//!
//! ```text
//! cargo test -p freehold --test it model::                               the usual three million steps
//! TEST_FACTOR=2000 cargo test --release -p freehold --test it model::    a whole night
//! ```

mod answers;
mod compare;
mod frame_model;
mod owner;
mod reference;
mod runner;
mod shrink;
mod step;
mod world;

use freehold::Policy;
use freehold::policy::HighAtomicPolicy;
use freehold::policy::PcpPolicy::{Owned, OwnedRemote};
use freehold::stats::Counts;

use crate::common::repetitions;
use reference::owned::Cases;
use runner::{Met, Sabotage};
use step::Step;
use world::World;

/// Steps per run. Each run starts with a new machine, which again reaches the special cases of a machine with little
/// history.
const STEPS_A_RUN: usize = 20_000;
/// Runs of each world, times `TEST_FACTOR`: three million steps in twenty-six worlds.
const RUNS: u64 = 6;
/// Maximum number of further runs of a world in which a rare case has not occurred.
const MORE_RUNS: u64 = 20;

fn draw(world: &World, seed: u64) -> Vec<Step> {
    let steps = step::draw(seed, STEPS_A_RUN, world.cpus(), world.nodes, world.end());
    if world.has_lulls { step::with_lulls(&steps, seed, world.cpus(), world.nodes) } else { steps }
}

/// Runs a world from many seeds, until each rare case has occurred. `rare` returns the counts of rare cases of this world
/// in addition to those of all worlds.
fn torture(world: &World, rare: impl Fn(&Counts) -> [u64; 5]) {
    torture_for(world, |met| rare(&met.counts));
}

fn torture_for<const CASES: usize>(world: &World, rare: impl Fn(&Met) -> [u64; CASES]) {
    let mut seen = vec![0; 9 + CASES];
    let runs = repetitions(RUNS);
    for seed in 0..runs + MORE_RUNS {
        if seed >= runs && !seen.contains(&0) {
            break;
        }
        let steps = draw(world, seed);
        match shrink::outcome(world, &steps, Sabotage::None) {
            Ok(met) => {
                let cases = under_pressure(&met.counts).into_iter().chain(rare(&met));
                seen.iter_mut().zip(cases).for_each(|(sum, count)| *sum += count);
            }
            Err(problem) => report(world, seed, &steps, &problem),
        }
    }
    assert!(!seen.contains(&0), "world '{}' never reached one of its rare cases: {seen:?}", world.name);
}

fn report(world: &World, seed: u64, steps: &[Step], problem: &str) -> ! {
    let (short, again) = shrink::shrink(world, steps, Sabotage::None);
    let listed: Vec<String> = short.iter().map(Step::source).collect();
    let (name, count, listed) = (world.name, short.len(), listed.join("\n"));
    panic!("world '{name}', seed {seed}: {problem}\nshortened to {count} steps: {again}\n{listed}");
}

fn under_pressure(counts: &Counts) -> [u64; 9] {
    [
        counts.pgsteal_direct,
        counts.pgsteal_kswapd,
        counts.pageoutrun,
        counts.compact_success,
        counts.compact_fail,
        counts.compact_daemon_wake,
        counts.migrations,
        counts.migrations_refused,
        counts.broken_promises,
    ]
}

fn with_reserve(counts: &Counts) -> [u64; 5] {
    [counts.fallback_claims, counts.boosts, counts.reserves, counts.unreserves, counts.withheld]
}

fn with_steals(counts: &Counts) -> [u64; 5] {
    [counts.fallback_claims, counts.fallback_steals, counts.boosts, counts.failures, counts.withheld]
}

#[test]
fn tiny_blocks() {
    torture(&world::tiny_blocks(), with_reserve);
}

#[test]
fn two_nodes() {
    torture(&world::two_nodes(), |counts| {
        [counts.fallback_claims, counts.fallback_steals, counts.boosts, counts.reserves, counts.unreserves]
    });
}

#[test]
fn ragged() {
    torture(&world::ragged(), with_reserve);
}

#[test]
fn pc_blocks() {
    torture(&world::pc_blocks(), with_steals);
}

#[test]
fn largest_blocks() {
    torture(&world::largest_blocks(), |counts| {
        [counts.fallback_claims, counts.pcp_refills, counts.pcp_drains, counts.failures, counts.withheld]
    });
}

#[test]
fn tiny_blocks_merged() {
    torture(&world::merged(world::tiny_blocks()), with_reserve);
}

#[test]
fn two_nodes_merged() {
    torture(&world::merged(world::two_nodes()), with_steals);
}

/// Returns the counts of the cases that occur in every world in which CPUs own pageblocks.
fn with_owners(met: &Met) -> [u64; 10] {
    let Cases { recalls, owned, joined, parts, whole, retyped, isolated, orphans, .. } = met.cases;
    let Counts { pcp_split_blocks, pcp_merge_blocks, .. } = met.counts;
    [recalls, owned, joined, parts, whole, retyped, isolated, orphans, pcp_split_blocks, pcp_merge_blocks]
}

#[test]
fn tiny_blocks_owned() {
    torture_for(&world::with_cpus(3, world::owned(Owned, world::tiny_blocks())), with_owners);
}

#[test]
fn pc_blocks_owned() {
    torture_for(&world::with_cpus(2, world::owned(Owned, world::pc_blocks())), with_owners);
}

#[test]
fn ragged_owned_under_7_3() {
    torture_for(&world::owned(Owned, world::of_kernel(Policy::LINUX_7_3, world::ragged())), with_owners);
}

/// Returns the counts of [`with_owners`], and those of stacks.
fn with_stacks(met: &Met) -> [u64; 15] {
    let [recalls, owned, joined, parts, whole, retyped, isolated, orphans, splits, merges] = with_owners(met);
    let (Cases { homecomings, flushes, rescues, kept, .. }, pushes) = (met.cases, met.counts.stack_pushes);
    [
        recalls,
        owned,
        joined,
        parts,
        whole,
        retyped,
        isolated,
        orphans,
        splits,
        merges,
        homecomings,
        flushes,
        rescues,
        kept,
        pushes,
    ]
}

#[test]
fn tiny_blocks_as_shipped() {
    torture_for(&world::with_cpus(3, world::shipped(world::tiny_blocks())), with_stacks);
}

#[test]
fn pc_blocks_as_shipped() {
    torture_for(&few_pageblocks(), with_stacks);
}

/// Returns a machine on which fewer pageblocks are whole than there are CPUs, before its memory is short.
fn few_pageblocks() -> World {
    world::with_cpus(3, world::shipped(world::pc_blocks()))
}

#[test]
fn ragged_as_shipped() {
    torture_for(&world::shipped(world::ragged()), with_stacks);
}

#[test]
fn two_nodes_with_stacks_under_7_2() {
    torture_for(&world::owned(OwnedRemote, world::of_kernel(Policy::LINUX_7_2, world::two_nodes())), with_stacks);
}

#[test]
fn ragged_without_lists() {
    torture(&world::without_lists(world::ragged()), with_reserve);
}

#[test]
fn tiny_blocks_without_small_reserves() {
    torture(&world::under(HighAtomicPolicy::SkipCostly, world::tiny_blocks()), with_reserve);
}

#[test]
fn tiny_blocks_that_use_the_reserve_first() {
    torture(&world::under(HighAtomicPolicy::ReuseFirst, world::tiny_blocks()), with_reserve);
}

#[test]
fn ragged_that_uses_the_reserve_first() {
    torture(&world::under(HighAtomicPolicy::ReuseFirst, world::ragged()), with_reserve);
}

#[test]
fn tiny_blocks_that_give_the_reserve_back() {
    torture(&world::with_lulls(world::under(HighAtomicPolicy::GiveBack, world::tiny_blocks())), with_reserve);
}

#[test]
fn two_nodes_under_6_18() {
    torture(&world::of_kernel(Policy::LINUX_6_18, world::two_nodes()), with_steals);
}

#[test]
fn tiny_blocks_under_7_2() {
    torture(&world::of_kernel(Policy::LINUX_7_2, world::tiny_blocks()), with_reserve);
}

#[test]
fn two_nodes_under_7_2() {
    torture(&world::of_kernel(Policy::LINUX_7_2, world::two_nodes()), with_steals);
}

#[test]
fn ragged_under_7_3() {
    torture(&world::of_kernel(Policy::LINUX_7_3, world::ragged()), with_reserve);
}

#[test]
fn pc_blocks_under_7_3() {
    torture(&world::of_kernel(Policy::LINUX_7_3, world::pc_blocks()), with_steals);
}

#[test]
fn two_nodes_in_defrag_mode() {
    torture(&world::defragged(world::two_nodes()), with_steals);
}

#[test]
fn pc_blocks_in_defrag_mode() {
    torture(&world::defragged(world::pc_blocks()), with_steals);
}

#[test]
fn ragged_in_defrag_mode() {
    torture(&world::defragged(world::ragged()), with_reserve);
}

/// Tests the harness: each planted fault is found, and shortened to a few steps.
#[test]
fn planted_faults_are_found() {
    let faults = [
        (Sabotage::ForgetFree, "pages of"),
        (Sabotage::ShiftAnswer, "the rules give"),
        (Sabotage::OverwriteWord, "inconsistent"),
        (Sabotage::WrongEnd, "the rules"),
        (Sabotage::NoBoost, "the rules"),
        (Sabotage::NeverUrgent, "priority: 12"),
        (Sabotage::KeepBoost, "boost is"),
        (Sabotage::LastTargetFirst, "migration"),
    ];
    faults.into_iter().for_each(|fault| expect_found(&world::ragged(), 8, fault));
}

/// Tests the harness for the rule by which an idle reserve is returned.
#[test]
fn planted_faults_in_give_back_are_found() {
    let world = world::with_lulls(world::under(HighAtomicPolicy::GiveBack, world::tiny_blocks()));
    expect_found(&world, 6, (Sabotage::KeepIdle, "the rules"));
}

/// Tests the harness for the rules of owned pageblocks.
#[test]
fn planted_faults_in_ownership_are_found() {
    let faults = [
        (Sabotage::RecallNewest, "the rules"),
        (Sabotage::OpenEarly, "the rules"),
        (Sabotage::LeaveNobodys, "the rules"),
        (Sabotage::CutAtOnce, "the rules"),
        (Sabotage::CutLast, "the rules"),
        (Sabotage::OwnedFirst, "the rules"),
        (Sabotage::FirstHomeFirst, "the rules"),
        (Sabotage::PassStacks, "the rules"),
        (Sabotage::KeepHomecoming, "the rules"),
        (Sabotage::KeepEstates, "CpuDead"),
        (Sabotage::KeepThroughUse, "the rules"),
    ];
    let world = world::shipped(world::ragged());
    faults.into_iter().for_each(|fault| expect_found(&world, 4, fault));
    expect_found(&few_pageblocks(), 4, (Sabotage::HomeAnyway, "the rules"));
}

fn expect_found(world: &World, seed: u64, (sabotage, expected): (Sabotage, &str)) {
    let steps = draw(world, seed);
    let Err(problem) = shrink::outcome(world, &steps, sabotage) else { panic!("{sabotage:?} was not found") };
    assert!(problem.contains(expected), "{sabotage:?} was reported as: {problem}");
    let (short, _) = shrink::shrink(world, &steps, sabotage);
    assert!(short.len() < steps.len() / 10, "{sabotage:?} was shortened to {} steps only", short.len());
}
