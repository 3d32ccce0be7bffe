//! Metrics of a replay: their units, their better direction, and the fidelity measures that show whether a replay
//! reproduces them.
//!
//! A metric that could not be measured is absent rather than zero.
//!
//! # Design
//!
//! The better direction of a measure belongs to the report and not to the function that judges. Pages moved by
//! compaction and `HighAtomic` pageblocks have no better direction in a comparison of replays. In a fleet, fewer of
//! them are better (`freehold_sim`, `fleet/measures`).

use freehold_report::number::Quantity;
use freehold_stats::verdict::Direction;
use freehold_trace::mechanism::{ReclaimClass, RequestClass};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::fidelity::FidelityMeasure::{self, Mechanism, Vmstat};
use super::fidelity::VmstatCounter;
use super::mechanisms::MechanismMeasure;

/// Metrics of a replay. Their order is that of the tables and of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Acquisitions of zone locks.
    ZoneLockAcquisitions,
    /// Pages moved under one hold of a zone's lock, on average.
    PagesPerZoneLock,
    /// Bulk refills of a per-CPU list from its zone.
    PcpRefills,
    /// Bulk drains of a per-CPU list into its zone.
    PcpDrains,
    /// Recorded requests that the engine could not serve.
    FailedAllocations,
    /// Share of the free memory in blocks below order 9, at the end of the replay.
    UnusableFreeIndexOrder9,
    /// Pageblocks that are free as a whole, at the end of the replay.
    FreePageblocks,
    /// Pageblocks in the high-atomic reserve, at the end of the replay.
    HighatomicPageblocks,
    /// Fallbacks that claimed a whole pageblock of another type.
    FallbackClaims,
    /// Fallbacks that stole pages from a pageblock that kept its type.
    FallbackSteals,
    /// Blocks freed on another CPU than the one that allocated them.
    CrossCpuFrees,
    /// Recorded requests for a huge page that the engine could serve.
    HugePagesServed,
    /// Direct reclaims.
    AllocStalls,
    /// Total time that requests stalled.
    StallTime,
    /// Pages that reclaim scanned.
    PagesScanned,
    /// Pages that reclaim freed.
    PagesReclaimed,
    /// Direct compactions.
    CompactStalls,
    /// Share of the direct compactions after which the request got its block.
    CompactSuccess,
    /// Frames that compaction scanned, for pages to move and for free targets.
    CompactScanned,
    /// Pages that compaction moved.
    PagesMigrated,
    /// Direct reclaims for orders above 3 that scanned nothing, since every zone was ready for compaction.
    AllocStallsReady,
    /// Other direct reclaims for orders above 3.
    AllocStallsCostly,
    /// Direct reclaims for orders 0 to 3.
    AllocStallsSmall,
    /// Pages that direct reclaims for orders above 3 scanned.
    PagesScannedCostly,
    /// Pages that direct reclaims for orders 0 to 3 scanned.
    PagesScannedSmall,
    /// Failed requests that may not reclaim.
    FailedNoReclaim,
    /// Failed first requests of faults for a huge page.
    FailedHugeFirst,
    /// Failed second requests of faults for a huge page.
    FailedHugeSecond,
}

/// Common cause of differences in several metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Contention for a zone's lock.
    Contention,
    /// Fragmentation of free memory, and mixing of types.
    Fragmentation,
    /// Requests for huge pages.
    HugePages,
    /// Failed requests, and the reserve that prevents them.
    Failures,
    /// Reclaim and compaction.
    ReclaimAndCompaction,
}

impl Cause {
    /// All causes, in the order of reports.
    pub const ALL: [Cause; 5] =
        [Cause::Contention, Cause::Fragmentation, Cause::HugePages, Cause::Failures, Cause::ReclaimAndCompaction];

    /// Returns the name of the cause in reports.
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
    pub const ALL: [Metric; 28] = [
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
        Metric::AllocStallsReady,
        Metric::AllocStallsCostly,
        Metric::AllocStallsSmall,
        Metric::PagesScannedCostly,
        Metric::PagesScannedSmall,
        Metric::FailedNoReclaim,
        Metric::FailedHugeFirst,
        Metric::FailedHugeSecond,
    ];

