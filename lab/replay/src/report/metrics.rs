//! Metrics of a replay: what is counted, in which unit, which direction is better, and which fidelity measures show
//! whether a replay reproduces the metric.
//!
//! A metric that could not be measured is absent rather than zero.

use freehold_report::number::Quantity;
use freehold_stats::verdict::Direction;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::fidelity::FidelityMeasure::{self, Vmstat};
use super::fidelity::VmstatCounter;

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

/// Fidelity measures that are added up before the replay is compared with the recording.
pub type FidelitySum = &'static [FidelityMeasure];

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

    /// Returns the metric called `name`.
    pub fn parse(name: &str) -> Option<Metric> {
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

    /// Sums of fidelity measures that show whether a replay reproduces this metric on a recording: each sum must come
    /// near the recorded one.
    pub fn fidelity_sums(self) -> &'static [FidelitySum] {
        match self {
            Metric::ZoneLockAcquisitions | Metric::PagesPerZoneLock => {
                &[&[FidelityMeasure::BlocksTaken], &[FidelityMeasure::BlocksDrained]]
            }
            Metric::PcpRefills => &[&[FidelityMeasure::BlocksTaken], &[FidelityMeasure::PagesOnPerCpuLists]],
            Metric::PcpDrains => &[&[FidelityMeasure::BlocksDrained], &[FidelityMeasure::PagesOnPerCpuLists]],
            Metric::FailedAllocations => &[&[FidelityMeasure::Failures]],
            Metric::UnusableFreeIndexOrder9 => &[&[FidelityMeasure::UnusableFreeIndexOrder9]],
            Metric::FreePageblocks => &[&[FidelityMeasure::FreePageblocks]],
            Metric::HighatomicPageblocks => &[&[FidelityMeasure::HighatomicPageblocks]],
            Metric::FallbackClaims => &[&[FidelityMeasure::FallbackClaims]],
            Metric::FallbackSteals => &[&[FidelityMeasure::FallbackSteals]],
            // Frees by reclaim are the model's, and come from other CPUs.
            Metric::CrossCpuFrees => &[&[Vmstat(VmstatCounter::PgstealKswapd), Vmstat(VmstatCounter::PgstealDirect)]],
            Metric::HugePagesServed => &[&[FidelityMeasure::HugePagesServed]],
            Metric::AllocStalls => &[&[FidelityMeasure::AllocStalls]],
            Metric::StallTime => &[&[FidelityMeasure::StallTime]],
            Metric::PagesScanned => &[&[Vmstat(VmstatCounter::PgscanKswapd), Vmstat(VmstatCounter::PgscanDirect)]],
            Metric::PagesReclaimed => &[&[Vmstat(VmstatCounter::PgstealKswapd), Vmstat(VmstatCounter::PgstealDirect)]],
            Metric::CompactStalls => &[&[Vmstat(VmstatCounter::CompactStall)]],
            Metric::CompactSuccess => {
                &[&[Vmstat(VmstatCounter::CompactStall)], &[Vmstat(VmstatCounter::CompactSuccess)]]
            }
            Metric::CompactScanned => {
                &[&[Vmstat(VmstatCounter::CompactMigrateScanned), Vmstat(VmstatCounter::CompactFreeScanned)]]
            }
            Metric::PagesMigrated => &[&[Vmstat(VmstatCounter::PgmigrateSuccess)]],
        }
    }

    /// Whether the recording decides the metric where no sum of [`Metric::fidelity_sums`] is known, as without a model
    /// of reclaim.
    pub(crate) fn is_recorded(self) -> bool {
        self == Metric::CrossCpuFrees
    }

    /// Returns whether the metric is a share of a whole.
    pub fn is_share(self) -> bool {
        matches!(self, Metric::UnusableFreeIndexOrder9 | Metric::CompactSuccess)
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

    /// Returns the number of events behind `metric`; `None` where it does not stand for events, or was not measured.
    pub fn events(&self, metric: Metric) -> Option<f64> {
        let counted: &[Metric] = match metric {
            Metric::UnusableFreeIndexOrder9 => return None,
            Metric::PagesPerZoneLock => &[Metric::ZoneLockAcquisitions],
            Metric::CompactSuccess => &[Metric::CompactStalls],
            Metric::StallTime => &[Metric::AllocStalls, Metric::CompactStalls],
            count => return self.get(count).map(Quantity::value),
        };
        counted.iter().filter_map(|metric| Some(self.get(*metric)?.value())).reduce(|sum, count| sum + count)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_checked_by_measures_that_are_listed() {
        for measure in Metric::ALL.iter().flat_map(|metric| metric.fidelity_sums().iter().copied().flatten()) {
            assert!(FidelityMeasure::list().any(|listed| listed == *measure), "{measure:?} is not listed");
        }
    }
}
