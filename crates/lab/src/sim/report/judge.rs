//! What a difference between two simulated policies means.
//!
//! Each run is exact; the seeds stand for the draws that might have been made instead. A and B are set against each
//! other seed by seed. If they differ by no more than [`MARGIN`] under every seed, there is *no difference*. If B is better under
//! every seed, and by more than that in the middle, it is *better*, and likewise *worse*; else it takes more seeds: *undecided*.

use crate::report::model::Direction;
use crate::report::verdict::{Verdict, relative_change};

/// The largest relative difference that counts as none.
pub const MARGIN: f64 = 0.02;

/// How B stands against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// `(b - a) / |a|` of the medians; nothing if only A's is zero.
    pub change: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

/// Judges values of B by those of A, one a seed each, with their medians.
pub fn judge(direction: Direction, a: &super::Spread, b: &super::Spread) -> Judged {
    let mut changes: Vec<f64> = a.values.iter().zip(&b.values).map(|(&a, &b)| change(a, b)).collect();
    changes.sort_by(f64::total_cmp);
    let verdict = match (changes.first(), changes.last(), direction) {
        (Some(&least), Some(&most), _) if least >= -MARGIN && most <= MARGIN => Verdict::NoDifference,
        (.., Direction::Neutral) => Verdict::Neither,
        (Some(&least), Some(&most), _) => {
            let middle = changes[changes.len() / 2];
            let (is_more, is_less) = (least > 0.0 && middle > MARGIN, most < 0.0 && middle < -MARGIN);
            match (is_more, is_less, direction) {
                (true, _, Direction::Higher) | (_, true, Direction::Lower) => Verdict::Better,
                (true, ..) | (_, true, _) => Verdict::Worse,
                _ => Verdict::Undecided,
            }
        }
        _ => Verdict::Undecided,
    };
    Judged { change: relative_change(a.median, b.median), verdict }
}

/// The relative change, without bound where something came from nothing.
fn change(a: f64, b: f64) -> f64 {
    relative_change(a, b).unwrap_or(if b > a { f64::INFINITY } else { f64::NEG_INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::report::Spread;

    fn spread(values: &[f64]) -> Spread {
        let median = values[values.len() / 2];
        Spread { median, least: values[0], most: values[values.len() - 1], values: values.to_vec() }
    }

    fn verdict(direction: Direction, a: &[f64], b: &[f64]) -> Verdict {
        judge(direction, &spread(a), &spread(b)).verdict
    }

    #[test]
    fn a_difference_must_hold_under_every_seed() {
        assert_eq!(verdict(Direction::Higher, &[10.0, 11.0, 12.0], &[11.0, 12.0, 13.0]), Verdict::Better);
        assert_eq!(verdict(Direction::Lower, &[10.0, 11.0, 12.0], &[11.0, 12.0, 13.0]), Verdict::Worse);
        assert_eq!(verdict(Direction::Higher, &[10.0, 11.0, 12.0], &[11.0, 10.0, 13.0]), Verdict::Undecided);
    }

    #[test]
    fn small_differences_are_none_and_differences_without_a_good_direction_neither() {
        assert_eq!(verdict(Direction::Higher, &[100.0, 100.0], &[101.0, 99.0]), Verdict::NoDifference);
        assert_eq!(verdict(Direction::Neutral, &[1.0], &[2.0]), Verdict::Neither);
        assert_eq!(verdict(Direction::Neutral, &[1.0], &[1.0]), Verdict::NoDifference);
    }

    #[test]
    fn something_from_nothing_has_a_verdict_and_no_ratio() {
        let judged = judge(Direction::Lower, &spread(&[0.0]), &spread(&[3.0]));
        assert_eq!(judged, Judged { change: None, verdict: Verdict::Worse });
    }
}