    /// Returns the name of the metric in tables and JSON.
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
            Metric::AllocStallsReady => "allocstall_costly_ready",
            Metric::AllocStallsCostly => "allocstall_costly",
            Metric::AllocStallsSmall => "allocstall_small",
            Metric::PagesScannedCostly => "pgscan_costly",
            Metric::PagesScannedSmall => "pgscan_small",
            Metric::FailedNoReclaim => "failures_no_reclaim",
            Metric::FailedHugeFirst => "failures_huge_first",
            Metric::FailedHugeSecond => "failures_huge_second",
        }
    }

    /// Returns the title of the metric for people.
    pub fn title(self) -> &'static str {
        match self {
            Metric::ZoneLockAcquisitions => "zone locks taken",
            Metric::PagesPerZoneLock => "pages per zone lock",
            Metric::PcpRefills => "pcp refills",
            Metric::PcpDrains => "pcp drains",
            Metric::FailedAllocations => "failed allocations",
            Metric::UnusableFreeIndexOrder9 => "unusable free index",
            Metric::FreePageblocks => "free pageblocks",
            Metric::HighatomicPageblocks => "highatomic pageblocks",
            Metric::FallbackClaims => "fallback claims",
            Metric::FallbackSteals => "fallback steals",
            Metric::CrossCpuFrees => "frees on another CPU",
            Metric::HugePagesServed => "huge pages served",
            Metric::AllocStalls => "direct reclaims",
            Metric::StallTime => "stall time",
            Metric::PagesScanned => "pages scanned",
            Metric::PagesReclaimed => "pages reclaimed",
            Metric::CompactStalls => "direct compactions",
            Metric::CompactSuccess => "compaction success",
            Metric::CompactScanned => "compaction scans",
            Metric::PagesMigrated => "pages migrated",
            Metric::AllocStallsReady => "reclaims, no scan",
            Metric::AllocStallsCostly => "reclaims, order 4 up",
            Metric::AllocStallsSmall => "reclaims, order 0-3",
            Metric::PagesScannedCostly => "scanned, order 4 up",
            Metric::PagesScannedSmall => "scanned, order 0-3",
            Metric::FailedNoReclaim => "failed, no reclaim",
            Metric::FailedHugeFirst => "failed, first huge",
            Metric::FailedHugeSecond => "failed, second huge",
        }
    }

    /// Returns the metric called `name`; `None` if there is none.
    pub fn parse(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns the unit of the metric.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::ZoneLockAcquisitions => "acquisitions",
            Metric::PagesPerZoneLock => "pages",
            Metric::PcpRefills => "refills",
            Metric::PcpDrains => "drains",
            Metric::FailedAllocations
            | Metric::HugePagesServed
            | Metric::AllocStalls
            | Metric::CompactStalls
            | Metric::AllocStallsReady
            | Metric::AllocStallsCostly
            | Metric::AllocStallsSmall
            | Metric::FailedNoReclaim
            | Metric::FailedHugeFirst
            | Metric::FailedHugeSecond => "requests",
            Metric::UnusableFreeIndexOrder9 | Metric::CompactSuccess => "share",
            Metric::FreePageblocks | Metric::HighatomicPageblocks => "pageblocks",
            Metric::FallbackClaims | Metric::FallbackSteals => "fallbacks",
            Metric::CrossCpuFrees => "frees",
            Metric::PagesScanned
            | Metric::PagesReclaimed
            | Metric::PagesMigrated
            | Metric::PagesScannedCostly
            | Metric::PagesScannedSmall => "pages",
            Metric::StallTime => "microseconds",
            Metric::CompactScanned => "frames",
        }
    }

    /// Returns whether the metric is about reclaim, compaction or huge pages. Such a metric is measured only if the
    /// engine decides reclaim, and is left out of other reports.
    pub fn is_of_pressure(self) -> bool {
        self as usize >= Metric::HugePagesServed as usize
    }

    /// Returns the cause of differences in the metric. Reports group metrics by their cause.
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
            Metric::HugePagesServed | Metric::FailedHugeFirst | Metric::FailedHugeSecond => Cause::HugePages,
            Metric::FailedAllocations | Metric::HighatomicPageblocks | Metric::FailedNoReclaim => Cause::Failures,
            Metric::AllocStalls
            | Metric::StallTime
            | Metric::PagesScanned
            | Metric::PagesReclaimed
            | Metric::CompactStalls
            | Metric::CompactSuccess
            | Metric::CompactScanned
            | Metric::PagesMigrated
            | Metric::AllocStallsReady
            | Metric::AllocStallsCostly
            | Metric::AllocStallsSmall
            | Metric::PagesScannedCostly
            | Metric::PagesScannedSmall => Cause::ReclaimAndCompaction,
        }
    }

    /// Returns sums of fidelity measures that show whether a replay reproduces this metric on a recording: each
    /// replayed sum must be near the recorded one.
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
            Metric::AllocStallsReady => &[&[Mechanism(MechanismMeasure::DirectReclaims(ReclaimClass::CostlyReady))]],
            Metric::AllocStallsCostly => &[&[Mechanism(MechanismMeasure::DirectReclaims(ReclaimClass::Costly))]],
            Metric::AllocStallsSmall => &[&[Mechanism(MechanismMeasure::DirectReclaims(ReclaimClass::Small))]],
            Metric::PagesScannedCostly => &[&[Mechanism(MechanismMeasure::PagesScanned(ReclaimClass::Costly))]],
            Metric::PagesScannedSmall => &[&[Mechanism(MechanismMeasure::PagesScanned(ReclaimClass::Small))]],
            Metric::FailedNoReclaim => &[&[Mechanism(MechanismMeasure::Failures(RequestClass::NoReclaim))]],
            Metric::FailedHugeFirst => &[&[Mechanism(MechanismMeasure::Failures(RequestClass::HugeFirst))]],
            Metric::FailedHugeSecond => &[&[Mechanism(MechanismMeasure::Failures(RequestClass::HugeSecond))]],
        }
    }

    /// Returns whether the metric counts as reproduced if none of its [`Metric::fidelity_sums`] is known. This holds
    /// for frees on other CPUs: if reclaim is played as recorded, these sums are not known, and the recording decides
    /// every free.
    pub(crate) fn is_recorded(self) -> bool {
        self == Metric::CrossCpuFrees
    }

    /// Returns whether the metric is a share of a whole.
    pub fn is_share(self) -> bool {
        matches!(self, Metric::UnusableFreeIndexOrder9 | Metric::CompactSuccess)
    }

    /// Returns the better direction.
    ///
    /// Some metrics have none. More pages per hold mean fewer holds but longer ones. The reserve is a price paid for
    /// atomic requests. The workload decides on which CPU a block is freed. Pages that are reclaimed or moved are both
    /// a result and a cost. A direct reclaim that ends at once costs nothing.
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
            | Metric::CompactScanned
            | Metric::AllocStallsCostly
            | Metric::AllocStallsSmall
            | Metric::PagesScannedCostly
            | Metric::PagesScannedSmall
            | Metric::FailedNoReclaim
            | Metric::FailedHugeFirst
            | Metric::FailedHugeSecond => Direction::Lower,
            Metric::FreePageblocks | Metric::HugePagesServed | Metric::CompactSuccess => Direction::Higher,
            Metric::PagesPerZoneLock
            | Metric::HighatomicPageblocks
            | Metric::CrossCpuFrees
            | Metric::PagesReclaimed
            | Metric::PagesMigrated
            | Metric::AllocStallsReady => Direction::Neutral,
        }
    }
}

