//! What one replay measured.
//!
//! The replayer fills a [`ReplayOutcome`]; everything else in this folder only reads it. A metric
//! that could not be measured is absent rather than zero.

use freehold_report::number::Quantity;
use freehold_stats::verdict::Direction;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::course::Course;

/// What is measured in every replay. The order is that of the tables and of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Times a zone's lock was taken.
    ZoneLockAcquisitions,
    /// Pages moved under one hold of a zone's lock, on average.
    PagesPerZoneLock,
    /// Bulk refills of a per-CPU list from its zone.
    PcpRefills,
    /// Bulk drains of a per-CPU list into its zone.
    PcpDrains,
    /// Recorded requests that the engine could not serve.
    FailedAllocations,
    /// Share of the free memory that lies in blocks below order 9, at the end of the replay.
    UnusableFreeIndexOrder9,
    /// Pageblocks that are free as a whole, at the end of the replay.
    FreePageblocks,
    /// Pageblocks in the reserve for atomic requests, at the end of the replay.
    HighatomicPageblocks,
    /// Fallbacks that took over a whole pageblock of another type.
    FallbackClaims,
    /// Fallbacks that took pages from a pageblock that kept its type.
    FallbackSteals,
    /// Blocks freed on another CPU than they were allocated on.
    CrossCpuFrees,
    /// Recorded requests for a huge page that the engine could serve.
    HugePagesServed,
    /// Requests that reclaimed for themselves.
    AllocStalls,
    /// Time that requests stalled, all together.
    StallTime,
    /// Pages that reclaim looked at.
    PagesScanned,
    /// Pages that reclaim freed.
    PagesReclaimed,
    /// Requests that compacted for themselves.
    CompactStalls,
    /// Share of these that got their block so.
    CompactSuccess,
    /// Frames that compaction looked at, for pages to move and for places to move them to.
    CompactScanned,
    /// Pages that compaction moved.
    PagesMigrated,
}

/// What makes metrics differ together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// CPUs meet at a zone's lock.
    Contention,
    /// Free memory lies in pieces, and types mix.
    Fragmentation,
    /// Requests for huge pages.
    HugePages,
    /// Requests that fail, and what is set apart so that they do not.
    Failures,
    /// What is done when memory is short.
    ReclaimAndCompaction,
}

impl Cause {
    /// All of them, in the order of reports.
    pub const ALL: [Cause; 5] =
        [Cause::Contention, Cause::Fragmentation, Cause::HugePages, Cause::Failures, Cause::ReclaimAndCompaction];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Contention => "contention",
            Cause::Fragmentation => "fragmentation",
            Cause::HugePages => "huge pages",
            Cause::Failures => "failures and the reserve",
            Cause::ReclaimAndCompaction => "reclaim and compaction",
        }
    }
}

impl Metric {
    /// Every metric, in the order of reports.
    pub const ALL: [Metric; 20] = [
        Metric::ZoneLockAcquisitions,
        Metric::PagesPerZoneLock,
        Metric::PcpRefills,
        Metric::PcpDrains,
        Metric::FailedAllocations,
        Metric::UnusableFreeIndexOrder9,
        Metric::FreePageblocks,
        Metric::HighatomicPageblocks,
        Metric::FallbackClaims,
        Metric::FallbackSteals,
        Metric::CrossCpuFrees,
        Metric::HugePagesServed,
        Metric::AllocStalls,
        Metric::StallTime,
        Metric::PagesScanned,
        Metric::PagesReclaimed,
        Metric::CompactStalls,
        Metric::CompactSuccess,
        Metric::CompactScanned,
        Metric::PagesMigrated,
    ];

