//! What a difference between two simulated policies means.
//!
//! Each run is exact; the seeds stand for the draws that might have been made instead. A and B are set against each
//! other seed by seed. If they differ by no more than [`MARGIN`] under every seed, or shares by [`SHARE_MARGIN`], there
//! is *no difference*. If B is better under every seed, and by more than that in the middle, it is *better*, and
//! likewise *worse*; else it takes more seeds: *undecided*.

use freehold_stats::verdict::Direction;
use freehold_stats::verdict::{Verdict, relative_change};

use super::measures::{Measure, Spread};
use crate::measure::Unit;

/// The largest relative difference that counts as none.
pub const MARGIN: f64 = 0.02;

/// The largest difference of two shares that counts as none: half a point. Of a share that is next to nothing, a large
/// part is nothing too.
pub const SHARE_MARGIN: f64 = 0.005;

/// Comparison of policy B with policy A in one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// `(b - a) / |a|` of the medians; nothing if only A's is zero.
    pub change: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

/// Judges values of B by those of A, one a seed each, with their medians.
pub fn judge(measure: &Measure, a: &Spread, b: &Spread) -> Comparison {
    let mut differences: Vec<f64> = a.values.iter().zip(&b.values).map(|(&a, &b)| difference(measure, a, b)).collect();
    differences.sort_by(f64::total_cmp);
    let verdict = decide(measure.direction, &differences, margin(measure));
    Comparison { change: relative_change(a.median, b.median), verdict }
}

/// By how much B's value differs: relative to A's, and of shares `b - a`.
pub fn difference(measure: &Measure, a: f64, b: f64) -> f64 {
    if measure.unit == Unit::Share { b - a } else { relative(a, b) }
}

/// The largest difference in a measure that counts as none.
pub fn margin(measure: &Measure) -> f64 {
    if measure.unit == Unit::Share { SHARE_MARGIN } else { MARGIN }
}

/// What differences, one a seed and sorted, say together.
fn decide(direction: Direction, differences: &[f64], margin: f64) -> Verdict {
    let (Some(&least), Some(&most)) = (differences.first(), differences.last()) else { return Verdict::Undecided };
    if least >= -margin && most <= margin {
        return Verdict::NoDifference;
    }
    let middle = differences[differences.len() / 2];
    let (is_more, is_less) = (least > 0.0 && middle > margin, most < 0.0 && middle < -margin);
    match (is_more, is_less, direction) {
        (.., Direction::Neutral) => Verdict::Neither,
        (true, _, Direction::Higher) | (_, true, Direction::Lower) => Verdict::Better,
        (true, ..) | (_, true, _) => Verdict::Worse,
        (false, false, _) => Verdict::Undecided,
    }
}

/// The relative change, without bound where something came from nothing.
fn relative(a: f64, b: f64) -> f64 {
    relative_change(a, b).unwrap_or(if b > a { f64::INFINITY } else { f64::NEG_INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::measures::{PAGES_PER_LOCK, THROUGHPUT, UNUSABLE_WORST, ZONE_HOLD};

    fn spread(values: &[f64]) -> Spread {
        let median = values[values.len() / 2];
        Spread { median, least: values[0], most: values[values.len() - 1], values: values.to_vec() }
    }

    fn verdict(measure: &Measure, a: &[f64], b: &[f64]) -> Verdict {
        judge(measure, &spread(a), &spread(b)).verdict
    }

    #[test]
    fn a_difference_must_hold_under_every_seed() {
        assert_eq!(verdict(&THROUGHPUT, &[10.0, 11.0, 12.0], &[11.0, 12.0, 13.0]), Verdict::Better);
        assert_eq!(verdict(&ZONE_HOLD, &[10.0, 11.0, 12.0], &[11.0, 12.0, 13.0]), Verdict::Worse);
        assert_eq!(verdict(&THROUGHPUT, &[10.0, 11.0, 12.0], &[11.0, 10.0, 13.0]), Verdict::Undecided);
    }

    #[test]
    fn small_differences_are_none_and_differences_without_a_good_direction_neither() {
        assert_eq!(verdict(&THROUGHPUT, &[100.0, 100.0], &[101.0, 99.0]), Verdict::NoDifference);
        assert_eq!(verdict(&PAGES_PER_LOCK, &[1.0], &[2.0]), Verdict::Neither);
        assert_eq!(verdict(&PAGES_PER_LOCK, &[1.0], &[1.0]), Verdict::NoDifference);
    }

    #[test]
    fn shares_differ_by_points_and_not_by_parts_of_next_to_nothing() {
        assert_eq!(verdict(&UNUSABLE_WORST, &[0.001], &[0.002]), Verdict::NoDifference);
        assert_eq!(verdict(&UNUSABLE_WORST, &[0.0], &[0.02]), Verdict::Worse);
    }

    #[test]
    fn something_from_nothing_has_a_verdict_and_no_ratio() {
        let comparison = judge(&ZONE_HOLD, &spread(&[0.0]), &spread(&[3.0]));
        assert_eq!(comparison, Comparison { change: None, verdict: Verdict::Worse });
    }
}