/// One number for each [`Metric`] that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    values: [Option<Quantity>; Metric::ALL.len()],
}

impl Metrics {
    /// Creates metrics of which none is measured.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Sets a metric that counts.
    #[must_use]
    pub fn with_count(mut self, metric: Metric, count: u64) -> Metrics {
        self.values[metric as usize] = Some(Quantity::Count(count));
        self
    }

    /// Sets a metric to a measured value.
    #[must_use]
    pub fn with(mut self, metric: Metric, value: Quantity) -> Metrics {
        self.values[metric as usize] = Some(value);
        self
    }

    /// Sets a metric to `part / whole`. The metric stays unmeasured if `whole` is zero.
    #[must_use]
    pub fn with_ratio(mut self, metric: Metric, part: u64, whole: u64) -> Metrics {
        self.values[metric as usize] = Quantity::ratio(part, whole);
        self
    }

    /// Returns the metrics to report: all, but those of memory pressure only if they were measured.
    pub fn reported(&self) -> impl Iterator<Item = Metric> {
        let measured = self.get(Metric::AllocStalls).is_some();
        Metric::ALL.into_iter().filter(move |metric| measured || !metric.is_of_pressure())
    }

    /// Returns the number of events behind `metric`; `None` if the metric does not count events, or was not measured.
    pub fn events(&self, metric: Metric) -> Option<f64> {
        let counted: &[Metric] = match metric {
            Metric::UnusableFreeIndexOrder9 => return None,
            Metric::PagesPerZoneLock => &[Metric::ZoneLockAcquisitions],
            Metric::CompactSuccess => &[Metric::CompactStalls],
            Metric::StallTime => &[Metric::AllocStalls, Metric::CompactStalls],
            Metric::PagesScannedCostly => &[Metric::AllocStallsCostly],
            Metric::PagesScannedSmall => &[Metric::AllocStallsSmall],
            count => return self.get(count).map(Quantity::value),
        };
        counted.iter().filter_map(|metric| Some(self.get(*metric)?.value())).reduce(|sum, count| sum + count)
    }

    /// Returns the value of `metric`; `None` if it was not measured.
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
    fn metrics_use_listed_measures() {
        for measure in Metric::ALL.iter().flat_map(|metric| metric.fidelity_sums().iter().copied().flatten()) {
            assert!(FidelityMeasure::list().any(|listed| listed == *measure), "{measure:?} is not listed");
        }
    }
}
