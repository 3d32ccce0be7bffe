//! Tests of workloads in virtual time: they end, free all memory, fulfil their purpose, and are reproducible.
//!
//! Each run itself checks that nothing is lost: in debug builds it walks over the whole machine at the end, and fails
//! if a page is still in use.

use super::Workload;
use super::build::Build;
use super::exit::Exit;
use super::recording::Recording;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::random::LogUniform;
use crate::run::{Setup, simulate};
use crate::window::Window;

const POLICIES: [&str; 4] =
    ["linux-6.12", "linux-6.12,pcp=merge", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"];
/// Half a millisecond of warm-up, and two that are measured.
const WINDOW: Window = Window { begin: 500_000_000, end: 2_500_000_000 };
/// 512 MiB.
const MACHINE: Machine = Machine { pages: 1 << 17, nodes: 1 };

fn exit() -> Workload {
    let pages = LogUniform::new(16, 255);
    Workload::Exit(Exit { pages, lifetime_turns: LogUniform::new(1, 7), think_ns: 1000, ..Exit::default() })
}

fn build() -> Workload {
    let faults = LogUniform::new(16, 255);
    Workload::Build(Build { faults, faults_per_step: 8, cached_at_start: 40, files_kept: 50, ..Build::default() })
}

fn recording() -> Workload {
    let recording = "file = \"recordings/build.parquet\"\npace_percent = 10000";
    Workload::Recording(toml::from_str::<Recording>(recording).expect("it names a file"))
}

/// Returns the workload of a server from which few CPUs return memory.
fn server() -> Workload {
    let server = "file = \"malloc-tcmalloc.parquet\"\npace_percent = 10000\ncpus_per_purger = 4\n\
                  tasks = [\"receive\", \"answer\"]\npurgers = [\"answer\"]";
    Workload::Recording(toml::from_str::<Recording>(server).expect("it names a file"))
}

fn run(workload: &Workload, machine: &Machine, cpus: u16, policy: &str, seed: u64) -> Outcome {
    let policy = freehold_policies::parse(policy).expect("a policy").policy;
    let costs = Costs::reference();
    let setup = Setup { workload, machine, start: None, cpus, policy, seed, costs: &costs, window: WINDOW };
    simulate(&setup).unwrap_or_else(|error| panic!("{workload:?} with {cpus} CPUs: {error}"))
}

fn words(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

#[test]
fn workloads_lose_nothing_under_any_policy() {
    for workload in [exit(), build(), recording(), server()] {
        for policy in POLICIES {
            for cpus in [1, 2, 7] {
                let outcome = run(&workload, &MACHINE, cpus, policy, 1);
                let tally = &outcome.tally;
                assert!(
                    tally.allocs > 100 && tally.frees > 100,
                    "{workload:?} with {cpus} CPUs did nothing: {tally:?}"
                );
                assert_eq!(tally.failures, 0, "{workload:?} with {cpus} CPUs");
            }
        }
    }
}

#[test]
fn workload_runs_depend_only_on_the_seed() {
    for workload in [exit(), build(), recording()] {
        let once = words(&run(&workload, &MACHINE, 4, POLICIES[3], 7));
        assert_eq!(once, words(&run(&workload, &MACHINE, 4, POLICIES[3], 7)));
        assert_ne!(once, words(&run(&workload, &MACHINE, 4, POLICIES[3], 8)));
    }
}

#[test]
fn migrated_processes_free_remotely() {
    for workload in [exit(), build(), recording()] {
        let outcome = run(&workload, &MACHINE, 4, POLICIES[0], 1);
        assert!(outcome.tally.remote_frees > 0, "{workload:?}: {:?}", outcome.tally);
        assert_eq!(run(&workload, &MACHINE, 1, POLICIES[0], 1).tally.remote_frees, 0);
    }
}

#[test]
fn missing_or_short_recording_is_an_error() {
    let nowhere = toml::from_str::<Recording>("file = \"nowhere.parquet\"").expect("it names a file");
    assert!(nowhere.stage(2, WINDOW, 1).is_err());
    let Workload::Recording(build) = recording() else { unreachable!("it is one") };
    let error = build.stage(2, Window::after_ms(0, 1000), 1).expect_err("it lasts seconds, and is played fast");
    assert!(error.to_string().contains("make the run shorter"), "{error}");
}

#[test]
fn recording_reports_omitted_events() {
    let workload = recording();
    assert_eq!(workload.left_out(), None, "it has not been read");
    run(&workload, &MACHINE, 2, POLICIES[0], 1);
    assert!(workload.left_out().is_some_and(|sentence| sentence.contains("Blocks freed in parts")));
}

#[test]
fn full_machine_reclaims_its_page_cache() {
    let cached_pages = LogUniform::new(512, 1023);
    let workload = Workload::Build(Build { cached_pages, faults: LogUniform::new(16, 63), ..Build::default() });
    let small = Machine { pages: 1 << 13, nodes: 1 };
    for policy in POLICIES {
        let outcome = run(&workload, &small, 2, policy, 1);
        assert!(outcome.times.reclaim > 0, "{policy}: {:?}", outcome.times);
        assert!(outcome.worst.free_pages < u64::from(small.pages) / 10, "{policy}: {:?}", outcome.worst);
        let tally = &outcome.tally;
        // The page cache can always be reclaimed, but it is not compacted, so larger blocks may be missing.
        assert!(tally.failures * 1000 < tally.allocs, "{policy}: {tally:?}");
    }
}

#[test]
fn machine_without_page_cache_counts_failures() {
    let workload = Workload::Exit(Exit { pages: LogUniform::new(4000, 8000), think_ns: 100, ..Exit::default() });
    let outcome = run(&workload, &Machine { pages: 1 << 13, nodes: 1 }, 2, POLICIES[3], 1);
    assert!(outcome.tally.failures > 0, "{:?}", outcome.tally);
}

#[test]
fn each_node_serves_its_cpus_without_failures() {
    let machine = Machine { nodes: 2, ..MACHINE };
    for policy in POLICIES {
        let outcome = run(&exit(), &machine, 4, policy, 1);
        assert_eq!(outcome.tally.failures, 0, "{policy}");
    }
}
