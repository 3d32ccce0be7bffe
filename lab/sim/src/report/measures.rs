//! Measures of a run, by subject.
//!
//! A run is exact, so a measure differs between seeds only because of other random draws. Reports show the median over
//! the seeds, with the minimum and the maximum.

use freehold_stats::verdict::Direction;
use serde::Serialize;

use crate::measure::{self, Aggregate, PAGEBLOCK_PAGES, Unit, last, ratio, share};
use crate::outcome::Outcome;
use crate::outcome::vmstat::ALLOCSTALLS;
use crate::workload::WorkPace;

/// A measure of a run.
pub type Measure = measure::Measure<Outcome>;

/// A measure over all seeds. A seed without a value has `NaN`, which counts as the largest value in the median and in
/// `most`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median of the values.
    pub median: f64,
    /// Smallest value.
    pub least: f64,
    /// Largest value.
    pub most: f64,
    /// One value for each seed, in the order of seeds.
    #[serde(rename = "by_seed")]
    pub values: Vec<f64>,
    /// Events behind the values, over all seeds; `None` if the measure does not represent events.
    #[serde(skip)]
    pub events: Option<f64>,
}

macro_rules! measures {
    ($($id:ident = $name:literal, $about:literal, $unit:ident, $direction:ident, $of:expr $(, events $events:expr)?;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $about, ".")]
        pub const $id: Measure = Measure {
            name: $name, about: $about, unit: Unit::$unit, direction: Direction::$direction,
            aggregate: Aggregate::Median, compute: $of, events: last(&[None $(, Some($events))?]),
        };)*
    };
}

measures! {
    THROUGHPUT = "throughput", "operations a second of virtual time", PerSecond, Higher, |run| Some(run.throughput());
    ALLOC_P99 = "alloc_p99_ns", "p99 latency of allocations (upper border of its histogram bucket)", Nanoseconds, Lower,
        |run| Some(run.alloc_p99_ns());
    FAILURES = "failures", "allocations that found no memory", Requests, Lower, |run| Some(run.tally.failures as f64);
    ZONE_WAIT = "zone_wait_share", "share of CPU time spent waiting for a zone lock", Share, Lower,
        |run| Some(run.zone_wait_share());
    ZONE_LOCKS = "zone_lock_acquisitions_per_1000", "zone-lock acquisitions in 1000 operations", Per1000, Lower,
        |run| Some(run.acquisitions_per_1000()), events |run| run.counts.zone_lock_acquisitions;
    PAGES_PER_LOCK = "pages_per_acquisition", "pages moved each time a zone lock was taken", Pages, Neutral,
        |run| Some(run.pages_per_acquisition()), events |run| run.counts.zone_lock_acquisitions;
    ZONE_HOLD = "zone_hold_ns_per_1000", "ns that zone locks were held in 1000 operations", NanosecondsPer1000, Lower,
        |run| Some(run.hold_ns_per_1000());
    ALLOCATOR = "allocator_share", "share of CPU time spent in the allocator", Share, Lower,
        |run| Some(run.allocator_share());
    REMOTE_FREES = "remote_free_share", "share of frees on another CPU than the allocation", Share, Neutral,
        |run| Some(run.remote_free_share());
    FREE_BLOCKS_END = "free_pageblocks_end", "whole free pageblocks at the end", Pageblocks, Higher,
        |run| Some(run.end.free_pageblocks as f64);
    FREE_BLOCKS_WORST = "free_pageblocks_worst", "fewest whole free pageblocks", Pageblocks, Higher,
        |run| Some(run.worst.free_pageblocks as f64);
    UNUSABLE_END = "unusable_free_index_order9_end", "share of free memory below order 9 at the end", Share, Lower,
        |run| Some(run.end.unusable_permille as f64 / 1000.0);
    UNUSABLE_WORST = "unusable_free_index_order9_worst", "share of free memory below order 9 at its worst", Share, Lower,
        |run| Some(run.worst.unusable_permille as f64 / 1000.0);
    MIXED_END = "mixed_pageblocks_end", "pageblocks with movable and immovable pages at the end", Pageblocks, Lower,
        |run| Some(run.end.mixed_pageblocks as f64);
    MIXED_WORST = "mixed_pageblocks_worst", "most pageblocks with movable and immovable pages", Pageblocks, Lower,
        |run| Some(run.worst.mixed_pageblocks as f64);
    HELD_END = "held_pages_end", "pages on per-CPU lists and stacks at the end", Pages, Lower,
        |run| Some((run.end.listed_pages + run.end.stacked_pages) as f64);
    HELD_WORST = "held_pages_worst", "most pages on per-CPU lists and stacks", Pages, Lower,
        |run| Some((run.worst.listed_pages + run.worst.stacked_pages) as f64);
    OWNED_END = "owned_pageblocks_end", "pageblocks that a CPU owns at the end", Pageblocks, Neutral,
        |run| Some(run.end.owned_pageblocks as f64);
    RESERVED = "highatomic_pageblocks", "HighAtomic pageblocks at the end", Pageblocks, Neutral,
        |run| Some(run.counted("nr_reserved_highatomic") as f64 / PAGEBLOCK_PAGES);
    THP_SUCCESS = "thp_success", "faults for a huge page that were served with one", Share, Higher,
        |run| share(run.counted("thp_fault_alloc"), run.counted("thp_fault_fallback")),
        events |run| run.counted("thp_fault_alloc") + run.counted("thp_fault_fallback");
    COMPACTION_SUCCESS = "compaction_success", "direct compactions that succeeded", Share, Higher,
        |run| ratio(run.counted("compact_success"), run.counted("compact_stall")),
        events |run| run.counted("compact_stall");
    KSWAPD_SCANNED = "kswapd_scanned_per_minute", "pages that kswapd scanned a minute", PerMinute, Lower,
        |run| Some(run.per_minute("pgscan_kswapd")), events |run| run.counted("pgscan_kswapd");
    DIRECT_SCANNED = "direct_scanned_per_minute", "pages that direct reclaim scanned a minute", PerMinute, Lower,
        |run| Some(run.per_minute("pgscan_direct")), events |run| run.counted("pgscan_direct");
    ATOMIC = "atomic_requests", "atomic requests of order 1 to 3", Requests, Neutral,
        |run| Some(run.counted("atomic_order1_3") as f64);
    ATOMIC_FAILED = "atomic_failures", "atomic requests of order 1 to 3 that failed", Requests, Lower,
        |run| Some(run.counted("atomic_order1_3_failed") as f64);
    REFILLS = "pcp_refills_per_1000", "refills of per-CPU lists in 1000 operations", Per1000, Lower,
        |run| Some(run.counted_per_1000("pcp_refills")), events |run| run.counted("pcp_refills");
    STALLS = "allocstall_per_1000", "direct reclaims in 1000 operations", Per1000, Lower,
        |run| Some(ALLOCSTALLS.iter().map(|name| run.counted_per_1000(name)).sum()),
        events |run| ALLOCSTALLS.iter().map(|name| run.counted(name)).sum();
    WORK = "work_share", "work outside the allocator", Share, Neutral, |run| Some(run.share(run.times.work));
    OPERATIONS = "operations_share", "allocations and frees from and to filled lists", Share, Neutral,
        |run| Some(run.share(run.times.operations));
    LISTS = "lists_share", "cutting and merging on per-CPU lists", Share, Neutral,
        |run| Some(run.share(run.times.lists));
    STACKS = "stacks_share", "pushing to stacks and taking them", Share, Neutral,
        |run| Some(run.share(run.times.stacks));
    HOLD = "zone_hold_share", "holding a zone lock", Share, Neutral, |run| Some(run.share(run.times.zone_hold));
    LIST_WAIT = "list_wait_share", "fetching or awaiting per-CPU lists' locks", Share, Neutral,
        |run| Some(run.share(run.times.list_wait));
    RECLAIM = "reclaim_share", "freeing the page cache", Share, Neutral, |run| Some(run.share(run.times.reclaim));
    IDLE = "idle_share", "idle time", Share, Neutral, |run| Some(1.0 - run.share(run.times.sum()));
}

