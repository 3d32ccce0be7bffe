//! Terms by which results are judged, and the verdicts of one kind of sweep.

use freehold_report::report::{self as model, Detail};

/// Relative changes up to this are none, unless somebody says otherwise.
pub const MARGIN: f64 = 0.02;

/// How results are judged, and how much of that a person sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Relative changes of replays up to this are none.
    pub margin: f64,
    /// What a person at a terminal sees.
    pub detail: Detail,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { margin: MARGIN, detail: Detail::Differences }
    }
}

/// Verdicts of one kind of sweep.
pub(super) struct Verdicts {
    /// Comparisons of a B with an A.
    pub comparisons: usize,
    /// Recordings, hosts or seeds that are left out.
    pub incomplete: Vec<String>,
    /// A report on each comparison.
    pub reports: Vec<model::Report>,
}
