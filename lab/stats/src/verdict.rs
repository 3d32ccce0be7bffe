//! Verdicts: the label of a row, for the change from A to B in one measure.
//!
//! Every report takes its labels from [`judge`]: comparisons of replays, simulations, fleets, benchmarks, recordings
//! and sweeps. The first rule that applies decides:
//!
//! 1. [`NotJudged`](Verdict::NotJudged): the replay does not reproduce the measure on this recording, the value is not
//!    known under A or B, or a benchmark has too few runs. This holds even if the values under A and B are equal.
//! 2. [`TooFewEvents`](Verdict::TooFewEvents): fewer than [`EVENTS_MIN`] events under A and under B.
//! 3. [`NoChange`](Verdict::NoChange): every change that is compatible with the evidence is within the margin.
//! 4. The change is uncertain. [`SensitiveToWatermarks`](Verdict::SensitiveToWatermarks) if one recording was replayed
//!    with varied watermarks, [`WithinNoise`](Verdict::WithinNoise) if runs were repeated.
//! 5. [`Better`](Verdict::Better), [`Worse`](Verdict::Worse), or [`Changed`](Verdict::Changed) for a measure without a
//!    better direction.
//!
//! # Design
//!
//! One function labels every row, so the same evidence has the same label in every report. *Within noise* is used only
//! if runs, hosts or seeds were repeated. *No change* must be shown: in a benchmark by two one-sided tests
//! (`freehold_bench`, `decide`), for several recordings by pooling (`freehold_report`, `pool`).

use std::cmp::Ordering;

use serde::{Serialize, Serializer};

/// Fewest events for a verdict, under A or under B.
pub const EVENTS_MIN: f64 = 20.0;

/// Largest difference of two shares that counts as no change: half a percentage point.
pub const SHARE_MARGIN: f64 = 0.005;

/// Direction in which a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither direction is better.
    Neutral,
}

/// Verdict on the change from A to B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The value cannot be judged: it was not measured, or the replay does not reproduce it.
    #[default]
    NotJudged,
    /// A and B have too few events to distinguish a change from chance.
    TooFewEvents,
    /// When watermarks vary by 1 %, the ranges of A and B overlap, or only some of the changes are within the margin.
    SensitiveToWatermarks,
    /// The change is not distinguishable from the spread of repeated runs.
    WithinNoise,
    /// Several recordings have different verdicts.
    Mixed,
    /// Every change that is compatible with the evidence is within the margin.
    NoChange,
    /// The value changes, and neither direction is better.
    Changed,
    /// B is better.
    Better,
    /// B is worse.
    Worse,
}

/// Change from A to B, by the kind of its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// One exact value under A and one under B.
    Exact(f64),
    /// Replays with varied watermarks.
    Watermarks {
        /// Least change from a value under A to a value under B.
        low: f64,
        /// Greatest change from a value under A to a value under B.
        high: f64,
        /// Change from the middle value under A to the middle value under B.
        middle: f64,
        /// `true` if the ranges of A and B overlap.
        overlap: bool,
    },
    /// Confidence interval of the change over repeated runs, hosts or recordings.
    Interval {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Size of a change that the whole interval has to exceed, upwards or downwards.
        exceeds: f64,
        /// Median change, which has to exceed the margin; `None` if the interval alone decides.
        middle: Option<f64>,
    },
}

/// Evidence for a verdict on one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Change from A to B, as a ratio less one or as a difference of shares; infinite if A is zero.
    pub change: Change,
    /// Direction in which the measure is better.
    pub direction: Direction,
    /// Largest change that counts as no change.
    pub margin: f64,
    /// `true` if the replay reproduces the measure, or if nothing is replayed.
    pub is_reproduced: bool,
    /// Number of events behind the values: the larger number of A and B. `None` if the measure does not count events.
    pub events: Option<f64>,
}

impl Evidence {
    /// Returns the evidence of a change that is reproduced and does not count events.
    pub fn new(change: Change, direction: Direction, margin: f64) -> Evidence {
        Evidence { change, direction, margin, is_reproduced: true, events: None }
    }

    /// Sets the number of events behind the values.
    #[must_use]
    pub fn with_events(self, events: Option<f64>) -> Evidence {
        Evidence { events, ..self }
    }
}

/// Returns the verdict on a measure.
pub fn judge(evidence: &Evidence) -> Verdict {
    let Evidence { change, direction, margin, is_reproduced, events } = *evidence;
    if !is_reproduced {
        Verdict::NotJudged
    } else if events.is_some_and(|events| events < EVENTS_MIN) {
        Verdict::TooFewEvents
    } else {
        judge_change(change, direction, margin)
    }
}

