//! Tests of the harness on runs whose true difference is known: their times come from a seeded random generator.
//!
//! The generated times have the properties of real ones: noise in each sample, effects of placement in each run, drift
//! over time, and samples hit by other activity. No test here reads a clock.

use std::cell::Cell;

use fastrand::Rng;
use freehold_stats::verdict::Verdict;

use super::bar::{Bar, Holding};
use super::decide::{ERROR, Looks, Margin, RUNS_MIN};
use super::run::{Pair, Run};
use super::session::{Outcome, Rules, Time, settle};
use super::subject::Sample;

/// Model of a machine, and of B relative to A.
#[derive(Clone, Copy)]
struct Model {
    /// True ratio of B's time to A's.
    ratio: f64,
    /// Standard deviation of a sample, as a share.
    noise: f64,
    /// Standard deviation of the placement effect of each half and each side, as a share.
    layout: f64,
    /// Time saved by the side that is built first, as a share.
    first: f64,
    /// Growth of all times with each run, as a share.
    drift: f64,
    /// Growth of the ratio with each run, as a share.
    ratio_drift: f64,
    /// Share of samples that take up to 21 times as long.
    hit: f64,
}

const CALM: Model =
    Model { ratio: 1.0, noise: 0.02, layout: 0.004, first: 0.03, drift: 0.0, ratio_drift: 0.0, hit: 0.01 };

impl Model {
    fn run(&self, number: usize, rng: &mut Rng) -> Run {
        let time = 1e6 * (1.0 + self.drift * number as f64);
        let ratio = self.ratio * (1.0 + self.ratio_drift * number as f64);
        // A is built first in one half, and B in the other.
        let places = [1.0 - self.first, 1.0 + self.first]
            .map(|first| [first, first.recip()].map(|first| first * (1.0 + self.layout * normal(rng))));
        let halves = places.map(|[a, b]| {
            let times = [time * a, time * ratio * b];
            let pairs = (0..5).map(|_| times.map(|time| self.sample(time, rng))).map(|[a, b]| Pair { a, b });
            pairs.collect()
        });
        Run { halves }
    }

    /// Returns a sample whose true time is `time`.
    fn sample(&self, time: f64, rng: &mut Rng) -> Sample {
        let hit = if rng.f64() < self.hit { 1.0 + 20.0 * rng.f64() } else { 1.0 };
        Sample { nanoseconds: (time * hit * (1.0 + self.noise * normal(rng))) as u64, operations: 1000 }
    }

    fn settle(&self, runs_max: usize, seed: u64) -> Outcome {
        self.settle_in_time(runs_max, usize::MAX, seed)
    }

    /// Does the same as `settle`, but the time is over after `in_time` runs.
    fn settle_in_time(&self, runs_max: usize, in_time: usize, seed: u64) -> Outcome {
        let mut rng = Rng::with_seed(seed);
        let rules = Rules { margin: Margin::percent(2.0).unwrap(), looks: Looks::plan(runs_max), seed };
        let taken = Cell::new(0);
        let outcome = settle(
            &rules,
            |number| {
                taken.set(number + 1);
                Ok::<_, ()>(self.run(number, &mut rng))
            },
            || if taken.get() < in_time { Time::Left } else { Time::Over },
        );
        outcome.expect("the model does not fail")
    }
}

/// Returns an approximately normal deviate of standard deviation 1.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// Counts the trials that end in one of the given verdicts.
fn count(model: Model, trials: u64, runs_max: usize, verdicts: &[Verdict]) -> u64 {
    (0..trials).filter(|&seed| verdicts.contains(&model.settle(runs_max, seed).verdict)).count() as u64
}

#[test]
fn equal_models_show_no_change() {
    assert_eq!(count(CALM, 50, 320, &[Verdict::NoChange]), 50);
}

#[test]
fn planted_differences_of_3_percent_are_found() {
    assert_eq!(count(Model { ratio: 1.03, ..CALM }, 50, 320, &[Verdict::Worse]), 50);
    assert_eq!(count(Model { ratio: 1.0 / 1.03, ..CALM }, 50, 320, &[Verdict::Better]), 50);
}

#[test]
fn difference_within_the_margin_is_no_change() {
    let outcome = Model { ratio: 1.005, noise: 0.002, layout: 0.001, ..CALM }.settle(320, 1);
    assert_eq!(outcome.verdict, Verdict::NoChange);
    assert!(outcome.estimate.low > 1.0, "the ratio still shows the difference: {:?}", outcome.estimate);
}

/// The noise is so large that the interval does not fit into the margin at any look. This is where false verdicts
/// occur.
#[test]
fn false_verdict_rate_is_below_the_stated_error() {
    let noisy = Model { noise: 0.1, layout: 0.05, ..CALM };
    let trials = 500;
    let falsely = count(noisy, trials, 160, &[Verdict::Better, Verdict::Worse]);
    assert!((falsely as f64) < ERROR * trials as f64, "{falsely} of {trials}");
    // The true ratio is at the end of the margin: here `no change` is an error.
    let border = Model { ratio: 1.02, noise: 0.05, layout: 0.02, ..CALM };
    let falsely = count(border, trials, 160, &[Verdict::NoChange]);
    assert!((falsely as f64) < ERROR * trials as f64, "{falsely} of {trials}");
}

