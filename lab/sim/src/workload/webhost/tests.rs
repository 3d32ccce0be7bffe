//! Tests that the workload follows its parameters in the given proportions, and frees all memory.
//!
//! Each run itself checks that nothing is lost: in debug builds it walks over the whole machine at the end.

use super::Webhost;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::memory::{Advice, Thp};
use crate::outcome::Outcome;
use crate::run::{Setup, simulate};
use crate::window::Window;
use crate::workload::Workload;

/// 128 MiB.
const MACHINE: Machine = Machine { pages: 1 << 15, nodes: 1 };
const CPUS: u16 = 4;
/// One turnover to fill memory, then four that are measured.
const TURNOVERS: u64 = 4;
const WINDOW: Window = Window { begin: 1_000_000_000_000, end: (1 + TURNOVERS) * 1_000_000_000_000 };

fn quick() -> Webhost {
    let mut parameters = Webhost { turnover_s: 1, ..Webhost::default() };
    parameters.task_ranges.most = 2;
    parameters.memory.thp = Thp { enabled: Advice::Madvise, madvised_percent: 50, ..Thp::default() };
    parameters
}

fn run(parameters: Webhost, policy: &str, seed: u64) -> Outcome {
    let policy = freehold_policies::parse(policy).expect("a policy").policy;
    let (costs, workload) = (Costs::reference(), Workload::Webhost(Box::new(parameters)));
    let setup = Setup {
        workload: &workload,
        machine: &MACHINE,
        start: None,
        cpus: CPUS,
        policy,
        seed,
        costs: &costs,
        window: WINDOW,
    };
    simulate(&setup).unwrap_or_else(|error| panic!("{workload:?}: {error}"))
}

fn count(outcome: &Outcome, name: &str) -> u64 {
    outcome.vmstat.get(name).unwrap_or_else(|| panic!("no {name} in {}", outcome.vmstat.text()))
}

/// Returns whether `found` is within a fifth of `wanted`.
fn is_near(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) * 5 <= wanted
}

#[test]
fn memory_turnover_matches_the_plan() {
    let outcome = run(quick(), "linux-6.12", 4);
    let pages = u64::from(MACHINE.pages);
    assert!(outcome.end.free_pages < pages / 10, "{:?}", outcome.end);
    let read = pages * TURNOVERS * 43 / 100;
    let reclaimed = count(&outcome, "pgsteal_kswapd") + count(&outcome, "pgsteal_direct");
    assert!(is_near(reclaimed, read), "{reclaimed} of {read}");
    assert!(count(&outcome, "pgactivate") > 0 && count(&outcome, "nr_active_file") > 0);
    let anon = count(&outcome, "nr_inactive_anon");
    // On so small a machine a single task is a third of the limit of a CPU's tasks, and exits as a whole.
    let share = pages * 34 / 100;
    assert!((share * 2 / 3..=share * 6 / 5).contains(&anon), "{anon} of {pages} pages are the tasks'");
}

#[test]
fn tasks_use_huge_pages_only_if_madvised() {
    let outcome = run(quick(), "linux-6.12", 1);
    let (huge, small) = (count(&outcome, "thp_fault_alloc"), count(&outcome, "pgfault"));
    assert!(huge > 0 && small > huge, "{}", outcome.vmstat.text());
    let mut none = quick();
    none.memory.thp.madvised_percent = 0;
    let outcome = run(none, "linux-6.12", 1);
    assert_eq!(count(&outcome, "thp_fault_alloc") + count(&outcome, "thp_fault_fallback"), 0);
}

#[test]
fn atomic_request_rate_matches_the_plan() {
    let mut parameters = quick();
    parameters.network.per_10000_pages = 200;
    parameters.network.order1_percent = 50;
    parameters.filesystem.per_10000_pages = 0;
    let outcome = run(parameters, "linux-6.12", 1);
    let wanted = u64::from(MACHINE.pages) * TURNOVERS * 200 / 10_000;
    assert!(is_near(count(&outcome, "atomic_order1_3"), wanted), "{} of {wanted}", outcome.vmstat.text());
    assert_eq!(count(&outcome, "atomic_costly"), 0);
}

#[test]
fn zero_shares_leave_only_file_reads() {
    let mut parameters = quick();
    (parameters.anon_turnover_percent, parameters.anon_percent) = (0, 0);
    (parameters.network.per_10000_pages, parameters.filesystem.per_10000_pages) = (0, 0);
    (parameters.kernel.unmovable_per_10000_pages, parameters.kernel.reclaimable_per_10000_pages) = (0, 0);
    let outcome = run(parameters, "linux-6.12", 1);
    assert!(is_near(outcome.tally.allocs, u64::from(MACHINE.pages) * TURNOVERS), "{:?}", outcome.tally);
    assert_eq!((count(&outcome, "pgfault"), count(&outcome, "atomic_order1_3")), (0, 0));
}

#[test]
fn webhost_runs_depend_only_on_the_seed() {
    let once = format!("{:?}", run(quick(), "linux-6.12,highatomic=skip-costly", 7));
    assert_eq!(once, format!("{:?}", run(quick(), "linux-6.12,highatomic=skip-costly", 7)));
    assert_ne!(once, format!("{:?}", run(quick(), "linux-6.12,highatomic=skip-costly", 8)));
}

/// Returns the key that is refused after a change of the default parameters.
fn refused_key(change: fn(&mut Webhost)) -> &'static str {
    let mut parameters = Webhost::default();
    change(&mut parameters);
    parameters.check().expect_err("it makes no sense").key
}

#[test]
fn inconsistent_webhost_shares_are_errors() {
    assert_eq!(Webhost::default().check(), Ok(()));
    assert_eq!(refused_key(|parameters| parameters.turnover_s = 0), "turnover_s");
    assert_eq!(refused_key(|parameters| parameters.turnover_s = u32::MAX), "turnover_s");
    assert_eq!(refused_key(|parameters| parameters.task_ranges.most = u32::MAX), "task_ranges");
    assert_eq!(refused_key(|parameters| parameters.anon_turnover_percent = 100), "anon_turnover_percent");
    assert_eq!(refused_key(|parameters| parameters.reuse_percent = 100), "reuse_percent");
    assert_eq!(refused_key(|parameters| parameters.anon_percent = u32::MAX), "anon_percent");
    assert_eq!(refused_key(|parameters| parameters.kernel.unmovable_permille = 700), "anon_percent");
    assert_eq!(refused_key(|parameters| parameters.network.order1_percent = 60), "network");
    assert_eq!(refused_key(|parameters| parameters.filesystem.order3_percent = 101), "filesystem");
}
