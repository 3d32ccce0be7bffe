//! What is reported of every run: the measures, their units, and which way of each is the good one.
//!
//! The names are a contract with people's scripts: they are added to, never changed. A run is exact, so a measure
//! differs between seeds only because other random draws were made. What is shown is the median over the seeds, with
//! the least and the most.

use freehold_measure::number;
use freehold_measure::verdict::Direction;
use serde::{Serialize, Serializer};

use crate::measure::outcome::Outcome;

/// How the numbers of a measure are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations a second.
    PerSecond,
    /// A share of a whole, from 0 to 1.
    Share,
    /// Acquisitions, frees or whatever is counted in a thousand operations.
    Per1000,
    /// Pages.
    Pages,
    /// Pageblocks.
    Pageblocks,
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds in a thousand operations.
    NanosecondsPer1000,
    /// Requests.
    Requests,
}

/// Something that is measured in a run.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its fixed name.
    pub name: &'static str,
    /// What it is, for the caption of a picture.
    pub about: &'static str,
    /// What its numbers count.
    pub unit: Unit,
    /// Which way is good.
    pub direction: Direction,
    of: fn(&Outcome) -> f64,
}

/// A measure over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// One a seed, in their order.
    #[serde(rename = "by_seed")]
    pub values: Vec<f64>,
}

macro_rules! measures {
    ($(#[$of_list:meta])* $list:ident: $($id:ident = $name:literal, $about:literal, $unit:ident, $direction:ident, $of:expr;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $about, ".")]
        pub const $id: Measure = Measure {
            name: $name, about: $about, unit: Unit::$unit, direction: Direction::$direction, of: $of,
        };)*
        $(#[$of_list])*
        pub const $list: &[Measure] = &[$($id),*];
    };
}

measures! {
    /// Those of every run, in the order of tables and JSON.
    ALL:
    THROUGHPUT = "throughput", "operations a second of virtual time", PerSecond, Higher, Outcome::throughput;
    ZONE_WAIT = "zone_wait_share", "share of CPU time spent waiting for a zone lock", Share, Lower, Outcome::zone_wait_share;
    ALLOCATOR = "allocator_share", "share of CPU time spent in the allocator", Share, Lower, Outcome::allocator_share;
    ZONE_LOCKS = "zone_lock_acquisitions_per_1000", "zone-lock acquisitions in 1000 operations", Per1000, Lower,
        Outcome::acquisitions_per_1000;
    PAGES_PER_LOCK = "pages_per_acquisition", "pages moved each time a zone lock was taken", Pages, Neutral,
        Outcome::pages_per_acquisition;
    ZONE_HOLD = "zone_hold_ns_per_1000", "ns that zone locks were held in 1000 operations", NanosecondsPer1000, Lower,
        Outcome::hold_ns_per_1000;
    REMOTE_FREES = "remote_free_share", "share of frees on another CPU than the allocation", Share, Neutral,
        Outcome::remote_free_share;
    ALLOC_P99 = "alloc_p99_ns", "ns that 99 % of allocations did not exceed", Nanoseconds, Lower, Outcome::alloc_p99_ns;
    FAILURES = "failures", "allocations that found no memory", Requests, Lower, |run| run.tally.failures as f64;
    FREE_BLOCKS_END = "free_pageblocks_end", "whole free pageblocks at the end", Pageblocks, Higher,
        |run| run.end.free_pageblocks as f64;
    FREE_BLOCKS_WORST = "free_pageblocks_worst", "fewest whole free pageblocks", Pageblocks, Higher,
        |run| run.worst.free_pageblocks as f64;
    UNUSABLE_END = "unusable_free_index_order9_end", "share of free memory below order 9 at the end", Share, Lower,
        |run| run.end.unusable_permille as f64 / 1000.0;
    UNUSABLE_WORST = "unusable_free_index_order9_worst", "share of free memory below order 9 at its worst", Share, Lower,
        |run| run.worst.unusable_permille as f64 / 1000.0;
    MIXED_END = "mixed_pageblocks_end", "pageblocks with pages of both kinds at the end", Pageblocks, Lower,
        |run| run.end.mixed_pageblocks as f64;
    MIXED_WORST = "mixed_pageblocks_worst", "most pageblocks with pages of both kinds", Pageblocks, Lower,
        |run| run.worst.mixed_pageblocks as f64;
    HELD_END = "held_pages_end", "pages on per-CPU lists and stacks at the end", Pages, Lower,
        |run| (run.end.listed_pages + run.end.stacked_pages) as f64;
    HELD_WORST = "held_pages_worst", "most pages on per-CPU lists and stacks", Pages, Lower,
        |run| (run.worst.listed_pages + run.worst.stacked_pages) as f64;
    OWNED_END = "owned_pageblocks_end", "pageblocks that a CPU owns at the end", Pageblocks, Neutral,
        |run| run.end.owned_pageblocks as f64;
}

measures! {
    /// What memory that is full brings; only of workloads that fill it at a set pace. A share of nothing is no number.
    PRESSURE:
    RESERVED = "highatomic_pageblocks", "HighAtomic pageblocks at the end", Pageblocks, Neutral,
        |run| counted(run, "nr_reserved_highatomic") / PAGEBLOCK_PAGES;
    THP_SUCCESS = "thp_success", "faults that asked for a huge page and got one", Share, Higher,
        |run| share(counted(run, "thp_fault_alloc"), counted(run, "thp_fault_fallback"));
    COMPACTION_SUCCESS = "compaction_success", "direct compactions that succeeded", Share, Higher,
        |run| counted(run, "compact_success") / counted(run, "compact_stall");
    KSWAPD_SCANNED = "kswapd_scanned_per_minute", "pages that kswapd scanned a minute", Pages, Lower,
        |run| per_minute(run, "pgscan_kswapd");
    DIRECT_SCANNED = "direct_scanned_per_minute", "pages that direct reclaim scanned a minute", Pages, Lower,
        |run| per_minute(run, "pgscan_direct");
    ATOMIC = "atomic_requests", "atomic requests of order 1 to 3", Requests, Neutral, |run| counted(run, "atomic_order1_3");
    ATOMIC_FAILED = "atomic_failures", "those of them that failed", Requests, Lower,
        |run| counted(run, "atomic_order1_3_failed");
}

/// Pages of a pageblock of the simulated machines.
const PAGEBLOCK_PAGES: f64 = 512.0;
/// Picoseconds in a minute.
const PS_PER_MINUTE: f64 = 60e12;

fn counted(run: &Outcome, name: &str) -> f64 {
    run.vmstat.get(name).unwrap_or(0) as f64
}

fn per_minute(run: &Outcome, name: &str) -> f64 {
    counted(run, name) * PS_PER_MINUTE / run.span as f64
}

/// What part of both the first is; no number if there is nothing.
fn share(part: f64, rest: f64) -> f64 {
    part / (part + rest)
}

/// The shares of CPU time that, with [`ZONE_WAIT`], make up all of it, for the question where time goes.
pub const TIMES: &[Measure] = &[WORK, OPERATIONS, LISTS, STACKS, HOLD, LIST_WAIT, RECLAIM, IDLE];

macro_rules! times {
    ($($id:ident = $name:literal, $about:literal, $field:ident;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $about, ".")]
        pub const $id: Measure = Measure {
            name: $name, about: $about, unit: Unit::Share, direction: Direction::Neutral,
            of: |run| run.share(run.times.$field),
        };)*
    };
}

