//! Fidelity measures: measures that the recorded kernel reports too, so that the engine can be compared with it.

use freehold::base::Order;
use freehold_stats::verdict::EVENTS_MIN;
use serde::{Serialize, Serializer};

use super::mechanisms::MechanismMeasure;

/// A measure that is known of the recorded kernel and of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FidelityMeasure {
    /// Free pages at the end.
    FreePages,
    /// Free pages in blocks of order 4 and above, at the end.
    FreePagesOrder4Up,
    /// Free pageblocks at the end.
    FreePageblocks,
    /// Share of the free memory in blocks below order 9, at the end.
    UnusableFreeIndexOrder9,
    /// Free blocks of one order at the end.
    FreeBlocks(Order),
    /// Blocks that left the free lists.
    BlocksTaken,
    /// Blocks that were drained from per-CPU lists.
    BlocksDrained,
    /// Pages on per-CPU lists at the end.
    PagesOnPerCpuLists,
    /// Requests that failed.
    Failures,
    /// Requests that failed in the recording and in the replay.
    FailuresInBoth,
    /// Fallbacks that claimed a pageblock.
    FallbackClaims,
    /// Fallbacks that stole pages.
    FallbackSteals,
    /// Pageblocks in the high-atomic reserve at the end.
    HighatomicPageblocks,
    /// Blocks that were allocated from the high-atomic reserve.
    BlocksFromReserve,
    /// Pages of freed ranges that went to a per-CPU list.
    RangePagesListed,
    /// Requests for huge pages that were served.
    HugePagesServed,
    /// Direct reclaims, over all zones.
    AllocStalls,
    /// A counter of `/proc/vmstat`.
    Vmstat(VmstatCounter),
    /// A measure of one mechanism.
    Mechanism(MechanismMeasure),
    /// Time that requests stalled, in microseconds.
    StallTime,
    /// Time that 99 % of the stalled requests did not exceed, in microseconds.
    StallP99,
}

/// Counters of `/proc/vmstat` that the engine has too. Variants have the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernel documents its counters")]
pub enum VmstatCounter {
    Pageoutrun,
    PgscanKswapd,
    PgscanDirect,
    PgstealKswapd,
    PgstealDirect,
    CompactStall,
    CompactSuccess,
    CompactFail,
    CompactMigrateScanned,
    CompactFreeScanned,
    CompactIsolated,
    CompactDaemonWake,
    CompactDaemonMigrateScanned,
    CompactDaemonFreeScanned,
    PgmigrateSuccess,
    PgmigrateFail,
}

/// Names of [`FidelityMeasure::FreeBlocks`] by order.
const FREE_BLOCKS: [&str; Order::COUNT] = [
    "free_blocks_order_0",
    "free_blocks_order_1",
    "free_blocks_order_2",
    "free_blocks_order_3",
    "free_blocks_order_4",
    "free_blocks_order_5",
    "free_blocks_order_6",
    "free_blocks_order_7",
    "free_blocks_order_8",
    "free_blocks_order_9",
    "free_blocks_order_10",
];

impl FidelityMeasure {
    /// Returns every measure, in the order of reports.
    pub fn list() -> impl Iterator<Item = FidelityMeasure> {
        let free = [
            FidelityMeasure::FreePages,
            FidelityMeasure::FreePagesOrder4Up,
            FidelityMeasure::FreePageblocks,
            FidelityMeasure::UnusableFreeIndexOrder9,
        ];
        let work = [
            FidelityMeasure::BlocksTaken,
            FidelityMeasure::BlocksDrained,
            FidelityMeasure::PagesOnPerCpuLists,
            FidelityMeasure::Failures,
            FidelityMeasure::FailuresInBoth,
            FidelityMeasure::FallbackClaims,
            FidelityMeasure::FallbackSteals,
            FidelityMeasure::HighatomicPageblocks,
            FidelityMeasure::BlocksFromReserve,
            FidelityMeasure::RangePagesListed,
            FidelityMeasure::HugePagesServed,
            FidelityMeasure::AllocStalls,
        ];
        let counters = VmstatCounter::ALL.map(FidelityMeasure::Vmstat);
        free.into_iter()
            .chain(Order::all().map(FidelityMeasure::FreeBlocks))
            .chain(work)
            .chain(counters)
            .chain(MechanismMeasure::list().map(FidelityMeasure::Mechanism))
            .chain([FidelityMeasure::StallTime, FidelityMeasure::StallP99])
    }

