//! Comparison of two samples of runs.
//!
//! The means of both samples are compared by a confidence interval of their difference. The interval is Welch's, which
//! allows each sample its own variance. If all values are above zero, the logarithms are compared instead, so the
//! interval is one of the ratio. Counts of events get at least the variance that counts of independent events have,
//! because three runs that all count 1 may agree by chance. If many measures are judged together, the confidence of
//! each interval is raised until all intervals hold together (Bonferroni).
//!
//! # Design
//!
//! Boots of two kernels are interleaved, and a measure differs only if the change exceeds the variation between
//! repetitions: all intervals hold together at 95 %. A short list of measures decides. All counters are listed beside
//! it as a family of their own, so two hundred further measures do not lower the confidence of the short list. No
//! measure is a time.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::verdict::{Change, Direction, Evidence, Verdict, judge, relative_change};

/// Confidence in all intervals of a family together.
const CONFIDENCE: f64 = 0.95;
/// Degrees of freedom above which Student's distribution is practically normal.
const FREEDOM_MAX: f64 = 1e6;
/// Fewest runs of each sample for a verdict.
pub const RUNS_MIN: usize = 3;

/// Kind of number that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Counts of events, whose variance is at least that of independent events.
    Counts,
    /// Any other number.
    Numbers,
}

/// Values of one measure in all runs of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Values, one for each run.
    pub values: Vec<f64>,
    /// Mean of the values.
    pub mean: f64,
    /// Standard deviation of the values; zero for fewer than two values.
    pub deviation: f64,
}

/// Two samples, and the change from A to B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Runs of A.
    pub a: Sample,
    /// Runs of B.
    pub b: Sample,
    /// Change from A to B: `b / a - 1` of the geometric means, or of the arithmetic means if any value is zero or less
    /// or if there are too few runs. `None` if only the mean of A is zero.
    pub change: Option<f64>,
    /// Confidence interval of the change; all intervals of the family hold together. `None` if the mean of A is zero,
    /// or if there are too few runs.
    pub interval: Option<(f64, f64)>,
    /// Verdict on the interval; not judged with too few runs.
    pub verdict: Verdict,
}

impl Sample {
    /// Computes the mean and the standard deviation of the values.
    pub fn new(values: Vec<f64>) -> Sample {
        let count = values.len() as f64;
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count };
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Sample { values, mean, deviation }
    }

    /// Returns the standard deviation as a share of the mean; `None` if the mean is zero.
    pub fn spread(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.deviation / self.mean.abs())
    }

    fn sum(&self) -> f64 {
        self.values.iter().sum()
    }

    fn is_zero(&self) -> bool {
        self.values.iter().all(|&value| value == 0.0)
    }
}

impl Comparison {
    /// Returns whether the verdict is that B differs from A.
    pub fn differs(&self) -> bool {
        self.verdict.is_change()
    }
}

/// Returns whether any run has a value other than zero.
pub fn any_nonzero(a: &Sample, b: &Sample) -> bool {
    !(a.is_zero() && b.is_zero())
}

/// Compares two samples of one of `family` measures. Relative changes up to `margin` count as no change.
pub fn compare(a: Sample, b: Sample, scale: Scale, direction: Direction, family: usize, margin: f64) -> Comparison {
    let is_enough = a.values.len().min(b.values.len()) >= RUNS_MIN;
    let tail = (1.0 - CONFIDENCE) / 2.0 / family.max(1) as f64;
    let is_above_zero = a.values.iter().chain(&b.values).all(|&value| value > 0.0);
    let events = (scale == Scale::Counts).then(|| a.sum().max(b.sum()));
    let evidence = Evidence::new(Change::Exact(0.0), direction, margin).with_events(events);
    let (change, interval, verdict) = if !is_enough {
        (relative_change(a.mean, b.mean), None, Verdict::NotJudged)
    } else if is_above_zero {
        let (change, ends) = ratio(&a, &b, scale, tail);
        (Some(change), Some(ends), judge_interval(&evidence, ends))
    } else {
        let difference = difference(&a, &b, scale, tail);
        let ends = (a.mean != 0.0).then(|| (difference.0 / a.mean.abs(), difference.1 / a.mean.abs()));
        let verdict = ends.map_or_else(
            || judge_interval(&Evidence { margin: 0.0, ..evidence }, difference),
            |ends| judge_interval(&evidence, ends),
        );
        (relative_change(a.mean, b.mean), ends, verdict)
    };
    Comparison { a, b, change, interval, verdict }
}

/// Returns the verdict on an interval of changes that has to exceed the margin as a whole.
fn judge_interval(evidence: &Evidence, (low, high): (f64, f64)) -> Verdict {
    judge(&Evidence { change: Change::Interval { low, high, exceeds: evidence.margin, middle: None }, ..*evidence })
}

