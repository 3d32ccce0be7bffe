//! A comparison from its first run to its verdict.
//!
//! Runs are taken until the evidence is enough at one of the planned looks, the runs are used up, or the time is (but
//! no fewer than a verdict needs). The runs come from outside as a function, so tests feed this code with runs whose
//! truth is known. Beside the verdict stands what might disturb it: pairs far out, which the medians resist, and drift,
//! which pairing cancels unless it hits the two sides differently.

use std::time::Instant;

use fastrand::Rng;
use freehold_stats::intervals::{self, median};
use freehold_stats::verdict::Verdict;
use serde::{Serialize, Serializer};

use super::decide::{self, Estimate, Look, Looks, Margin};
use super::run::{Pair, Run};

/// A trend of so many standard deviations is not chance.
const TREND_MIN: f64 = 3.0;
/// Smaller drifts than this are of no consequence, as a share.
const DRIFT_MIN: f64 = 0.005;

/// What decides, apart from the runs.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// What counts as no difference.
    pub margin: Margin,
    /// When the result is looked at.
    pub looks: Looks,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// What a comparison or a contest weighs in its bar.
pub(crate) const WEIGHT: u64 = 1000;

/// Which part of the most runs or of the most time is used up.
pub(crate) fn used_up(runs: usize, runs_max: usize, start: Instant, seconds_max: f64) -> f64 {
    (runs as f64 / runs_max as f64).max(start.elapsed().as_secs_f64() / seconds_max)
}

/// Whether there is time for more runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// There is.
    Left,
    /// There is none.
    Over,
}

/// What came out of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Nanoseconds an operation of A: median over the runs.
    pub a_ns: f64,
    /// The same of B.
    pub b_ns: f64,
    /// Lower end of the interval of B's median, as confident as that of the ratio.
    pub b_ns_low: f64,
    /// Upper end.
    pub b_ns_high: f64,
    /// B's time over A's.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// What that means.
    pub verdict: Verdict,
    /// If undecided, how many more runs would probably decide.
    pub runs_missing: Option<usize>,
    /// What might disturb the verdict.
    #[serde(flatten)]
    pub disturbance: Disturbance,
    /// Every run that was taken, without its warm-up; in short in the JSON.
    #[serde(rename = "each_run", serialize_with = "serialize_in_short")]
    pub runs: Vec<Run>,
}

/// A run in short.
#[derive(Serialize)]
struct RunInShort {
    a_ns: f64,
    b_ns: f64,
    ratio: f64,
}

fn serialize_in_short<S: Serializer>(runs: &[Run], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| RunInShort {
        a_ns: run.middle(|pair| pair.a.per_operation()),
        b_ns: run.middle(|pair| pair.b.per_operation()),
        ratio: run.log_ratio().exp(),
    }))
}

/// Signs of trouble in the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// Pairs taken.
    pub pairs: usize,
    /// Pairs far out of their half of a run.
    pub outlier_pairs: usize,
    /// Share by which A's time rose from the first run to the last, if that is no chance.
    pub drift_of_a: Option<f64>,
    /// Share by which the ratio rose, likewise: this one does touch the verdict.
    pub drift_of_ratio: Option<f64>,
}

/// Takes runs until the verdict is clear.
///
/// # Errors
/// The first that `take_run` returns.
pub(crate) fn settle<E>(
    rules: &Rules,
    mut take_run: impl FnMut(usize) -> Result<Run, E>,
    mut time: impl FnMut() -> Time,
) -> Result<Outcome, E> {
    let mut rng = Rng::with_seed(rules.seed);
    let mut runs = Vec::new();
    loop {
        runs.push(take_run(runs.len())?);
        let late = runs.len() >= decide::RUNS_MIN && time() == Time::Over;
        let over = late || rules.looks.is_last(runs.len());
        if !over && !rules.looks.is_due(runs.len()) {
            continue;
        }
        let log_ratios: Vec<f64> = runs.iter().map(Run::log_ratio).collect();
        let estimate = Estimate::from_log_ratios(&log_ratios, rules.looks.confidence(), &mut rng);
        let verdict = decide::judge(&estimate, rules.margin, if over { Look::Last } else { Look::Interim });
        if over || !verdict.is_open() {
            return Ok(conclude(runs, &log_ratios, estimate, verdict, rules.margin));
        }
    }
}

fn conclude(runs: Vec<Run>, log_ratios: &[f64], estimate: Estimate, verdict: Verdict, margin: Margin) -> Outcome {
    let mut a: Vec<f64> = runs.iter().map(|run| run.middle(|pair| pair.a.per_operation())).collect();
    let mut b: Vec<f64> = runs.iter().map(|run| run.middle(|pair| pair.b.per_operation())).collect();
    let disturbance = Disturbance::from_runs(&runs, &a, log_ratios);
    let (b_ns_low, b_ns_high) = intervals::rank_interval(&b, estimate.confidence);
    Outcome {
        a_ns: median(&mut a),
        b_ns: median(&mut b),
        b_ns_low,
        b_ns_high,
        runs_missing: verdict.is_open().then(|| decide::runs_missing(&estimate, margin)),
        estimate,
        verdict,
        disturbance,
        runs,
    }
}

impl Disturbance {
    fn from_runs(runs: &[Run], a: &[f64], log_ratios: &[f64]) -> Disturbance {
        let deviations: Vec<f64> = runs.iter().flat_map(|run| &run.halves).flat_map(|half| deviations(half)).collect();
        let log_a: Vec<f64> = a.iter().map(|each| each.ln()).collect();
        Disturbance {
            pairs: deviations.len(),
            outlier_pairs: intervals::outliers(&deviations),
            drift_of_a: drift(&log_a),
            drift_of_ratio: drift(log_ratios),
        }
    }
}

/// Returns how far the log ratio of each pair is from the middle of its half of a run.
fn deviations(half: &[Pair]) -> Vec<f64> {
    let log_ratios: Vec<f64> = half.iter().map(|pair| pair.log_ratio()).collect();
    let middle = median(&mut log_ratios.clone());
    log_ratios.into_iter().map(|log_ratio| log_ratio - middle).collect()
}

/// The share by which values rose over time, given their logarithms; nothing if that is chance, or too little to
/// matter.
fn drift(logs: &[f64]) -> Option<f64> {
    let share = intervals::theil_sen_change(logs).exp_m1();
    (intervals::mann_kendall(logs).abs() > TREND_MIN && share.abs() > DRIFT_MIN).then_some(share)
}