    /// Returns the fixed name of the measure in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            FidelityMeasure::FreePages => "free_pages",
            FidelityMeasure::FreePagesOrder4Up => "free_pages_order_4_up",
            FidelityMeasure::FreePageblocks => "free_pageblocks",
            FidelityMeasure::UnusableFreeIndexOrder9 => "unusable_free_index_order9",
            FidelityMeasure::FreeBlocks(order) => FREE_BLOCKS[order.index()],
            FidelityMeasure::BlocksTaken => "blocks_taken",
            FidelityMeasure::BlocksDrained => "blocks_drained",
            FidelityMeasure::PagesOnPerCpuLists => "pages_on_percpu_lists",
            FidelityMeasure::Failures => "failures",
            FidelityMeasure::FailuresInBoth => "failures_in_both",
            FidelityMeasure::FallbackClaims => "fallback_claims",
            FidelityMeasure::FallbackSteals => "fallback_steals",
            FidelityMeasure::HighatomicPageblocks => "highatomic_pageblocks",
            FidelityMeasure::BlocksFromReserve => "blocks_from_reserve",
            FidelityMeasure::RangePagesListed => "range_pages_listed",
            FidelityMeasure::HugePagesServed => "huge_pages_served",
            FidelityMeasure::AllocStalls => "allocstall",
            FidelityMeasure::Vmstat(counter) => counter.name(),
            FidelityMeasure::Mechanism(measure) => measure.name(),
            FidelityMeasure::StallTime => "stall_time",
            FidelityMeasure::StallP99 => "stall_p99",
        }
    }

    /// Returns the measure that counts the events behind this one; `None` for a measure without events of its own, such
    /// as free pages.
    pub(crate) fn events(self) -> Option<FidelityMeasure> {
        match self {
            FidelityMeasure::Failures
            | FidelityMeasure::FallbackClaims
            | FidelityMeasure::FallbackSteals
            | FidelityMeasure::HugePagesServed
            | FidelityMeasure::AllocStalls
            | FidelityMeasure::Vmstat(VmstatCounter::CompactStall) => Some(self),
            FidelityMeasure::Vmstat(VmstatCounter::PgscanDirect | VmstatCounter::PgstealDirect) => {
                Some(FidelityMeasure::AllocStalls)
            }
            FidelityMeasure::Vmstat(VmstatCounter::CompactSuccess | VmstatCounter::CompactFail) => {
                Some(FidelityMeasure::Vmstat(VmstatCounter::CompactStall))
            }
            FidelityMeasure::Mechanism(measure) => Some(FidelityMeasure::Mechanism(measure.events())),
            _ => None,
        }
    }

    /// Returns the measure called `name`; `None` if there is none.
    pub fn parse(name: &str) -> Option<FidelityMeasure> {
        FidelityMeasure::list().find(|measure| measure.name() == name)
    }
}

impl Serialize for FidelityMeasure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl VmstatCounter {
    /// Every counter, in the order of reports.
    pub(crate) const ALL: [VmstatCounter; 16] = [
        VmstatCounter::Pageoutrun,
        VmstatCounter::PgscanKswapd,
        VmstatCounter::PgscanDirect,
        VmstatCounter::PgstealKswapd,
        VmstatCounter::PgstealDirect,
        VmstatCounter::CompactStall,
        VmstatCounter::CompactSuccess,
        VmstatCounter::CompactFail,
        VmstatCounter::CompactMigrateScanned,
        VmstatCounter::CompactFreeScanned,
        VmstatCounter::CompactIsolated,
        VmstatCounter::CompactDaemonWake,
        VmstatCounter::CompactDaemonMigrateScanned,
        VmstatCounter::CompactDaemonFreeScanned,
        VmstatCounter::PgmigrateSuccess,
        VmstatCounter::PgmigrateFail,
    ];

