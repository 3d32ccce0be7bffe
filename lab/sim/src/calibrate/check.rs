//! Is the simulation to be believed? The same workloads on real threads and in virtual time, on one CPU and on two.
//!
//! None of these workloads was used to make the table. Threads run each of them a number of times, in turn with all
//! others; of the runs of one case those count in which least else ran on its CPUs, and at least half of them. Their
//! median has an interval, by rank. The simulation needs one run: it is exact. The two agree if the whole interval lies
//! where the simulation is at most a fifth off, and differ if all of it lies without; else there is too much noise to
//! tell.

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

/// Largest difference that is agreement, as a share.
const TOLERANCE: f64 = 0.2;
/// Where both take the zone lock less often than this in 1000 operations, it does not matter how often.
pub const LOCKS_MIN: f64 = 0.5;
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// Fewest runs of which at least six count: between the least and the most of six lies the median with that confidence.
pub const RUNS_MIN: u32 = 11;
/// Runs whose CPUs were away for less than this share of the time count all.
const DISTURBANCE_MAX: f64 = 0.02;
/// A gibibyte.
const MACHINE: Machine = Machine { pages: 1 << 18, nodes: 1 };
/// Lists fill for five milliseconds; the next twenty count.
const WINDOW: Window = Window { begin: 5_000_000 * PS_PER_NS, end: 25_000_000 * PS_PER_NS };
/// Policies that are simulated and run.
const POLICIES: [&str; 4] =
    ["linux-6.12", "linux-6.12,pcp=merge", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"];
/// Seed of both.
const SEED: u64 = 1;

/// Names of the workloads, in the order of [`workloads`].
pub const NAMES: [&str; 4] = ["steady", "purge", "pingpong", "exit"];

/// What calibration did not use. They think less than in their plans, so that more of what is timed is the allocator's.
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

/// Whether two numbers agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// They do.
    Agrees,
    /// They do not.
    Differs,
    /// The runs on threads differ too much from each other to tell.
    Unsure,
}

/// A number, measured and simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// On threads: the median.
    pub threads: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// In virtual time.
    pub simulated: f64,
    /// Whether these agree.
    pub agreement: Agreement,
    /// Whether both are so small that they agree whatever they are.
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

    /// How much more the simulation has than the threads, as a share; nothing where these have nothing, or both too
    /// little to tell.
    pub fn error(&self) -> Option<f64> {
        (self.threads > 0.0 && !self.negligible).then(|| self.simulated / self.threads - 1.0)
    }
}

/// One workload on so many CPUs under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: &'static str,
    /// Number of CPUs.
    pub cpus: u16,
    /// The policy.
    pub policy: &'static str,
    /// Operations in a second.
    pub throughput: Comparison,
    /// Times a zone lock was taken in 1000 operations.
    pub zone_locks: Comparison,
    /// Runs on threads that count.
    pub runs: usize,
    /// How many times as long as on CPUs to themselves these took, at worst.
    pub stretch: f64,
}

impl Row {
    /// Whether both numbers agree.
    pub fn agrees(&self) -> bool {
        self.throughput.agreement == Agreement::Agrees && self.zone_locks.agreement == Agreement::Agrees
    }
}

/// Runs workloads of these [`NAMES`] so many times on up to so many CPUs, and simulates them with this table.
///
/// # Errors
/// When a policy or machine is refused.
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

/// Compares a number of runs on threads with the same number of a simulated run.
fn compare(runs: &[ThreadRun], simulated: &Outcome, number: fn(&Outcome) -> f64, negligible: f64) -> Comparison {
    let measured: Vec<f64> = runs.iter().map(|run| number(&run.outcome)).collect();
    Comparison::new(&measured, number(simulated), negligible)
}

/// The runs that count.
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
    fn agreement_heeds_the_interval() {
        assert_eq!(agreement(&CALM, 110.0), Agreement::Agrees);
        assert_eq!(agreement(&CALM, 130.0), Agreement::Differs);
        assert_eq!(agreement(&CALM, 70.0), Agreement::Differs);
        assert_eq!(agreement(&CALM, 80.0), Agreement::Unsure);
        assert_eq!(agreement(&[50.0, 60.0, 90.0, 110.0, 150.0, 160.0], 100.0), Agreement::Unsure);
    }

    #[test]
    fn what_hardly_happens_agrees() {
        assert_eq!(Comparison::new(&[0.1; 6], 0.3, LOCKS_MIN).agreement, Agreement::Agrees);
        assert_eq!(Comparison::new(&[0.1; 6], 0.7, LOCKS_MIN).agreement, Agreement::Differs);
        let none = Comparison::new(&[0.001; 6], 0.0, LOCKS_MIN);
        assert_eq!((none.agreement, none.negligible, none.error()), (Agreement::Agrees, true, None));
    }
}
