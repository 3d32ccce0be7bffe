//! Tests of whole runs: nothing is lost, the outcome depends only on the setup, and policies have their known effects.

use super::*;
use crate::cpu::PS_PER_NS;
use crate::workload::build::Build;
use crate::workload::exit::Exit;
use crate::workload::pingpong::Pingpong;
use crate::workload::purge::Purge;
use crate::workload::steady::Steady;

/// A tenth of a millisecond of warm-up, and half of one that is measured.
const WINDOW: Window = Window { begin: 100_000 * PS_PER_NS, end: 600_000 * PS_PER_NS };

/// Constant costs, which are never measured again.
const COSTS: &str = "
    name = 'pinned'
    alloc_ps = 9000
    free_ps = 8000
    zone_lock_ps = 15000
    link_ps = 3000
    block_ps = 4000
    split_ps = 2000
    merge_ps = 4000
    push_ps = 8000
    take_ps = 7000
    absorb_ps = 5000
    line_ps = 60000
    line_remote_ps = 120000
    lock_transfer_ps = 150000
    lock_transfer_remote_ps = 300000
    parcel_ps = 50000
    reclaim_ps = 100000
    scan_ps = 50000
    compact_scan_ps = 5000
    migrate_ps = 1500000
";

const POLICIES: [&str; 5] = [
    "linux-6.12",
    "linux-6.12,pcp=merge",
    "linux-6.12,pcp=owned",
    "linux-6.12,pcp=owned-remote,contig=batched",
    "linux-6.12,pcp=off",
];

fn costs() -> Costs {
    Costs::parse(COSTS).unwrap()
}

fn workloads() -> [Workload; 5] {
    [
        Workload::Steady(Steady { blocks_per_cpu: 64, ..Steady::default() }),
        Workload::Purge(Purge { think_ns: 50, ..Purge::default() }),
        Workload::Pingpong(Pingpong::default()),
        Workload::Exit(Exit::default()),
        Workload::Build(Build::default()),
    ]
}

fn simulated(workload: &Workload, cpus: u16, policy: &str, seed: u64) -> Outcome {
    let machine = Machine { pages: 1 << 17, nodes: if cpus > 4 { 2 } else { 1 } };
    let policy = freehold_policies::parse(policy).unwrap().policy;
    let costs = costs();
    let setup = Setup { workload, machine: &machine, start: None, cpus, policy, seed, costs: &costs, window: WINDOW };
    simulate(&setup).unwrap_or_else(|error| panic!("{workload:?} on {cpus} CPUs under {policy:?}: {error}"))
}

/// Formats all numbers of an outcome.
fn text(outcome: &Outcome) -> String {
    let p99 = outcome.tally.latency_at_permille(990);
    let Outcome { tally, counts, times, end, worst, .. } = outcome;
    format!("{tally:?} {p99} {counts:?} {times:?} {end:?} {worst:?}")
}

/// In debug builds each run ends with a walk over the whole machine.
#[test]
fn runs_on_any_number_of_cpus_lose_no_page() {
    for workload in &workloads() {
        for policy in POLICIES {
            for cpus in [1, 2, 3, 9] {
                let outcome = simulated(workload, cpus, policy, 1);
                assert!(outcome.tally.operations() > 0, "{workload:?}, {policy}");
                let most = outcome.span * u64::from(cpus);
                assert!(outcome.times.sum() <= most, "{workload:?}, {policy}: {:?}", outcome.times);
            }
        }
    }
}

#[test]
fn run_is_independent_of_earlier_runs() {
    let workload = Workload::Purge(Purge { think_ns: 50, ..Purge::default() });
    let first = text(&simulated(&workload, 9, POLICIES[2], 3));
    simulated(&Workload::Build(Build::default()), 3, POLICIES[0], 7);
    assert_eq!(text(&simulated(&workload, 9, POLICIES[2], 3)), first);
    let on_another_thread = std::thread::spawn(move || text(&simulated(&workload, 9, POLICIES[2], 3)));
    assert_eq!(on_another_thread.join().unwrap(), first);
}

/// The outcome is equal on every machine and with every compiler. A deliberate change of the policy `linux-6.12`, the
/// model or this workload updates these numbers, and its commit message gives the reason.
#[test]
fn pinned_run_has_the_recorded_outcome() {
    let workload = Workload::Purge(Purge { think_ns: 50, ..Purge::default() });
    let machine = Machine { pages: 1 << 17, nodes: 2 };
    let (costs, policy) = (costs(), freehold_policies::parse("linux-6.12").unwrap().policy);
    let setup = Setup {
        workload: &workload,
        machine: &machine,
        start: None,
        cpus: 16,
        policy,
        seed: 1,
        costs: &costs,
        window: WINDOW,
    };
    let Outcome { tally, counts, times, end, .. } = simulate(&setup).unwrap();
    let locks = (counts.zone_lock_acquisitions, counts.zone_lock_pages, times.zone_hold, times.zone_wait);
    let memory = (end.allocated_pages, end.listed_pages, end.free_pageblocks);
    let done = (tally.operations(), tally.remote_frees, tally.latency_at_permille(990));
    assert_eq!((done, locks, memory), ((32689, 16351, 69119), (75, 36000, 621862000, 418512000), (1290, 5729, 240)));
}

#[test]
fn another_seed_gives_another_run() {
    let workload = Workload::Steady(Steady::default());
    assert_ne!(text(&simulated(&workload, 2, POLICIES[0], 1)), text(&simulated(&workload, 2, POLICIES[0], 2)));
}

#[test]
fn zone_wait_grows_with_the_cpus() {
    let workload = Workload::Steady(Steady { blocks_per_cpu: 64, ..Steady::default() });
    let waits = [1, 2, 8, 32].map(|cpus| simulated(&workload, cpus, "linux-6.12,pcp=off", 1).zone_wait_share());
    assert_eq!(waits[0], 0.0);
    assert!(waits.is_sorted() && waits[3] > 0.5, "{waits:?}");
}

#[test]
fn owned_pageblocks_reduce_zone_lock_acquisitions() {
    let workload = Workload::Pingpong(Pingpong::default());
    let [owned, linux] = ["linux-6.12,pcp=owned-remote", "linux-6.12"]
        .map(|policy| simulated(&workload, 8, policy, 1).acquisitions_per_1000());
    assert!(owned < linux, "{owned} against {linux}");
}

#[test]
fn largest_number_of_cpus_runs() {
    let workload = Workload::Pingpong(Pingpong::default());
    let machine = Machine { pages: 1 << 20, nodes: 2 };
    let (costs, policy) = (costs(), freehold_policies::parse("linux-6.12").unwrap().policy);
    let window = Window { begin: 0, end: 50_000 * PS_PER_NS };
    let setup = Setup {
        workload: &workload,
        machine: &machine,
        start: None,
        cpus: CPUS_MAX,
        policy,
        seed: 1,
        costs: &costs,
        window,
    };
    let outcome = simulate(&setup).unwrap();
    assert!(outcome.tally.remote_frees > u64::from(CPUS_MAX));
}

#[test]
fn single_cpu_run_is_observed() {
    let workload = Workload::Steady(Steady::default());
    let outcome = simulated(&workload, 1, "linux-6.12", 1);
    assert!(outcome.end.allocated_pages > 0 && outcome.times.operations > 0, "{outcome:?}");
}
