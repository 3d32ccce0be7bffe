//! Measures by which runs are compared: those that decide the verdict. All counters are compared in addition to them.
//!
//! No measure is a time, because times in an emulated kernel are not those of a real machine. Holds of the zone lock
//! are not a measure either, because they are estimated from times; the blocks that they moved are counted instead.

use freehold_stats::samples::Scale;
use freehold_stats::verdict::Direction::{self, Higher, Lower, Neutral};

use crate::Inspection;

/// A measure of one run.
pub(super) struct Measure {
    /// Cause under which the measure is listed.
    pub cause: &'static str,
    /// Name of the measure.
    pub name: &'static str,
    /// Direction in which the measure is better.
    pub direction: Direction,
    /// Kind of number that is measured.
    pub scale: Scale,
    of: Source,
}

/// Source of a measure's value.
enum Source {
    /// Number of events of this kind.
    Kind(&'static str),
    /// Increase of this counter of `/proc/vmstat`. The measure has no value if the kernel lacks the counter.
    Vmstat(&'static str),
    /// Function that computes the value from the inspection.
    Of(fn(&Inspection) -> Option<f64>),
}

impl Measure {
    /// Returns the value in `run`; `None` if the run does not have the measure.
    pub(super) fn value(&self, run: &Inspection) -> Option<f64> {
        match self.of {
            Source::Kind(kind) => {
                Some(run.kinds.iter().find(|row| row.kind == kind).map_or(0.0, |row| row.events as f64))
            }
            Source::Vmstat(name) if !has_counter(run, name) => None,
            Source::Vmstat(name) => {
                Some(run.vmstat.iter().find(|row| row.name == name).map_or(0.0, |row| row.delta as f64))
            }
            Source::Of(of) => of(run),
        }
    }
}

const fn events(cause: &'static str, name: &'static str, kind: &'static str, direction: Direction) -> Measure {
    Measure { cause, name, direction, scale: Scale::Counts, of: Source::Kind(kind) }
}

const fn vmstat(cause: &'static str, name: &'static str, direction: Direction) -> Measure {
    Measure { cause, name, direction, scale: Scale::Counts, of: Source::Vmstat(name) }
}

const fn count(
    cause: &'static str,
    name: &'static str,
    direction: Direction,
    of: fn(&Inspection) -> Option<f64>,
) -> Measure {
    Measure { cause, name, direction, scale: Scale::Counts, of: Source::Of(of) }
}

const fn number(
    cause: &'static str,
    name: &'static str,
    direction: Direction,
    of: fn(&Inspection) -> Option<f64>,
) -> Measure {
    Measure { cause, name, direction, scale: Scale::Numbers, of: Source::Of(of) }
}

/// Measures that decide the verdict, grouped by cause.
pub(super) const MEASURES: [Measure; 26] = [
    count("work", "pages allocated", Neutral, |run| {
        Some(run.orders.iter().map(|row| row.allocations << row.order).sum::<u64>() as f64)
    }),
    count("work", "requests that failed", Lower, |run| {
        Some(run.orders.iter().map(|row| row.failed).sum::<u64>() as f64)
    }),
    count("work", "requests of order 1 and above", Neutral, |run| {
        Some(run.orders.iter().filter(|row| row.order > 0).map(|row| row.allocations).sum::<u64>() as f64)
    }),
    events("per-CPU lists", "blocks taken from the zone", "zone_locked", Lower),
    events("per-CPU lists", "blocks drained to the zone", "pcpu_drain", Lower),
    number("per-CPU lists", "share of frees on another CPU", Neutral, |run| {
        (run.pairing.paired > 0).then_some(run.pairing.freed_on_another_cpu_share)
    }),
    count("fragmentation", "fallbacks by claim", Lower, |run| {
        Some(run.fallbacks.iter().map(|row| row.claims).sum::<u64>() as f64)
    }),
    count("fragmentation", "fallbacks by steal", Lower, |run| {
        Some(run.fallbacks.iter().map(|row| row.steals).sum::<u64>() as f64)
    }),
    number("fragmentation", "unusable index of order 9 at the end", Lower, |run| {
        run.fragmentation.iter().find(|row| row.moment == "end").and_then(|row| row.unusable_free_index_order9)
    }),
    number("fragmentation", "free pages at the end", Neutral, |run| {
        run.fragmentation.iter().find(|row| row.moment == "end").map(|row| row.free_pages as f64)
    }),
    vmstat("huge pages", "thp_fault_alloc", Higher),
    vmstat("huge pages", "thp_fault_fallback", Lower),
    count("reclaim", "passes of kswapd", Lower, |run| Some(run.reclaim.kswapd_wakes as f64)),
    count("reclaim", "direct reclaims", Lower, |run| Some(run.reclaim.direct_reclaims as f64)),
    vmstat("reclaim", "pgscan_kswapd", Lower),
    vmstat("reclaim", "pgscan_direct", Lower),
    vmstat("reclaim", "pgsteal_kswapd", Neutral),
    vmstat("reclaim", "pgsteal_direct", Lower),
    vmstat("reclaim", "pswpout", Lower),
    vmstat("reclaim", "pgmajfault", Lower),
    vmstat("compaction", "compact_stall", Lower),
    vmstat("compaction", "compact_fail", Lower),
    vmstat("compaction", "compact_migrate_scanned", Lower),
    vmstat("compaction", "compact_free_scanned", Lower),
    vmstat("compaction", "pgmigrate_success", Lower),
    number("slab", "growth of slab that cannot be reclaimed", Neutral, |run| {
        let row = run.vmstat.iter().find(|row| row.name == "nr_slab_unreclaimable");
        has_counter(run, "nr_slab_unreclaimable").then(|| row.map_or(0.0, |row| row.delta as f64))
    }),
];

/// Returns whether the kernel of this run has this counter.
pub(super) fn has_counter(run: &Inspection, name: &str) -> bool {
    run.vmstat_names.iter().any(|known| known == name)
}

/// Returns whether a counter of `/proc/vmstat` is a current amount and not a number of events.
pub(super) fn is_level(name: &str) -> bool {
    name.starts_with("nr_")
}