fn judge_change(change: Change, direction: Direction, margin: f64) -> Verdict {
    match change {
        Change::Exact(change) => judge_exact(change, direction, margin),
        Change::Watermarks { low, high, .. } | Change::Interval { low, high, .. }
            if low >= -margin && high <= margin =>
        {
            Verdict::NoChange
        }
        Change::Watermarks { middle, overlap, .. } => match judge_exact(middle, direction, margin) {
            verdict if verdict.is_change() && !overlap => verdict,
            _ => Verdict::SensitiveToWatermarks,
        },
        Change::Interval { low, high, exceeds, middle } => {
            let is_above = low > exceeds && middle.is_none_or(|middle| middle > margin);
            let is_below = high < -exceeds && middle.is_none_or(|middle| middle < -margin);
            match (is_above, is_below) {
                (true, _) => judge_exact(1.0, direction, 0.0),
                (_, true) => judge_exact(-1.0, direction, 0.0),
                (false, false) => Verdict::WithinNoise,
            }
        }
    }
}

fn judge_exact(change: f64, direction: Direction, margin: f64) -> Verdict {
    match direction {
        _ if change.abs() <= margin => Verdict::NoChange,
        Direction::Neutral => Verdict::Changed,
        Direction::Lower if change < 0.0 => Verdict::Better,
        Direction::Higher if change > 0.0 => Verdict::Better,
        Direction::Lower | Direction::Higher => Verdict::Worse,
    }
}

