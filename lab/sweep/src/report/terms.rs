//! Terms by which results are judged, and the verdicts of one kind of sweep.

use freehold_report::report::{self as model, Detail};

/// Default margin: the largest relative change that counts as no change.
pub const MARGIN: f64 = 0.02;

/// Rules for judging results, and the level of detail of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Largest relative change of replays that counts as no change.
    pub margin: f64,
    /// Level of detail at a terminal.
    pub detail: Detail,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { margin: MARGIN, detail: Detail::Differences }
    }
}

/// Verdicts of one kind of sweep.
pub(super) struct Verdicts {
    /// Number of comparisons of a B with an A.
    pub comparisons: usize,
    /// Recordings, hosts, or points of simulated runs that are left out.
    pub incomplete: Vec<String>,
    /// Reports on the comparisons.
    pub reports: Vec<model::Report>,
}
