//! Bars: what was promised of a comparison, and whether it holds.
//!
//! A bar is judged as a verdict is: by the interval, and not before there are as many runs as a verdict needs.

use freehold_stats::verdict::Verdict;
use serde::{Serialize, Serializer};

use super::decide::{Estimate, RUNS_MIN};
use super::session::Outcome;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// B takes at most so many times as long as A.
    RatioAtMost(f64),
    /// An operation of B takes at most so many nanoseconds.
    NanosecondsAtMost(f64),
    /// The difference was planted, so the verdict is known.
    Planted(Verdict),
}

/// Whether a promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holding {
    /// It does.
    Met,
    /// It does not.
    Missed,
    /// The interval lies on both sides of it, or the runs are too few.
    Open,
}

impl Holding {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Holding::Met => "met",
            Holding::Missed => "missed",
            Holding::Open => "open",
        }
    }
}

impl Bar {
    /// Whether the outcome keeps it.
    pub fn holds(self, outcome: &Outcome) -> Holding {
        match self {
            Bar::NanosecondsAtMost(most) if outcome.estimate.runs >= RUNS_MIN => {
                at_most(most, outcome.b_ns_low, outcome.b_ns_high)
            }
            _ => self.holds_for(&outcome.estimate, outcome.verdict),
        }
    }

    /// Whether a ratio and its verdict keep it, as far as they say.
    pub fn holds_for(self, estimate: &Estimate, verdict: Verdict) -> Holding {
        match self {
            _ if estimate.runs < RUNS_MIN => Holding::Open,
            Bar::RatioAtMost(most) => at_most(most, estimate.low, estimate.high),
            Bar::NanosecondsAtMost(_) => Holding::Open,
            Bar::Planted(_) if verdict.is_open() => Holding::Open,
            Bar::Planted(planted) if planted == verdict => Holding::Met,
            Bar::Planted(_) => Holding::Missed,
        }
    }

    /// The promise in a few words.
    pub fn text(self) -> String {
        match self {
            Bar::RatioAtMost(most) => format!("B/A at most {most}"),
            Bar::NanosecondsAtMost(most) => format!("B at most {most} ns"),
            Bar::Planted(verdict) => format!("must be {}", verdict.word()),
        }
    }
}

/// Where an interval lies.
fn at_most(most: f64, low: f64, high: f64) -> Holding {
    if high <= most {
        Holding::Met
    } else if low > most {
        Holding::Missed
    } else {
        Holding::Open
    }
}

impl Serialize for Bar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}
