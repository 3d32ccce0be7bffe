//! A comparison from its first run to its verdict.
//!
//! Runs are taken until the evidence is sufficient at one of the planned looks, the maximum number of runs is reached,
//! or the time is over; but never fewer than a verdict needs. A caller passes the function that takes a run, so tests
//! can pass runs whose true ratio is known. The outcome also reports two possible disturbances: outlier pairs, which
//! the medians resist, and drift, which pairing cancels unless it differs between the two sides.

use std::time::Instant;

use fastrand::Rng;
use freehold_stats::intervals::{self, median};
use freehold_stats::verdict::Verdict;
use serde::{Serialize, Serializer};

use super::decide::{self, Estimate, Look, Looks, Margin};
use super::run::{Pair, Run};

/// Minimum size of a trend that is reported, in standard deviations.
const TREND_MIN: f64 = 3.0;
/// Minimum drift that is reported, as a share.
const DRIFT_MIN: f64 = 0.005;

/// Parameters of the decision.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Largest difference that counts as no difference.
    pub margin: Margin,
    /// Numbers of runs after which the result is looked at.
    pub looks: Looks,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Weight of a comparison or a contest in its progress bar.
pub(crate) const WEIGHT: u64 = 1000;

/// Returns the used share of the maximum runs or of the maximum time, whichever is larger.
pub(crate) fn used_up(runs: usize, runs_max: usize, start: Instant, seconds_max: f64) -> f64 {
    (runs as f64 / runs_max as f64).max(start.elapsed().as_secs_f64() / seconds_max)
}

/// State of the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// There is time for more runs.
    Left,
    /// The time is over.
    Over,
}

/// Outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Nanoseconds per operation of A: median over the runs.
    pub a_ns: f64,
    /// Nanoseconds per operation of B: median over the runs.
    pub b_ns: f64,
    /// Lower end of the interval of B's median, at the confidence of the ratio's interval.
    pub b_ns_low: f64,
    /// Upper end of that interval.
    pub b_ns_high: f64,
    /// Ratio of B's time to A's.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Verdict on the ratio.
    pub verdict: Verdict,
    /// If the verdict is open, the estimated number of further runs that would decide.
    pub runs_missing: Option<usize>,
    /// Signs that the verdict may be disturbed.
    #[serde(flatten)]
    pub disturbance: Disturbance,
    /// All runs that were taken, without their warm-up; in short form in the JSON.
    #[serde(rename = "each_run", serialize_with = "serialize_in_short")]
    pub runs: Vec<Run>,
}

/// Short form of a run.
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

/// Signs of disturbance in the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// Number of pairs.
    pub pairs: usize,
    /// Number of pairs that are outliers within their half of a run.
    pub outlier_pairs: usize,
    /// Share by which A's time rose from the first run to the last, if the trend is significant.
    pub drift_of_a: Option<f64>,
    /// Share by which the ratio rose, if the trend is significant. Unlike a drift of A, this one affects the verdict.
    pub drift_of_ratio: Option<f64>,
}

/// Takes runs until the verdict is clear, the time is over, or the last planned look is reached. In the last two cases the
/// verdict may be open. The time ends the runs only after the first [`decide::RUNS_MIN`].
///
/// # Errors
/// Returns the first error that `take_run` returns.
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

/// Returns the difference between the log ratio of each pair and the median of its half of a run.
fn deviations(half: &[Pair]) -> Vec<f64> {
    let log_ratios: Vec<f64> = half.iter().map(|pair| pair.log_ratio()).collect();
    let middle = median(&mut log_ratios.clone());
    log_ratios.into_iter().map(|log_ratio| log_ratio - middle).collect()
}

/// Returns the share by which values rose over time, given their logarithms; `None` if the trend is not significant or
/// too small to matter.
fn drift(logs: &[f64]) -> Option<f64> {
    let share = intervals::theil_sen_change(logs).exp_m1();
    (intervals::mann_kendall(logs).abs() > TREND_MIN && share.abs() > DRIFT_MIN).then_some(share)
}
