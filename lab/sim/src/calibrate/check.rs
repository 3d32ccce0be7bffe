//! Check of the simulation: the same workloads on real threads and in virtual time, on one CPU and on more.
//!
//! None of these workloads was used to make the table. Each workload runs on threads several times, alternating with
//! all others. Of the runs of a case, those with the least other load on their CPUs count, and at least half of the
//! runs. Their median has a rank interval. The simulation is deterministic and needs one run. The two agree if the
//! simulated value is within a fifth of every value in the interval. They differ if it is further away from every
//! value, on the same side. Otherwise the noise is too large for a decision. Numbers of zone locks also agree if both
//! are below [`LOCKS_MIN`].

use freehold_report::progress::Progress;
use freehold_stats::intervals::{self, median};
use serde::Serialize;

use crate::costs::Costs;
use crate::cpu::PS_PER_NS;
use crate::error::Error;
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::random::LogUniform;
use crate::run::{Setup, simulate};
use crate::threads::run::{self as threads, ThreadRun};
use crate::window::Window;
use crate::workload::Workload;
use crate::workload::exit::Exit;
use crate::workload::pingpong::Pingpong;
use crate::workload::purge::Purge;
use crate::workload::steady::Steady;

/// Largest relative difference that counts as agreement.
const TOLERANCE: f64 = 0.2;
/// Zone lock acquisitions per 1000 operations below which a difference is irrelevant.
pub const LOCKS_MIN: f64 = 0.5;
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// Minimum number of runs. At least six of them count, and the range of six runs contains the median with that
/// confidence.
pub const RUNS_MIN: u32 = 11;
/// Share of time that other load took. All runs below this share count.
const DISTURBANCE_MAX: f64 = 0.02;
/// Machine of a gibibyte.
const MACHINE: Machine = Machine { pages: 1 << 18, nodes: 1 };
/// Window of 20 ms after 5 ms in which lists fill.
const WINDOW: Window = Window { begin: 5_000_000 * PS_PER_NS, end: 25_000_000 * PS_PER_NS };
/// Policies that are both simulated and run.
const POLICIES: [&str; 4] =
    ["linux-6.12", "linux-6.12,pcp=merge", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"];
/// Seed of both executions.
const SEED: u64 = 1;

/// Names of the workloads, in the order of [`workloads`].
pub const NAMES: [&str; 4] = ["steady", "purge", "pingpong", "exit"];

/// Returns workloads that calibration did not use. Their think times are shorter than in their plans, so the allocator
/// takes more of the measured time.
fn workloads() -> [Workload; NAMES.len()] {
    [
        Workload::Steady(Steady { blocks_per_cpu: 700, high_order_percent: 10, think_ns: 60 }),
        Workload::Purge(Purge { burst_percent_of_high: 75, cpus_per_purger: 2, think_ns: 100, purge_ns: 500 }),
        Workload::Pingpong(Pingpong { blocks_per_parcel: 48, order: 0, produce_ns: 60, consume_ns: 60 }),
        Workload::Exit(Exit {
            processes_per_cpu: 2,
            pages: LogUniform::new(64, 2047),
            think_ns: 1000,
            ..Exit::default()
        }),
    ]
}

/// Result of comparing two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The numbers agree.
    Agrees,
    /// The numbers differ.
    Differs,
    /// The runs on threads differ too much from each other for a decision.
    Unsure,
}

/// A number, measured and simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Median of the runs on threads.
    pub threads: f64,
    /// Lower end of the median's interval.
    pub low: f64,
    /// Upper end of the median's interval.
    pub high: f64,
    /// Value in virtual time.
    pub simulated: f64,
    /// Result of the comparison.
    pub agreement: Agreement,
    /// Whether both numbers are so small that they count as equal.
    pub negligible: bool,
}

impl Comparison {
    fn new(threads: &[f64], simulated: f64, negligible: f64) -> Comparison {
        let (low, high) = intervals::rank_interval(threads, CONFIDENCE);
        let [agrees_low, agrees_high] = [low, high]
            .map(|value| (simulated - value).abs() <= TOLERANCE * value || value.max(simulated) < negligible);
        let agreement = match (agrees_low, agrees_high) {
            (true, true) => Agreement::Agrees,
            (false, false) if (low < simulated) == (high < simulated) => Agreement::Differs,
            _ => Agreement::Unsure,
        };
        let is_negligible = high.max(simulated) < negligible;
        let middle = median(&mut threads.to_vec());
        Comparison { threads: middle, low, high, simulated, agreement, negligible: is_negligible }
    }

    /// Returns the relative error of the simulation; `None` if the threads have zero, or if both numbers are
    /// negligible.
    pub fn error(&self) -> Option<f64> {
        (self.threads > 0.0 && !self.negligible).then(|| self.simulated / self.threads - 1.0)
    }
}