    /// The name under which the metric stands in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Metric::ZoneLockAcquisitions => "zone_lock_acquisitions",
            Metric::PagesPerZoneLock => "pages_per_zone_lock",
            Metric::PcpRefills => "pcp_refills",
            Metric::PcpDrains => "pcp_drains",
            Metric::FailedAllocations => "failed_allocations",
            Metric::UnusableFreeIndexOrder9 => "unusable_free_index_order9",
            Metric::FreePageblocks => "free_pageblocks",
            Metric::HighatomicPageblocks => "highatomic_pageblocks",
            Metric::FallbackClaims => "fallback_claims",
            Metric::FallbackSteals => "fallback_steals",
            Metric::CrossCpuFrees => "cross_cpu_frees",
            Metric::HugePagesServed => "huge_pages_served",
            Metric::AllocStalls => "allocstall",
            Metric::StallTime => "stall_time",
            Metric::PagesScanned => "pgscan",
            Metric::PagesReclaimed => "pgsteal",
            Metric::CompactStalls => "compact_stall",
            Metric::CompactSuccess => "compact_success_share",
            Metric::CompactScanned => "compact_scanned",
            Metric::PagesMigrated => "pgmigrate_success",
        }
    }

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// What the number counts.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::ZoneLockAcquisitions => "acquisitions",
            Metric::PagesPerZoneLock => "pages",
            Metric::PcpRefills => "refills",
            Metric::PcpDrains => "drains",
            Metric::FailedAllocations | Metric::HugePagesServed | Metric::AllocStalls | Metric::CompactStalls => {
                "requests"
            }
            Metric::UnusableFreeIndexOrder9 | Metric::CompactSuccess => "share",
            Metric::FreePageblocks | Metric::HighatomicPageblocks => "pageblocks",
            Metric::FallbackClaims | Metric::FallbackSteals => "fallbacks",
            Metric::CrossCpuFrees => "frees",
            Metric::PagesScanned | Metric::PagesReclaimed | Metric::PagesMigrated => "pages",
            Metric::StallTime => "microseconds",
            Metric::CompactScanned => "frames",
        }
    }

    /// Whether the metric tells what was done because memory was short: it is measured only where that is decided anew,
    /// and is left out of reports where it was not.
    pub fn is_of_pressure(self) -> bool {
        self as usize >= Metric::HugePagesServed as usize
    }

    /// What makes it differ: metrics of one cause are read together.
    pub fn cause(self) -> Cause {
        match self {
            Metric::ZoneLockAcquisitions
            | Metric::PagesPerZoneLock
            | Metric::PcpRefills
            | Metric::PcpDrains
            | Metric::CrossCpuFrees => Cause::Contention,
            Metric::UnusableFreeIndexOrder9
            | Metric::FreePageblocks
            | Metric::FallbackClaims
            | Metric::FallbackSteals => Cause::Fragmentation,
            Metric::HugePagesServed => Cause::HugePages,
            Metric::FailedAllocations | Metric::HighatomicPageblocks => Cause::Failures,
            Metric::AllocStalls
            | Metric::StallTime
            | Metric::PagesScanned
            | Metric::PagesReclaimed
            | Metric::CompactStalls
            | Metric::CompactSuccess
            | Metric::CompactScanned
            | Metric::PagesMigrated => Cause::ReclaimAndCompaction,
        }
    }

    /// Rows of fidelity that say whether a replay reproduces this on a recording: each sum must come near what was
    /// recorded. None where the recording itself decides.
    pub fn held_against(self) -> &'static [&'static [&'static str]] {
        match self {
            Metric::ZoneLockAcquisitions | Metric::PagesPerZoneLock => &[&["blocks_taken"], &["blocks_drained"]],
            Metric::PcpRefills => &[&["blocks_taken"]],
            Metric::PcpDrains => &[&["blocks_drained"]],
            Metric::FailedAllocations => &[&["failures"]],
            Metric::UnusableFreeIndexOrder9 => &[&["unusable_free_index_order9"]],
            Metric::FreePageblocks => &[&["free_pageblocks"]],
            Metric::HighatomicPageblocks => &[&["highatomic_pageblocks"]],
            Metric::FallbackClaims => &[&["fallback_claims"]],
            Metric::FallbackSteals => &[&["fallback_steals"]],
            Metric::CrossCpuFrees => &[],
            Metric::HugePagesServed => &[&["huge_pages_served"]],
            Metric::AllocStalls => &[&["allocstall"]],
            Metric::StallTime => &[&["stall_time"]],
            Metric::PagesScanned => &[&["pgscan_kswapd", "pgscan_direct"]],
            Metric::PagesReclaimed => &[&["pgsteal_kswapd", "pgsteal_direct"]],
            Metric::CompactStalls => &[&["compact_stall"]],
            Metric::CompactSuccess => &[&["compact_stall"], &["compact_success"]],
            Metric::CompactScanned => &[&["compact_migrate_scanned", "compact_free_scanned"]],
            Metric::PagesMigrated => &[&["pgmigrate_success"]],
        }
    }

    /// Which way is better.
    ///
    /// Some metrics have no good direction: more pages a hold mean fewer holds but longer ones, a reserve is a price
    /// paid for atomic requests, where a block is freed is the workload's doing, and pages that are reclaimed or moved
    /// are work done as well as work to do.
    pub fn direction(self) -> Direction {
        match self {
            Metric::ZoneLockAcquisitions
            | Metric::PcpRefills
            | Metric::PcpDrains
            | Metric::FailedAllocations
            | Metric::UnusableFreeIndexOrder9
            | Metric::FallbackClaims
            | Metric::FallbackSteals
            | Metric::AllocStalls
            | Metric::StallTime
            | Metric::PagesScanned
            | Metric::CompactStalls
            | Metric::CompactScanned => Direction::Lower,
            Metric::FreePageblocks | Metric::HugePagesServed | Metric::CompactSuccess => Direction::Higher,
            Metric::PagesPerZoneLock
            | Metric::HighatomicPageblocks
            | Metric::CrossCpuFrees
            | Metric::PagesReclaimed
            | Metric::PagesMigrated => Direction::Neutral,
        }
    }
}

