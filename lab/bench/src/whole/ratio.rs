//! Freehold's cost divided by that of another malloc, within a round: the median over the rounds, and its interval.

use fastrand::Rng;
use freehold_report::report::Value;
use serde::Serialize;

use super::cost::{Cost, Rounds};
use crate::decide::Estimate;
use crate::numbers::format_ratio;

/// Confidence of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// Computes the median ratio and its interval from logarithms; `None` if there are no logarithms.
    pub(super) fn from_logs(logs: &[f64], seed: u64) -> Option<Ratio> {
        let estimate =
            (!logs.is_empty()).then(|| Estimate::from_log_ratios(logs, CONFIDENCE, &mut Rng::with_seed(seed)))?;
        Some(Ratio { ratio: estimate.ratio, low: estimate.low, high: estimate.high })
    }

    pub(super) fn text(self) -> String {
        format!("{} ({} to {})", format_ratio(self.ratio), format_ratio(self.low), format_ratio(self.high))
    }
}

/// Formats a ratio as a cell of a table.
pub(super) fn format_cell(ratio: Option<Ratio>) -> Value {
    ratio.map_or(Value::None, |ratio| Value::Text(ratio.text()))
}

/// Function that extracts the compared figure from a cost.
pub(super) type Figure = fn(&Cost) -> f64;

/// CPU time in nanoseconds.
pub(super) const CPU: Figure = |cost| cost.cpu_ns as f64;
/// CPU time per step, in nanoseconds.
pub(super) const CPU_OF_STEP: Figure = |cost| cost.cpu_ns as f64 / cost.steps as f64;
/// Peak resident memory, in KiB.
pub(super) const PEAK: Figure = |cost| cost.peak_kib as f64;

/// Returns the logarithm of Freehold's figure divided by that of the malloc with index `other`, averaged over the
/// loads. There is one value for each round in which both mallocs completed all of these loads.
pub(super) fn logs(rounds: &Rounds, loads: &[usize], other: usize, figure: Figure) -> Vec<f64> {
    mean_logs(rounds, loads, |costs| Some(figure(costs[0].as_ref()?) / figure(costs[other].as_ref()?)))
}

/// Returns the logarithm of Freehold's figure divided by the lowest figure of any other malloc at each load, averaged
/// over the loads.
pub(super) fn logs_of_best(rounds: &Rounds, loads: &[usize], figure: Figure) -> Vec<f64> {
    mean_logs(rounds, loads, |costs| {
        let best = costs[1..].iter().flatten().map(figure).fold(f64::INFINITY, f64::min);
        Some(figure(costs[0].as_ref()?) / best)
    })
}

/// Returns the mean logarithm of a ratio over loads, for each round in which all of these loads have a ratio. `ratio`
/// computes it from the costs of one load under all mallocs.
fn mean_logs(rounds: &Rounds, loads: &[usize], ratio: impl Fn(&[Option<Cost>]) -> Option<f64>) -> Vec<f64> {
    let mut means = Vec::new();
    for round in rounds {
        let sum: Option<f64> = loads.iter().map(|&load| Some(ratio(&round[load])?.ln())).sum();
        means.extend(sum.map(|sum| sum / loads.len() as f64));
    }
    means
}