impl Verdict {
    /// All labels, those that state a change first.
    pub const ALL: [Verdict; 9] = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::Changed,
        Verdict::NoChange,
        Verdict::SensitiveToWatermarks,
        Verdict::WithinNoise,
        Verdict::Mixed,
        Verdict::TooFewEvents,
        Verdict::NotJudged,
    ];

    /// Returns the label in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Changed => "changed",
            Verdict::NoChange => "no change",
            Verdict::SensitiveToWatermarks => "sensitive to watermarks",
            Verdict::WithinNoise => "within noise",
            Verdict::Mixed => "mixed",
            Verdict::TooFewEvents => "too few events",
            Verdict::NotJudged => "not judged",
        }
    }

    /// Returns whether the measure is judged and has enough events.
    pub fn is_judged(self) -> bool {
        !matches!(self, Verdict::NotJudged | Verdict::TooFewEvents)
    }

    /// Returns whether B is better or worse.
    pub fn is_decided(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse)
    }

    /// Returns whether the evidence leaves open if the value changes.
    pub fn is_open(self) -> bool {
        !self.is_change() && self != Verdict::NoChange
    }

    /// Returns whether the value is known to differ, in any direction.
    pub fn is_change(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse | Verdict::Changed)
    }

    /// Compares two exact numbers, of which the lower is better. Numbers that have no order, such as NaN, are not
    /// judged.
    pub fn compare_exact<T: PartialOrd>(a: T, b: T) -> Verdict {
        match a.partial_cmp(&b) {
            Some(Ordering::Less) => Verdict::Worse,
            Some(Ordering::Greater) => Verdict::Better,
            Some(Ordering::Equal) => Verdict::NoChange,
            None => Verdict::NotJudged,
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Counts the rows of each label of [`Verdict::ALL`]; a count may be zero.
pub fn count_labels(labels: impl IntoIterator<Item = Verdict>) -> impl Iterator<Item = (Verdict, usize)> {
    let labels: Vec<Verdict> = labels.into_iter().collect();
    Verdict::ALL.into_iter().map(move |label| (label, labels.iter().filter(|other| **other == label).count()))
}

/// Returns `(b - a) / |a|`: zero for equal numbers, `None` if only `a` is zero. The sign is that of `b - a`.
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

    fn exact(change: f64) -> Evidence {
        Evidence::new(Change::Exact(change), Direction::Lower, 0.02)
    }

    #[test]
    fn relative_change_from_a_negative_value_keeps_its_sign() {
        assert_eq!(relative_change(-10.0, -5.0), Some(0.5));
        assert_eq!(relative_change(-10.0, 5.0), Some(1.5));
    }

    #[test]
    fn earlier_rules_take_precedence() {
        let few = exact(-0.5).with_events(Some(19.0));
        assert_eq!(judge(&few), Verdict::TooFewEvents);
        assert_eq!(judge(&Evidence { is_reproduced: false, ..few }), Verdict::NotJudged);
        assert_eq!(judge(&Evidence { is_reproduced: false, ..exact(0.0) }), Verdict::NotJudged, "equal values");
        assert_eq!(judge(&exact(-0.5).with_events(Some(20.0))), Verdict::Better);
    }

    #[test]
    fn exact_changes_are_judged_by_margin_and_direction() {
        assert_eq!(
            [0.02, -0.02, 0.03, -0.03].map(|change| judge(&exact(change))),
            [Verdict::NoChange, Verdict::NoChange, Verdict::Worse, Verdict::Better]
        );
        assert_eq!(judge(&Evidence { direction: Direction::Neutral, ..exact(0.5) }), Verdict::Changed);
        assert_eq!(judge(&Evidence { direction: Direction::Higher, ..exact(f64::INFINITY) }), Verdict::Better);
    }

    #[test]
    fn watermark_variation_is_no_change_only_if_small() {
        let judged = [
            (0.4, 0.6, 0.5, true),
            (0.4, 0.6, 0.5, false),
            (-0.01, 0.02, 0.01, true),
            (-0.01, 0.03, 0.01, true),
            (0.01, 0.03, 0.01, false),
            (0.01, 0.05, 0.03, false),
        ]
        .map(|(low, high, middle, overlap)| {
            judge(&Evidence::new(Change::Watermarks { low, high, middle, overlap }, Direction::Lower, 0.02))
        });
        let sensitive = Verdict::SensitiveToWatermarks;
        assert_eq!(judged, [sensitive, Verdict::Worse, Verdict::NoChange, sensitive, sensitive, Verdict::Worse]);
    }

    #[test]
    fn interval_is_judged_by_margin_zero_and_median() {
        let judged = [
            (-0.01, 0.02, 0.0, None),
            (0.001, 0.03, 0.0, None),
            (0.001, 0.03, 0.02, None),
            (0.001, 0.03, 0.0, Some(0.01)),
            (-0.5, -0.03, 0.02, Some(-0.2)),
            (-0.5, 0.5, 0.0, Some(0.1)),
        ]
        .map(|(low, high, exceeds, middle)| {
            judge(&Evidence::new(Change::Interval { low, high, exceeds, middle }, Direction::Lower, 0.02))
        });
        assert_eq!(
            judged,
            [
                Verdict::NoChange,
                Verdict::Worse,
                Verdict::WithinNoise,
                Verdict::WithinNoise,
                Verdict::Better,
                Verdict::WithinNoise
            ]
        );
    }

    /// An interval with its median, under margins of 2 %.
    fn interval(low: f64, high: f64, middle: f64, direction: Direction) -> Verdict {
        let change = Change::Interval { low, high, exceeds: 0.02, middle: Some(middle) };
        judge(&Evidence::new(change, direction, 0.02))
    }

    #[test]
    fn interval_and_median_must_both_exceed_the_margin() {
        assert_eq!(interval(0.03, 0.09, 0.05, Direction::Lower), Verdict::Worse);
        assert_eq!(interval(-0.09, -0.03, -0.05, Direction::Lower), Verdict::Better);
        assert_eq!(interval(-0.09, -0.03, -0.01, Direction::Lower), Verdict::WithinNoise);
        assert_eq!(interval(0.03, 0.09, 0.01, Direction::Lower), Verdict::WithinNoise);
        assert_eq!(interval(0.02, 0.09, 0.05, Direction::Lower), Verdict::WithinNoise, "at the margin");
        assert_eq!(interval(-0.09, -0.02, -0.05, Direction::Lower), Verdict::WithinNoise, "at the margin");
        assert_eq!(interval(0.03, 0.09, 0.02, Direction::Lower), Verdict::WithinNoise, "median at the margin");
        assert_eq!(interval(-0.09, -0.03, -0.02, Direction::Lower), Verdict::WithinNoise, "median at the margin");
        assert_eq!(interval(0.03, 0.09, 0.05, Direction::Higher), Verdict::Better);
        assert_eq!(interval(-0.09, -0.03, -0.05, Direction::Higher), Verdict::Worse);
    }

    #[test]
    fn labels_have_distinct_words_and_groups() {
        let words: std::collections::BTreeSet<&str> = Verdict::ALL.iter().map(|label| label.word()).collect();
        assert_eq!(words.len(), Verdict::ALL.len());
        assert_eq!(Verdict::NotJudged.word(), "not judged");
        let count = |test: fn(Verdict) -> bool| Verdict::ALL.into_iter().filter(|&label| test(label)).count();
        assert_eq!(
            [Verdict::is_judged, Verdict::is_decided, Verdict::is_open, Verdict::is_change].map(count),
            [7, 2, 5, 3]
        );
        assert!(!Verdict::TooFewEvents.is_judged() && Verdict::Worse.is_decided() && !Verdict::NoChange.is_open());
    }

    #[test]
    fn lower_exact_number_is_better() {
        assert_eq!(Verdict::compare_exact(1, 2), Verdict::Worse);
        assert_eq!(Verdict::compare_exact(2, 1), Verdict::Better);
        assert_eq!(Verdict::compare_exact(1, 1), Verdict::NoChange);
        assert_eq!(Verdict::compare_exact(f64::NAN, 1.0), Verdict::NotJudged);
    }

    #[test]
    fn every_label_is_counted() {
        let counts: Vec<_> = count_labels([Verdict::Better, Verdict::WithinNoise, Verdict::Better]).collect();
        assert_eq!(counts.len(), Verdict::ALL.len());
        assert_eq!(counts[0], (Verdict::Better, 2));
        assert_eq!(counts[5], (Verdict::WithinNoise, 1));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<usize>(), 3);
    }
}