/// The error rate also holds for few runs, and for runs that end because the time is over.
#[test]
fn false_verdict_rate_holds_for_few_runs() {
    let noisy = Model { noise: 0.1, layout: 0.05, ..CALM };
    for (runs_max, in_time) in [(10, 10), (20, 20), (40, 40), (320, 10), (320, 25)] {
        let trials = 400;
        let verdicts = (0..trials).map(|seed| noisy.settle_in_time(runs_max, in_time, seed).verdict);
        let falsely = verdicts.filter(|verdict| matches!(verdict, Verdict::Better | Verdict::Worse)).count();
        assert!(falsely as f64 <= ERROR * trials as f64, "{falsely} of {trials} at {in_time} of {runs_max}");
    }
}

#[test]
fn bars_use_the_interval_and_the_minimum_runs() {
    let [few, enough] = [9, 20].map(|runs| Model { noise: 0.002, ..CALM }.settle_in_time(runs, runs, 1));
    let each = enough.b_ns;
    for (ratio, nanoseconds, holds) in [
        (1.1, each * 1.1, Holding::Met),
        (0.9, each * 0.9, Holding::Missed),
        (enough.estimate.ratio, each, Holding::Open),
    ] {
        for bar in [Bar::RatioAtMost(ratio), Bar::NanosecondsAtMost(nanoseconds)] {
            assert_eq!((bar.holds(&enough), bar.holds(&few)), (holds, Holding::Open), "{bar:?}");
        }
    }
    assert_eq!(Bar::Planted(Verdict::NoChange).holds(&enough), Holding::Met);
    assert_eq!(Bar::Planted(Verdict::Worse).holds(&enough), Holding::Missed);
}

/// Verifies that the tests above can fail: verdicts from intervals of half the width exceed the permitted error.
#[test]
fn halved_intervals_exceed_the_permitted_error() {
    let noisy = Model { noise: 0.1, layout: 0.05, ..CALM };
    let mut falsely = 0;
    for seed in 0..200 {
        let outcome = noisy.settle(20, seed);
        let reach = (outcome.estimate.high / outcome.estimate.low).ln() / 4.0;
        falsely += usize::from(outcome.estimate.ratio.ln().abs() > reach);
    }
    assert!(falsely as f64 > ERROR * 200.0, "{falsely} of 200");
}

#[test]
fn noisy_comparison_reports_the_missing_runs() {
    let noisy = Model { noise: 0.1, layout: 0.02, ..CALM };
    let outcome = noisy.settle(12, 3);
    assert_eq!(outcome.verdict, Verdict::WithinNoise);
    let missing = outcome.runs_missing.expect("the number belongs to the verdict");
    assert!((5..2000).contains(&missing), "{missing}");
    let enough = noisy.settle((12 + missing) * 3, 3);
    assert_ne!(
        enough.verdict,
        Verdict::WithinNoise,
        "{missing} more runs were predicted, and three times as many do not suffice"
    );
    assert_eq!(enough.runs_missing, None);
}

#[test]
fn pairing_cancels_and_reports_drift() {
    let outcome = Model { drift: 0.02, ..CALM }.settle(20, 5);
    assert_eq!(outcome.verdict, Verdict::NoChange);
    let drift = outcome.disturbance.drift_of_a.expect("A became 38 % slower");
    assert!((0.25..0.5).contains(&drift), "{drift}");
    assert_eq!(outcome.disturbance.drift_of_ratio, None);
    let touched = Model { ratio_drift: 0.002, ..CALM }.settle(40, 5);
    assert!(touched.disturbance.drift_of_ratio.is_some_and(|drift| drift > 0.02), "{touched:?}");
}

#[test]
fn outliers_are_counted_without_effect_on_the_verdict() {
    let outcome = Model { hit: 0.1, ..CALM }.settle(20, 7);
    assert_eq!(outcome.verdict, Verdict::NoChange);
    let share = outcome.disturbance.outlier_pairs as f64 / outcome.disturbance.pairs as f64;
    assert!((0.1..0.25).contains(&share), "a tenth of the samples, a fifth of the pairs: {share}");
    let calm = Model { hit: 0.0, ..CALM }.settle(20, 7);
    assert!(calm.disturbance.outlier_pairs < calm.disturbance.pairs / 50, "{:?}", calm.disturbance);
}

#[test]
fn time_limit_still_takes_the_minimum_runs() {
    let mut rng = Rng::with_seed(1);
    let rules = Rules { margin: Margin::percent(2.0).unwrap(), looks: Looks::plan(320), seed: 1 };
    let quiet = Model { noise: 0.002, ..CALM };
    let settled = settle(&rules, |number| Ok::<_, ()>(quiet.run(number, &mut rng)), || Time::Over).unwrap();
    assert_eq!((settled.estimate.runs, settled.verdict), (RUNS_MIN, Verdict::NoChange));
}

#[test]
fn failed_run_ends_the_comparison() {
    let rules = Rules { margin: Margin::percent(2.0).unwrap(), looks: Looks::plan(320), seed: 1 };
    assert_eq!(settle(&rules, |_| Err("gone"), || Time::Left), Err("gone"));
}
