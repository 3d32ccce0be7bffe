//! Bars: bounds that are set for a comparison before it is measured, and whether they hold.
//!
//! A bar is judged like a verdict: by the interval, and only once there are as many runs as a verdict needs.

use freehold_stats::verdict::Verdict;
use serde::{Serialize, Serializer};

use super::decide::{Estimate, RUNS_MIN};
use super::session::Outcome;

/// Bound on the outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// Largest permitted ratio of B's time to A's.
    RatioAtMost(f64),
    /// Largest permitted time of an operation of B, in nanoseconds.
    NanosecondsAtMost(f64),
    /// Verdict that must result, because the difference was planted.
    Planted(Verdict),
}

/// Result of testing a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holding {
    /// The bar holds.
    Met,
    /// The bar does not hold.
    Missed,
    /// Undecided: the interval contains the bound, or there are too few runs.
    Open,
}

impl Holding {
    /// Returns the word for tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Holding::Met => "met",
            Holding::Missed => "missed",
            Holding::Open => "open",
        }
    }
}

impl Bar {
    /// Tests the bar against an outcome.
    pub fn holds(self, outcome: &Outcome) -> Holding {
        match self {
            Bar::NanosecondsAtMost(most) if outcome.estimate.runs >= RUNS_MIN => {
                at_most(most, outcome.b_ns_low, outcome.b_ns_high)
            }
            _ => self.holds_for(&outcome.estimate, outcome.verdict),
        }
    }

    /// Tests the bar against a ratio and its verdict. A bound in nanoseconds remains open, because a ratio cannot
    /// decide it.
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

    /// Formats the bar in a few words.
    pub fn text(self) -> String {
        match self {
            Bar::RatioAtMost(most) => format!("B/A at most {most}"),
            Bar::NanosecondsAtMost(most) => format!("B at most {most} ns"),
            Bar::Planted(verdict) => format!("must be {}", verdict.word()),
        }
    }
}

/// Compares an interval with an upper bound.
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