/// One number for each [`Metric`] that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    values: [Option<Quantity>; Metric::ALL.len()],
}

impl Metrics {
    /// No metric measured yet.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Sets a metric that counts.
    #[must_use]
    pub fn with_count(mut self, metric: Metric, count: u64) -> Metrics {
        self.values[metric as usize] = Some(Quantity::Count(count));
        self
    }

    /// Sets a metric to what a replay measured.
    #[must_use]
    pub fn with(mut self, metric: Metric, value: Quantity) -> Metrics {
        self.values[metric as usize] = Some(value);
        self
    }

    /// Sets a metric that is `part / whole`; it stays unmeasured when `whole` is zero.
    #[must_use]
    pub fn with_ratio(mut self, metric: Metric, part: u64, whole: u64) -> Metrics {
        self.values[metric as usize] = Quantity::ratio(part, whole);
        self
    }

    /// The metrics to report: all, but those of memory pressure only if it was measured.
    pub fn reported(&self) -> impl Iterator<Item = Metric> {
        let measured = self.get(Metric::AllocStalls).is_some();
        Metric::ALL.into_iter().filter(move |metric| measured || !metric.is_of_pressure())
    }

    /// The number measured for `metric`, if any.
    pub fn get(&self, metric: Metric) -> Option<Quantity> {
        self.values[metric as usize]
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.reported().count()))?;
        for metric in self.reported() {
            map.serialize_entry(metric.name(), &self.get(metric))?;
        }
        map.end()
    }
}

/// One number that the recorded kernel told too, so that the engine can be held against it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FidelityRow {
    /// What was counted, such as `free_blocks_order_4`.
    pub name: String,
    /// What the recorded kernel says.
    pub recorded: f64,
    /// What the replay gives.
    pub replayed: f64,
    /// `(replayed - recorded) / recorded`; `None` when the kernel recorded none but the replay has some.
    pub relative_error: Option<f64>,
    /// The largest relative error, either way, that counts as faithful; `None` where the row only informs.
    pub bound: Option<f64>,
    /// Whether the error is within the bound; `None` without a bound.
    pub within: Option<bool>,
}

impl FidelityRow {
    /// A row from its two numbers; zero against zero is no error.
    pub fn new(name: impl Into<String>, recorded: f64, replayed: f64, bound: Option<f64>) -> FidelityRow {
        let relative_error = if recorded == replayed {
            Some(0.0)
        } else if recorded == 0.0 {
            None
        } else {
            Some((replayed - recorded) / recorded)
        };
        let within = bound.map(|bound| relative_error.is_some_and(|error| error.abs() <= bound));
        FidelityRow { name: name.into(), recorded, replayed, relative_error, bound, within }
    }
}

/// Everything one replay of one recording under one policy found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayOutcome {
    /// The policy's name as it was asked for.
    pub policy: String,
    /// The metrics.
    pub metrics: Metrics,
    /// Further replays that should come to the same, as far as nothing is left to chance
    /// ([`nudges`](crate::advice::nudges)).
    #[serde(skip)]
    pub nudged: Vec<ReplayOutcome>,
    /// The engine against the recorded kernel.
    pub fidelity: Vec<FidelityRow>,
    /// What could not be replayed exactly: the kind of event or reason, and how many.
    #[serde(serialize_with = "serialize_unreplayed")]
    pub unreplayed: Vec<(String, u64)>,
    /// What the replay takes for granted, in sentences.
    pub assumptions: Vec<String>,
    /// When, and who.
    #[serde(flatten)]
    pub course: Course,
}

impl ReplayOutcome {
    /// This replay, and the further ones.
    pub fn replays(&self) -> impl Iterator<Item = &ReplayOutcome> {
        std::iter::once(self).chain(&self.nudged)
    }

    /// What this means under other settings than the recorded ones, about which these sentences say what is taken for
    /// granted: fidelity then shows differences, which are no errors, and so has no bounds. Without sentences, all
    /// stays.
    #[must_use]
    pub fn under(mut self, assumptions: Vec<String>) -> ReplayOutcome {
        if !assumptions.is_empty() {
            self.fidelity.iter_mut().for_each(|row| (row.bound, row.within) = (None, None));
            self.assumptions.splice(0..0, assumptions);
        }
        self
    }

    /// The same, of a recording whose writer took this for granted: what was guessed comes first.
    #[must_use]
    pub(crate) fn granting(mut self, guesses: &[String]) -> ReplayOutcome {
        self.assumptions.splice(0..0, guesses.iter().cloned());
        self
    }
}

/// Objects with named fields, as in the document of a comparison, instead of pairs.
fn serialize_unreplayed<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry<'a> {
        what: &'a str,
        events: u64,
    }
    serializer.collect_seq(pairs.iter().map(|(what, events)| Entry { what, events: *events }))
}