    /// Returns the kernel's name of the counter.
    pub fn name(self) -> &'static str {
        match self {
            VmstatCounter::Pageoutrun => "pageoutrun",
            VmstatCounter::PgscanKswapd => "pgscan_kswapd",
            VmstatCounter::PgscanDirect => "pgscan_direct",
            VmstatCounter::PgstealKswapd => "pgsteal_kswapd",
            VmstatCounter::PgstealDirect => "pgsteal_direct",
            VmstatCounter::CompactStall => "compact_stall",
            VmstatCounter::CompactSuccess => "compact_success",
            VmstatCounter::CompactFail => "compact_fail",
            VmstatCounter::CompactMigrateScanned => "compact_migrate_scanned",
            VmstatCounter::CompactFreeScanned => "compact_free_scanned",
            VmstatCounter::CompactIsolated => "compact_isolated",
            VmstatCounter::CompactDaemonWake => "compact_daemon_wake",
            VmstatCounter::CompactDaemonMigrateScanned => "compact_daemon_migrate_scanned",
            VmstatCounter::CompactDaemonFreeScanned => "compact_daemon_free_scanned",
            VmstatCounter::PgmigrateSuccess => "pgmigrate_success",
            VmstatCounter::PgmigrateFail => "pgmigrate_fail",
        }
    }
}

/// The recorded kernel and the replay in one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FidelityRow {
    /// The measure.
    #[serde(rename = "name")]
    pub measure: FidelityMeasure,
    /// Value of the recorded kernel.
    pub recorded: f64,
    /// Value of the replay.
    pub replayed: f64,
    /// `(replayed - recorded) / recorded`; `None` if only the recorded value is zero.
    pub relative_error: Option<f64>,
    /// Largest relative error in either direction that counts as faithful; `None` for an informative row.
    pub bound: Option<f64>,
    /// Whether the error is within the bound; `None` without a bound.
    pub within: Option<bool>,
    /// Number of events behind the recorded and the replayed value; `None` if the measure has no events of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<[f64; 2]>,
    /// Label of a row whose error means nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<FidelityLabel>,
}

/// Label of a fidelity row whose error means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FidelityLabel {
    /// Both the recorded kernel and the replay have fewer events than [`EVENTS_MIN`].
    TooFewEvents,
}

impl FidelityLabel {
    /// Returns the text of the label.
    pub fn text(self) -> &'static str {
        match self {
            FidelityLabel::TooFewEvents => "too few events",
        }
    }
}

impl FidelityRow {
    /// Compares two values of `measure`.
    pub fn new(measure: FidelityMeasure, recorded: f64, replayed: f64, bound: Option<f64>) -> FidelityRow {
        let relative_error = relative_error(recorded, replayed);
        let within = bound.map(|bound| relative_error.is_some_and(|error| error.abs() <= bound));
        FidelityRow { measure, recorded, replayed, relative_error, bound, within, events: None, label: None }
    }

    /// Sets the number of events behind the recorded and the replayed value.
    #[must_use]
    pub fn with_events(self, events: Option<[f64; 2]>) -> FidelityRow {
        let is_few = events.is_some_and(|events| events.into_iter().all(|count| count < EVENTS_MIN));
        FidelityRow { events, label: is_few.then_some(FidelityLabel::TooFewEvents), ..self }
    }
}

/// Returns `(replayed - recorded) / recorded`: zero for equal numbers, `None` if only `recorded` is zero.
pub(super) fn relative_error(recorded: f64, replayed: f64) -> Option<f64> {
    if recorded == replayed {
        Some(0.0)
    } else if recorded == 0.0 {
        None
    } else {
        Some((replayed - recorded) / recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_on_both_sides_are_labelled() {
        let row = FidelityRow::new(FidelityMeasure::AllocStalls, 4.0, 19.0, None);
        for (events, label) in [
            (None, None),
            (Some([4.0, 19.0]), Some(FidelityLabel::TooFewEvents)),
            (Some([4.0, 20.0]), None),
            (Some([20.0, 0.0]), None),
        ] {
            assert_eq!(row.with_events(events).label, label, "{events:?}");
        }
    }

    #[test]
    fn events_behind_a_listed_measure_are_listed() {
        for events in FidelityMeasure::list().filter_map(FidelityMeasure::events) {
            assert_eq!((events.events(), FidelityMeasure::parse(events.name())), (Some(events), Some(events)));
        }
    }

    #[test]
    fn measure_names_are_unique() {
        for measure in FidelityMeasure::list() {
            assert_eq!(FidelityMeasure::parse(measure.name()), Some(measure));
        }
        assert_eq!(FidelityMeasure::parse("free_blocks_order_11"), None);
    }
}
