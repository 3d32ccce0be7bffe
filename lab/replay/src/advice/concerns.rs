//! Measures for which a setting is changed, in order of importance: failed requests, requests that wait, huge pages,
//! and the work behind requests. Free pageblocks count only as a price.

use crate::report::metrics::Metric;

/// A measure that advice considers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concern {
    /// The measure.
    pub(crate) metric: Metric,
    /// Name of the measure in sentences.
    pub(crate) words: &'static str,
    /// Kind of the counted events.
    pub(crate) kind: Kind,
    /// Command that shows the measure on the machine, to run before and after the change. Empty for [`PRICE`].
    pub(crate) command: &'static str,
}

/// Kind of events that a concern counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Requests. Each of them matters.
    Requests,
    /// Work behind requests. A small amount is not worth saving.
    Work,
    /// Pageblocks at the end of the recording.
    State,
}

const fn concern(metric: Metric, words: &'static str, kind: Kind, command: &'static str) -> Concern {
    Concern { metric, words, kind, command }
}

/// Concerns, the most important first.
pub(crate) const CONCERNS: [Concern; 6] = [
    concern(
        Metric::FailedAllocations,
        "failed requests",
        Kind::Requests,
        "freehold record --duration 60; freehold inspect recording.parquet",
    ),
    concern(Metric::AllocStalls, "direct reclaims", Kind::Requests, "grep allocstall /proc/vmstat"),
    concern(Metric::CompactStalls, "direct compactions", Kind::Requests, "grep compact_stall /proc/vmstat"),
    concern(Metric::HugePagesServed, "huge pages served", Kind::Requests, "grep thp_fault /proc/vmstat"),
    concern(Metric::PagesScanned, "pages scanned", Kind::Work, "grep pgscan /proc/vmstat"),
    concern(
        Metric::ZoneLockAcquisitions,
        "zone lock acquisitions",
        Kind::Work,
        "freehold record --duration 60; freehold replay recording.parquet",
    ),
];

/// Returns the measures of all concerns, the most important first.
pub fn concerns() -> impl Iterator<Item = Metric> {
    CONCERNS.iter().map(|concern| concern.metric)
}

/// Concerns that exist only where memory is short.
pub(crate) const OF_PRESSURE: [Metric; 4] =
    [Metric::FailedAllocations, Metric::AllocStalls, Metric::CompactStalls, Metric::PagesScanned];

/// The measure that counts only as a price.
pub(crate) const PRICE: Concern = concern(Metric::FreePageblocks, "free pageblocks", Kind::State, "");
