//! What matters to who runs a machine, in the order in which it does.
//!
//! First come requests that get nothing, then those that wait, then what they are served, then the work behind it. Free
//! memory in whole pageblocks is a price: less of it is bad, and more is nobody's aim.

use crate::report::metrics::Metric;

/// A measure that advice looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concern {
    /// The measure.
    pub(crate) metric: Metric,
    /// What people call it.
    pub(crate) words: &'static str,
    /// What it counts.
    pub(crate) kind: Kind,
}

/// What a concern counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Requests: each of them matters, but a few come and go by chance.
    Requests,
    /// Work behind requests: where little of it is done for each of them, less would not be noticed, and it is not
    /// worth memory.
    Work,
    /// What is there at the end, in pageblocks.
    State,
}

const fn concern(metric: Metric, words: &'static str, kind: Kind) -> Concern {
    Concern { metric, words, kind }
}

/// What a setting is changed for, the most important first.
pub(crate) const CONCERNS: [Concern; 6] = [
    concern(Metric::FailedAllocations, "failed requests", Kind::Requests),
    concern(Metric::AllocStalls, "direct reclaims", Kind::Requests),
    concern(Metric::CompactStalls, "direct compactions", Kind::Requests),
    concern(Metric::HugePagesServed, "huge pages served", Kind::Requests),
    concern(Metric::PagesScanned, "pages scanned", Kind::Work),
    concern(Metric::ZoneLockAcquisitions, "zone lock acquisitions", Kind::Work),
];

/// Those of them that are about memory being short: there is nothing to see where it never was.
pub(crate) const OF_PRESSURE: [Metric; 4] =
    [Metric::FailedAllocations, Metric::AllocStalls, Metric::CompactStalls, Metric::PagesScanned];

/// What is only a price.
pub(crate) const PRICE: Concern = concern(Metric::FreePageblocks, "free pageblocks", Kind::State);
