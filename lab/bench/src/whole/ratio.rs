//! Freehold's cost divided by another's, within a round: the median over the rounds, and its interval.

use fastrand::Rng;
use serde::Serialize;

use super::cost::{Cost, Rounds};
use crate::decide::Estimate;
use crate::numbers::format_ratio;

/// How far an interval is to be believed.
pub(super) const CONFIDENCE: f64 = 0.95;

/// A ratio, and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// `None` if there are no logarithms.
    pub(super) fn from_logs(logs: &[f64], seed: u64) -> Option<Ratio> {
        let estimate =
            (!logs.is_empty()).then(|| Estimate::from_log_ratios(logs, CONFIDENCE, &mut Rng::with_seed(seed)))?;
        Some(Ratio { ratio: estimate.ratio, low: estimate.low, high: estimate.high })
    }

    pub(super) fn text(self) -> String {
        format!("{} ({} to {})", format_ratio(self.ratio), format_ratio(self.low), format_ratio(self.high))
    }
}

/// What is compared.
pub(super) type Figure = fn(&Cost) -> f64;

/// Nanoseconds that were run.
pub(super) const CPU: Figure = |cost| cost.cpu_ns as f64;
/// The same for each step.
pub(super) const CPU_OF_STEP: Figure = |cost| cost.cpu_ns as f64 / cost.steps as f64;
/// KiB that were resident.
pub(super) const PEAK: Figure = |cost| cost.peak_kib as f64;

/// The logarithm of ours divided by another's, for each round in which both did all of these loads: the mean over them.
pub(super) fn logs(rounds: &Rounds, loads: &[usize], other: usize, figure: Figure) -> Vec<f64> {
    let of_round = |round: &Vec<Vec<Option<Cost>>>| {
        let of_load = |&load: &usize| {
            let [ours, theirs] = [0, other].map(|malloc| round[load][malloc].as_ref().map(figure));
            Some((ours? / theirs?).ln())
        };
        let sum: Option<f64> = loads.iter().map(of_load).sum();
        Some(sum? / loads.len() as f64)
    };
    rounds.iter().filter_map(of_round).collect()
}

/// The same against the best other one of each load.
pub(super) fn logs_of_best(rounds: &Rounds, loads: &[usize], figure: Figure) -> Vec<f64> {
    let of_round = |round: &Vec<Vec<Option<Cost>>>| {
        let of_load = |&load: &usize| {
            let best = round[load][1..].iter().flatten().map(figure).fold(f64::INFINITY, f64::min);
            Some((figure(round[load][0].as_ref()?) / best).ln())
        };
        let sum: Option<f64> = loads.iter().map(of_load).sum();
        Some(sum? / loads.len() as f64)
    };
    rounds.iter().filter_map(of_round).collect()
}