/// One workload on a number of CPUs under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the workload.
    pub workload: &'static str,
    /// Number of CPUs.
    pub cpus: u16,
    /// Name of the policy.
    pub policy: &'static str,
    /// Operations per second.
    pub throughput: Comparison,
    /// Zone lock acquisitions per 1000 operations.
    pub zone_locks: Comparison,
    /// Number of runs on threads that count.
    pub runs: usize,
    /// Largest stretch of these runs: elapsed time divided by the time on undisturbed CPUs.
    pub stretch: f64,
}

impl Row {
    /// Returns whether both numbers agree.
    pub fn agrees(&self) -> bool {
        self.throughput.agreement == Agreement::Agrees && self.zone_locks.agreement == Agreement::Agrees
    }
}

/// Runs the workloads `names`, a subset of [`NAMES`], on 1 to `cpus_max` CPUs, `runs` times each, and simulates them
/// with this table.
///
/// # Errors
/// Returns an error if a policy or machine is refused.
pub fn check(costs: &Costs, names: &[&'static str], cpus_max: u16, runs: u32) -> Result<Vec<Row>, Error> {
    let workloads: Vec<_> = NAMES.into_iter().zip(workloads()).filter(|(name, _)| names.contains(name)).collect();
    let cases: Vec<_> = workloads
        .iter()
        .flat_map(|workload| (1..=cpus_max).map(move |cpus| (workload, cpus)))
        .flat_map(|(workload, cpus)| POLICIES.map(move |policy| (workload, cpus, policy)))
        .collect();
    let setups = cases.iter().map(|&((_, workload), cpus, policy)| {
        let policy = freehold_policies::parse(policy)?.policy;
        Ok(Setup { workload, machine: &MACHINE, start: None, cpus, policy, seed: SEED, costs, window: WINDOW })
    });
    let setups: Vec<Setup<'_>> = setups.collect::<Result<_, Error>>()?;
    let progress = Progress::counting("checking", u64::from(runs) * setups.len() as u64, "runs");
    let mut on_threads: Vec<Vec<ThreadRun>> = vec![Vec::new(); setups.len()];
    for _ in 0..runs {
        for (setup, taken) in setups.iter().zip(&mut on_threads) {
            taken.push(threads::run(setup)?);
            progress.advance(1);
        }
    }
    let rows = cases.iter().zip(&setups).zip(on_threads);
    rows.map(|((&((name, _), cpus, policy), setup), taken)| Ok(row(name, cpus, policy, taken, &simulate(setup)?)))
        .collect()
}

fn row(workload: &'static str, cpus: u16, policy: &'static str, taken: Vec<ThreadRun>, simulated: &Outcome) -> Row {
    let calm = least_disturbed(taken);
    Row {
        workload,
        cpus,
        policy,
        throughput: compare(&calm, simulated, Outcome::throughput, 0.0),
        zone_locks: compare(&calm, simulated, Outcome::acquisitions_per_1000, LOCKS_MIN),
        runs: calm.len(),
        stretch: calm.iter().map(|run| run.stretch).fold(1.0, f64::max),
    }
}

/// Compares a number of the runs on threads with the same number of a simulated run.
fn compare(runs: &[ThreadRun], simulated: &Outcome, number: fn(&Outcome) -> f64, negligible: f64) -> Comparison {
    let measured: Vec<f64> = runs.iter().map(|run| number(&run.outcome)).collect();
    Comparison::new(&measured, number(simulated), negligible)
}

/// Returns the runs that count.
fn least_disturbed(mut runs: Vec<ThreadRun>) -> Vec<ThreadRun> {
    runs.sort_by(|one, other| one.stretch.total_cmp(&other.stretch));
    let calm = runs.partition_point(|run| run.stretch <= 1.0 + DISTURBANCE_MAX);
    runs.truncate(calm.max(runs.len().div_ceil(2)));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: [f64; 6] = [98.0, 99.0, 100.0, 100.0, 101.0, 102.0];

    fn agreement(threads: &[f64], simulated: f64) -> Agreement {
        Comparison::new(threads, simulated, 0.0).agreement
    }

    #[test]
    fn agreement_uses_the_confidence_interval() {
        assert_eq!(agreement(&CALM, 110.0), Agreement::Agrees);
        assert_eq!(agreement(&CALM, 130.0), Agreement::Differs);
        assert_eq!(agreement(&CALM, 70.0), Agreement::Differs);
        assert_eq!(agreement(&CALM, 80.0), Agreement::Unsure);
        assert_eq!(agreement(&[50.0, 60.0, 90.0, 110.0, 150.0, 160.0], 100.0), Agreement::Unsure);
    }

    #[test]
    fn negligible_differences_agree() {
        assert_eq!(Comparison::new(&[0.1; 6], 0.3, LOCKS_MIN).agreement, Agreement::Agrees);
        assert_eq!(Comparison::new(&[0.1; 6], 0.7, LOCKS_MIN).agreement, Agreement::Differs);
        let none = Comparison::new(&[0.001; 6], 0.0, LOCKS_MIN);
        assert_eq!((none.agreement, none.negligible, none.error()), (Agreement::Agrees, true, None));
    }
}
