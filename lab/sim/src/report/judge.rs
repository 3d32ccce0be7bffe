//! Verdicts on two simulated policies.
//!
//! Each run is exact; the seeds are a sample of random draws. A and B are compared seed by seed. There is no change if
//! they differ by at most [`MARGIN`] under every seed, or by [`SHARE_MARGIN`] for shares. B is better or worse
//! (changed, for a measure without a better direction) if it is so under every seed, and by more than the margin in the
//! median. Otherwise the difference is within noise. A single seed decides by the margin alone. With fewer than 20
//! events under both policies, there are too few events.

use freehold_stats::intervals::median;
pub use freehold_stats::verdict::SHARE_MARGIN;
use freehold_stats::verdict::{Change, Direction, Evidence, Verdict, relative_change};

use super::measures::{Measure, Spread};
use crate::measure::Unit;

/// Largest relative difference that counts as no change.
pub const MARGIN: f64 = 0.02;

/// Comparison of policy B with policy A in one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// `(b - a) / |a|` of the medians; `None` if only A's is zero.
    pub change: Option<f64>,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Judges values of B against those of A, one value for each seed, with their medians.
pub fn judge(measure: &Measure, a: &Spread, b: &Spread) -> Comparison {
    let mut differences: Vec<f64> = a.values.iter().zip(&b.values).map(|(&a, &b)| difference(measure, a, b)).collect();
    differences.sort_by(f64::total_cmp);
    let events = a.events.zip(b.events).map(|(a, b)| a.max(b));
    let verdict = decide(measure.direction, &differences, margin(measure), events);
    Comparison { change: relative_change(a.median, b.median), verdict }
}

/// Returns the difference of B's value: relative to A's value, and `b - a` for shares.
pub fn difference(measure: &Measure, a: f64, b: f64) -> f64 {
    if measure.unit == Unit::Share { b - a } else { relative(a, b) }
}

/// Returns the largest difference in a measure that counts as no change.
pub fn margin(measure: &Measure) -> f64 {
    if measure.unit == Unit::Share { SHARE_MARGIN } else { MARGIN }
}

/// Returns the verdict on differences, one for each seed and sorted.
fn decide(direction: Direction, differences: &[f64], margin: f64, events: Option<f64>) -> Verdict {
    let (Some(&low), Some(&high)) = (differences.first(), differences.last()) else { return Verdict::NotJudged };
    let middle = Some(median(&mut differences.to_vec()));
    let change = match differences {
        [only] => Change::Exact(*only),
        _ => Change::Interval { low, high, exceeds: 0.0, middle },
    };
    freehold_stats::verdict::judge(&Evidence::new(change, direction, margin).with_events(events))
}

/// Returns the relative change, which is infinite if A's value is zero and B's is not.
fn relative(a: f64, b: f64) -> f64 {
    relative_change(a, b).unwrap_or(if b > a { f64::INFINITY } else { f64::NEG_INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::measures::{PAGES_PER_LOCK, THROUGHPUT, UNUSABLE_WORST, ZONE_HOLD};

    fn spread(values: &[f64]) -> Spread {
        let median = values[values.len() / 2];
        Spread { median, least: values[0], most: values[values.len() - 1], values: values.to_vec(), events: None }
    }

    fn verdict(measure: &Measure, a: &[f64], b: &[f64]) -> Verdict {
        judge(measure, &spread(a), &spread(b)).verdict
    }

    #[test]
    fn verdict_requires_agreement_of_all_seeds() {
        assert_eq!(verdict(&THROUGHPUT, &[10.0, 11.0, 12.0], &[11.0, 12.0, 13.0]), Verdict::Better);
        assert_eq!(verdict(&ZONE_HOLD, &[10.0, 11.0, 12.0], &[11.0, 12.0, 13.0]), Verdict::Worse);
        assert_eq!(verdict(&THROUGHPUT, &[10.0, 11.0, 12.0], &[11.0, 10.0, 13.0]), Verdict::WithinNoise);
    }

    #[test]
    fn median_of_two_seeds_is_their_mean() {
        assert_eq!(verdict(&THROUGHPUT, &[100.0, 100.0], &[101.0, 102.5]), Verdict::WithinNoise);
        assert_eq!(verdict(&ZONE_HOLD, &[100.0, 100.0], &[101.0, 102.5]), Verdict::WithinNoise);
        assert_eq!(verdict(&THROUGHPUT, &[100.0, 100.0], &[101.5, 103.5]), Verdict::Better);
    }

    #[test]
    fn small_differences_are_no_change() {
        assert_eq!(verdict(&THROUGHPUT, &[100.0, 100.0], &[101.0, 99.0]), Verdict::NoChange);
        assert_eq!(verdict(&PAGES_PER_LOCK, &[1.0], &[2.0]), Verdict::Changed);
        assert_eq!(verdict(&PAGES_PER_LOCK, &[1.0], &[1.0]), Verdict::NoChange);
    }

    #[test]
    fn share_verdicts_use_percentage_points() {
        assert_eq!(verdict(&UNUSABLE_WORST, &[0.001], &[0.002]), Verdict::NoChange);
        assert_eq!(verdict(&UNUSABLE_WORST, &[0.0], &[0.02]), Verdict::Worse);
    }

    #[test]
    fn change_from_zero_has_a_verdict_without_a_ratio() {
        let comparison = judge(&ZONE_HOLD, &spread(&[0.0]), &spread(&[3.0]));
        assert_eq!(comparison, Comparison { change: None, verdict: Verdict::Worse });
    }
}
