//! Measures for which a setting is changed, in the order in which they matter: requests that fail, requests that wait,
//! huge pages, and the work behind them. Free pageblocks are a price only.

use crate::report::metrics::Metric;

/// A measure that advice looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concern {
    /// The measure.
    pub(crate) metric: Metric,
    /// Its name in sentences.
    pub(crate) words: &'static str,
    /// What it counts.
    pub(crate) kind: Kind,
    /// Command that shows it on the machine, to run before and after the change.
    pub(crate) command: &'static str,
}

/// What a concern counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Requests: each of them matters.
    Requests,
    /// Work behind requests: little of it is not worth saving.
    Work,
    /// Pageblocks at the end.
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

/// Concerns that exist only where memory is short.
pub(crate) const OF_PRESSURE: [Metric; 4] =
    [Metric::FailedAllocations, Metric::AllocStalls, Metric::CompactStalls, Metric::PagesScanned];

/// The measure that is only a price.
pub(crate) const PRICE: Concern = concern(Metric::FreePageblocks, "free pageblocks", Kind::State, "");