/// Returns `b / a - 1` of the geometric means, and its interval.
fn ratio(a: &Sample, b: &Sample, scale: Scale, tail: f64) -> (f64, (f64, f64)) {
    let [log_a, log_b] = [a, b].map(|sample| Sample::new(sample.values.iter().map(|value| value.ln()).collect()));
    let [floor_a, floor_b] = [a, b].map(|sample| log_variance_floor(sample, scale));
    let (low, high) = welch([(&log_a, floor_a), (&log_b, floor_b)], tail);
    ((log_b.mean - log_a.mean).exp_m1(), (low.exp_m1(), high.exp_m1()))
}

/// Returns the variance that the logarithm of a count of independent events has; zero for numbers that are no counts.
fn log_variance_floor(sample: &Sample, scale: Scale) -> f64 {
    if scale == Scale::Counts { 1.0 / sample.mean } else { 0.0 }
}

/// Returns the interval of `b - a`.
fn difference(a: &Sample, b: &Sample, scale: Scale, tail: f64) -> (f64, f64) {
    let floor = if scale == Scale::Counts { f64::midpoint(a.mean, b.mean).abs() } else { 0.0 };
    welch([(a, floor), (b, floor)], tail)
}

/// Returns the interval of the difference of two means that leaves out `tail` at each end. The variance of a run is not
/// assumed to be below its floor, which is known and not estimated.
fn welch(samples: [(&Sample, f64); 2], tail: f64) -> (f64, f64) {
    // Variance of each mean, and the reciprocal of the degrees of freedom of that variance.
    let parts = samples.map(|(sample, floor)| {
        let (count, variance) = (sample.values.len() as f64, sample.deviation.powi(2));
        (variance.max(floor) / count, if variance < floor { 0.0 } else { 1.0 / (count - 1.0) })
    });
    let difference = samples[1].0.mean - samples[0].0.mean;
    let variance: f64 = parts.iter().map(|(part, _)| part).sum();
    if variance == 0.0 {
        return (difference, difference);
    }
    let uncertain: f64 = parts.iter().map(|(part, by)| part.powi(2) * by).sum();
    let freedom = (variance.powi(2) / uncertain.max(f64::MIN_POSITIVE)).min(FREEDOM_MAX);
    let student = StudentsT::new(0.0, 1.0, freedom).expect("the degrees of freedom are above zero");
    let reach = student.inverse_cdf(1.0 - tail) * variance.sqrt();
    (difference - reach, difference + reach)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn compare_values(a: &[f64], b: &[f64]) -> Comparison {
        let [a, b] = [a, b].map(|values| Sample::new(values.to_vec()));
        compare(a, b, Scale::Numbers, Direction::Lower, 1, 0.02)
    }

    /// Textbook example (R's `sleep`): the difference is -1.58, with a 95 % interval of -3.365 to 0.205.
    #[test]
    fn difference_interval_is_welchs() {
        let a = Sample::new(vec![0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]);
        let b = Sample::new(vec![1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
        let (low, high) = difference(&b, &a, Scale::Numbers, 0.025);
        assert!((low + 3.365_483).abs() < 1e-4 && (high - 0.205_483).abs() < 1e-4, "{low} to {high}");
    }

    #[test]
    fn reproducible_differences_are_judged() {
        assert_eq!(compare_values(&[100.0, 101.0, 99.0], &[150.0, 149.0, 151.0]).verdict, Verdict::Worse);
        assert_eq!(compare_values(&[100.0, 101.0, 99.0], &[50.0, 51.0, 49.0]).verdict, Verdict::Better);
        assert_eq!(compare_values(&[100.0, 100.1, 99.9], &[100.0, 100.1, 99.9]).verdict, Verdict::NoChange);
        assert_eq!(compare_values(&[100.0, 200.0, 50.0], &[150.0, 90.0, 210.0]).verdict, Verdict::WithinNoise);
        assert_eq!(
            compare_values(&[100.0, 101.0], &[150.0, 149.0]).verdict,
            Verdict::NotJudged,
            "two runs tell nothing"
        );
    }

    /// An interval that reaches beyond the margin on both sides has ends that disagree, so the verdict is "within
    /// noise" and not "changed".
    #[test]
    fn interval_beyond_both_margins_is_within_noise() {
        let [a, b] = [[90.0, 100.0, 110.0], [92.0, 104.0, 111.0]].map(|values| Sample::new(values.to_vec()));
        let neutral = compare(a, b, Scale::Numbers, Direction::Neutral, 1, 0.02);
        assert_eq!(neutral.verdict, Verdict::WithinNoise);
    }

    #[test]
    fn change_from_zero_has_a_verdict_without_a_change() {
        let many = compare_values(&[0.0; 4], &[900.0, 910.0, 880.0, 905.0]);
        assert_eq!((many.verdict, many.change, many.interval), (Verdict::Worse, None, None));
        let [a, b] = [[0.0; 4], [1.0; 4]].map(|values| Sample::new(values.to_vec()));
        let few = compare(a, b, Scale::Counts, Direction::Lower, 20, 0.02);
        assert_eq!(few.verdict, Verdict::TooFewEvents, "one event a run may be chance");
    }

    fn assert_near((low, high): (f64, f64), expected: (f64, f64)) {
        assert!((low - expected.0).abs() < 1e-3 && (high - expected.1).abs() < 1e-3, "{low} to {high}");
    }

    /// Counts of 100 and of 200 events have logarithms with variances of 1/100 and 1/200. Each mean is of three runs.
    #[test]
    fn interval_of_equal_counts_has_the_variance_of_independent_events() {
        let [a, b] = [[100.0; 3], [200.0; 3]].map(|values| Sample::new(values.to_vec()));
        let counts = compare(a.clone(), b.clone(), Scale::Counts, Direction::Lower, 1, 0.02);
        assert_eq!(counts.verdict, Verdict::Worse);
        assert!((counts.change.unwrap() - 1.0).abs() < 1e-9);
        assert_near(counts.interval.unwrap(), (0.741, 1.297));
        assert_near(compare(a, b, Scale::Numbers, Direction::Lower, 1, 0.02).interval.unwrap(), (1.0, 1.0));
    }

    /// The difference is 100, Student's quantile for four degrees of freedom 2.776, and the mean of A 10.
    #[test]
    fn interval_of_values_with_zero_is_relative_to_the_mean_of_a() {
        let comparison = compare_values(&[0.0, 10.0, 20.0], &[100.0, 110.0, 120.0]);
        assert!((comparison.change.unwrap() - 10.0).abs() < 1e-9);
        assert_near(comparison.interval.unwrap(), (7.733, 12.267));
    }

    #[test]
    fn margin_does_not_apply_to_a_change_from_zero() {
        assert_eq!(compare_values(&[0.0; 4], &[0.01, 0.011, 0.009, 0.01]).verdict, Verdict::Worse);
    }

    #[test]
    fn spread_is_relative_to_the_absolute_mean() {
        assert_eq!(Sample::new(vec![-8.0, -10.0, -12.0]).spread(), Some(0.2));
        assert_eq!(Sample::new(vec![-1.0, 1.0]).spread(), None);
    }

    #[test]
    fn samples_are_nonzero_if_any_run_is() {
        let [zero, some] = [[0.0, 0.0], [0.0, 1.0]].map(|values| Sample::new(values.to_vec()));
        assert!(!any_nonzero(&zero, &zero));
        assert!(any_nonzero(&zero, &some) && any_nonzero(&some, &zero));
    }

    #[test]
    fn only_decided_comparisons_differ() {
        assert!(compare_values(&[100.0, 101.0, 99.0], &[150.0, 149.0, 151.0]).differs());
        assert!(!compare_values(&[100.0, 101.0, 99.0], &[100.0, 101.0, 99.0]).differs());
    }

    /// The measures of a family do not differ. In at most about one of twenty families of twenty measures, a measure
    /// may be judged to differ. The values are normal, or counts so small that three runs often agree by chance.
    #[test]
    fn false_difference_rate_of_equal_samples_is_bounded() {
        let mut rng = Rng::with_seed(7);
        for (draw, scale) in [(draw_normal as fn(&mut Rng) -> f64, Scale::Numbers), (draw_count, Scale::Counts)] {
            for runs in [3, 5, 10] {
                let wrong = (0..1000).filter(|_| family_differs(draw, scale, runs, &mut rng)).count();
                assert!(wrong <= 65, "{wrong} of 1000 families of {runs} runs");
            }
        }
    }

    /// Returns whether any of twenty measures that do not differ is judged to differ.
    fn family_differs(draw: fn(&mut Rng) -> f64, scale: Scale, runs: usize, rng: &mut Rng) -> bool {
        (0..20).any(|_| {
            let [a, b] = [(); 2].map(|()| Sample::new((0..runs).map(|_| draw(rng)).collect()));
            let comparison = compare(a, b, scale, Direction::Lower, 20, 0.0);
            comparison.verdict.is_decided()
        })
    }

    fn draw_normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() + 94.0
    }

    fn draw_count(rng: &mut Rng) -> f64 {
        (0..40).filter(|_| rng.f64() < 0.05).count() as f64
    }
}
