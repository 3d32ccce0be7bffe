//! What a difference between two policies means: the words of every verdict, and the verdicts on exact numbers.
//!
//! Replay is exact: the same recording and policy give the same numbers on any machine. So there is no
//! interval and no test here; two numbers are the same or they are not, and a metric's [`Direction`] says
//! which of two different ones is the better. Timings are not exact; what is said about them, in the same words, is
//! decided in `bench/decide.rs`.

use std::cmp::Ordering;

use serde::{Serialize, Serializer};

use crate::terminal::Tone;

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

/// How B stands against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B differs in the good direction.
    Better,
    /// B differs in the bad direction.
    Worse,
    /// Exact numbers are the same; timings differ by no more than the margin.
    NoDifference,
    /// They differ where neither direction is good, or one of them was not measured.
    Neither,
    /// More runs are needed. Never said of exact numbers.
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

    /// How it is coloured.
    pub fn tone(self) -> Tone {
        match self {
            Verdict::Better => Tone::Good,
            Verdict::Worse => Tone::Bad,
            Verdict::NoDifference | Verdict::Neither | Verdict::Undecided => Tone::Faint,
        }
    }

    /// What exact numbers say, of which the lower is the better.
    pub fn of_exact<T: PartialOrd>(a: T, b: T) -> Verdict {
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