/// Measures of throughput and latency.
pub const SPEED: &[Measure] = &[THROUGHPUT, ALLOC_P99, FAILURES];
/// Measures of locks and of time in the allocator.
const LOCKS: &[Measure] = &[ZONE_WAIT, ZONE_LOCKS, PAGES_PER_LOCK, ZONE_HOLD, ALLOCATOR, REMOTE_FREES];
/// Measures of the state of memory.
const MEMORY: &[Measure] = &[
    FREE_BLOCKS_END,
    FREE_BLOCKS_WORST,
    UNUSABLE_END,
    UNUSABLE_WORST,
    MIXED_END,
    MIXED_WORST,
    HELD_END,
    HELD_WORST,
    OWNED_END,
];
/// Measures of memory pressure, only for workloads that fill memory at a set pace.
const PRESSURE: &[Measure] =
    &[RESERVED, THP_SUCCESS, COMPACTION_SUCCESS, KSWAPD_SCANNED, DIRECT_SCANNED, ATOMIC, ATOMIC_FAILED];
/// Shares of CPU time, which sum up to all of it together with [`ZONE_WAIT`].
pub const TIMES: &[Measure] = &[WORK, OPERATIONS, LISTS, STACKS, HOLD, LIST_WAIT, RECLAIM, IDLE];

/// Measures of one subject, with its name.
pub type Group = (&'static str, &'static [Measure]);

/// Returns the measures that are reported for workloads at this pace.
pub fn groups(pace: WorkPace) -> impl Iterator<Item = Group> {
    let pressure = (pace == WorkPace::Set).then_some(("pressure", PRESSURE));
    [("speed", SPEED), ("zone locks", LOCKS), ("memory", MEMORY), ("CPU time", TIMES)].into_iter().chain(pressure)
}

impl Spread {
    /// Returns the spread of a measure over these runs, one for each seed.
    ///
    /// # Panics
    /// Panics if there are no runs.
    pub fn over_runs(measure: &Measure, runs: &[Outcome]) -> Spread {
        let events = runs.iter().filter_map(|run| measure.events(run)).reduce(|sum, events| sum + events);
        let values = runs.iter().map(|run| measure.evaluate(run).unwrap_or(f64::NAN)).collect();
        Spread { events, ..Spread::from_values(measure.unit, values) }
    }

    /// Returns the spread of these values in `unit`, one for each seed.
    ///
    /// # Panics
    /// Panics if there are no values.
    pub fn from_values(unit: Unit, values: Vec<f64>) -> Spread {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        let events = unit.is_count().then(|| values.iter().sum());
        Spread { median: middle, least: sorted[0], most: sorted[sorted.len() - 1], values, events }
    }

    /// Returns the median, unless it is `NaN`.
    pub fn number(&self) -> Option<f64> {
        Some(self.median).filter(|median| !median.is_nan())
    }
}