times! {
    WORK = "work_share", "work that is not the allocator's", work;
    OPERATIONS = "operations_share", "allocations and frees from and to filled lists", operations;
    LISTS = "lists_share", "cutting and merging on per-CPU lists", lists;
    STACKS = "stacks_share", "pushing to stacks and taking them", stacks;
    HOLD = "zone_hold_share", "holding a zone lock", zone_hold;
    LIST_WAIT = "list_wait_share", "fetching or awaiting per-CPU lists' locks", list_wait;
    RECLAIM = "reclaim_share", "freeing the page cache", reclaim;
}

/// `idle_share`: nothing to do.
pub const IDLE: Measure = Measure {
    name: "idle_share",
    about: "nothing to do",
    unit: Unit::Share,
    direction: Direction::Neutral,
    of: |run| 1.0 - run.share(run.times.sum()),
};

impl Measure {
    /// The measure in one run.
    pub fn of(&self, run: &Outcome) -> f64 {
        (self.of)(run)
    }

    /// A number as it is written in tables; `Mop/s` and the like stand in their heads.
    pub fn text(&self, value: f64) -> String {
        match self.unit {
            Unit::PerSecond => number::decimal(value / 1e6),
            Unit::Share => number::percent(value),
            Unit::Nanoseconds => number::count(value.round() as u64),
            Unit::Pages | Unit::Pageblocks | Unit::Requests if value >= 10.0 || value.fract() == 0.0 => {
                number::count(value.round() as u64)
            }
            _ => number::decimal(value),
        }
    }
}

impl Spread {
    /// The measure over these runs, one a seed.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(measure: &Measure, runs: &[Outcome]) -> Spread {
        let values: Vec<f64> = runs.iter().map(|run| measure.of(run)).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        Spread { median: middle, least: sorted[0], most: sorted[sorted.len() - 1], values }
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
