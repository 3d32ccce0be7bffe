//! Verdicts, their names, and the direction in which a measure is better.
//!
//! One set of words serves numbers of every kind. Replays repeat exactly, so there a margin decides what is a
//! difference, and cases are pooled by the report. Simulations repeat too, seed by seed. Timings do not:
//! what is said of them comes from intervals, and is decided where they are taken.

use std::cmp::Ordering;

use serde::{Serialize, Serializer};

/// Which way of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither way is better by itself.
    Neutral,
}

/// Verdict on the change from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B differs in the good direction.
    Better,
    /// B differs in the bad direction.
    Worse,
    /// They differ by no more than the margin, or not at all.
    NoDifference,
    /// They differ where neither direction is good, or one of them was not measured.
    Neither,
    /// More runs or cases are needed.
    Undecided,
}

impl Verdict {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "no difference",
            Verdict::Neither => "neither",
            Verdict::Undecided => "undecided",
        }
    }

    /// Compares two exact numbers, of which the lower is the better.
    pub fn compare_exact<T: PartialOrd>(a: T, b: T) -> Verdict {
        match a.partial_cmp(&b) {
            Some(Ordering::Less) => Verdict::Worse,
            Some(Ordering::Greater) => Verdict::Better,
            Some(Ordering::Equal) => Verdict::NoDifference,
            None => Verdict::Neither,
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Returns the verdict on a relative change. Changes within the margin are none.
pub fn judge_change(change: f64, direction: Direction, margin: f64) -> Verdict {
    match direction {
        _ if change.abs() <= margin => Verdict::NoDifference,
        Direction::Neutral => Verdict::Neither,
        Direction::Lower if change < 0.0 => Verdict::Better,
        Direction::Higher if change > 0.0 => Verdict::Better,
        Direction::Lower | Direction::Higher => Verdict::Worse,
    }
}

/// `(b - a) / |a|`: zero for equal numbers, nothing where only `a` is zero. The sign is that of `b - a`.
pub fn relative_change(a: f64, b: f64) -> Option<f64> {
    if a == b {
        Some(0.0)
    } else if a == 0.0 {
        None
    } else {
        Some((b - a) / a.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_from_below_zero_keeps_its_direction() {
        assert_eq!(relative_change(-10.0, -5.0), Some(0.5));
        assert_eq!(relative_change(-10.0, 5.0), Some(1.5));
    }
}
