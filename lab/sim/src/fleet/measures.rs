//! Measures of a host, and their aggregation over the fleet.
//!
//! The first measures are the rows of the table in the proposal to skip the high-atomic reserve, in the order of that
//! table. The others answer questions which that table left open. A measure is the median over the hosts or, where the
//! table adds up hosts, their sum. A share whose denominator is zero on a host, because nothing was attempted there, is
//! absent for that host. Users' scripts depend on the names: names are added, and never changed.

use freehold_stats::verdict::Direction;

use super::host::HostResult;
pub use crate::measure::PAGEBLOCK_PAGES;
use crate::measure::{self, Aggregate, Unit, last, ratio, share};
use crate::outcome::vmstat::ALLOCSTALLS;

/// A measure of a host.
pub type Measure = measure::Measure<HostResult>;

macro_rules! measures {
    ($($id:ident = $name:literal, $about:literal, $aggregate:ident $unit:ident, $direction:ident, $of:expr $(, events $events:expr)?;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $about, ".")]
        pub const $id: Measure = Measure {
            name: $name, about: $about, unit: Unit::$unit, direction: Direction::$direction,
            aggregate: Aggregate::$aggregate, compute: $of, events: last(&[None $(, Some($events))?]),
        };)*
    };
}

measures! {
    RESERVED = "highatomic_pageblocks", "HighAtomic pageblocks on a host at the end", Median Pageblocks, Lower,
        |host| Some(host.count("nr_reserved_highatomic") as f64 / PAGEBLOCK_PAGES);
    RESERVED_SHARE = "highatomic_share", "memory in HighAtomic pageblocks at the end", Median Share, Lower,
        |host| ratio(host.count("nr_reserved_highatomic"), host.memory_pages);
    THP_SUCCESS = "thp_success", "THP faults that got a huge page", Median Share, Higher,
        |host| share(host.count("thp_fault_alloc"), host.count("thp_fault_fallback")), events thp_faults;
    COMPACTION_SUCCESS = "compaction_success", "direct compactions that succeeded", Median Share, Higher,
        |host| ratio(host.count("compact_success"), host.count("compact_stall")),
        events |host| host.count("compact_stall");
    KSWAPD_SCANNED = "kswapd_scanned_per_minute", "pages scanned by kswapd, all hosts, a minute", Sum PerMinute, Lower,
        |host| per_minute(host, "pgscan_kswapd"), events |host| host.count("pgscan_kswapd");
    ATOMIC_COSTLY = "atomic_costly_requests", "atomic requests of order 4 and above, all hosts", Sum Requests, Neutral,
        |host| Some(host.count("atomic_costly") as f64);
    ATOMIC = "atomic_requests", "atomic requests of order 1 to 3, all hosts", Sum Requests, Neutral,
        |host| Some(host.count("atomic_order1_3") as f64);
    ATOMIC_FAILED = "atomic_failures", "failed atomic requests of order 1 to 3, all hosts", Sum Requests, Lower,
        |host| Some(host.count("atomic_order1_3_failed") as f64);
    PLATEAU = "plateau_minutes", "minutes after which the reserve stayed within a pageblock of its end", Median Minutes,
        Neutral, plateau_minutes;
    FREE_IN_RESERVE = "free_memory_in_reserve", "free memory that lies in the reserve at the end", Median Share, Lower,
        |host| ratio(host.count("nr_free_highatomic"), host.count("nr_free_pages"));
    FREE_BLOCKS = "free_pageblocks_end", "whole free pageblocks on a host at the end", Median Pageblocks, Higher,
        |host| Some(host.free_pageblocks as f64);
    THP_FAULTS = "thp_faults_per_minute", "THP faults, all hosts, a minute", Sum PerMinute, Neutral,
        |host| Some(per_minute(host, "thp_fault_alloc")? + per_minute(host, "thp_fault_fallback")?), events thp_faults;
    COMPACT_STALLS = "direct_compactions_per_minute", "direct compactions, all hosts, a minute", Sum PerMinute, Lower,
        |host| per_minute(host, "compact_stall"), events |host| host.count("compact_stall");
    MIGRATED = "migrated_per_minute", "pages moved by compaction, all hosts, a minute", Sum PerMinute, Lower,
        |host| per_minute(host, "pgmigrate_success"), events |host| host.count("pgmigrate_success");
    RECLAIM_STALLS = "direct_reclaims_per_minute", "direct reclaims, all hosts, a minute", Sum PerMinute, Lower,
        |host| ALLOCSTALLS.iter().map(|name| per_minute(host, name)).sum(),
        events |host| ALLOCSTALLS.iter().map(|name| host.count(name)).sum();
    FROM_LIST = "highatomic_from_list", "requests that may use the reserve: from a CPU's list, all hosts", Sum Requests,
        Neutral, |host| Some(host.count("highatomic_from_list") as f64);
    FROM_RESERVE = "highatomic_from_reserve", "- from the reserve", Sum Requests, Neutral,
        |host| Some(host.count("highatomic_from_reserve") as f64);
    FROM_ORDINARY = "highatomic_from_ordinary", "- from an ordinary block", Sum Requests, Neutral,
        |host| Some(host.count("highatomic_from_ordinary") as f64);
    RESERVES = "reserves", "pageblocks put into the reserve, all hosts", Sum Pageblocks, Neutral,
        |host| Some(host.count("reserves") as f64);
    UNRESERVES = "unreserves", "pageblocks taken out of the reserve, all hosts", Sum Pageblocks, Neutral,
        |host| Some(host.count("unreserves") as f64);
}

/// Measures of the reserve.
const RESERVE: &[Measure] = &[RESERVED, RESERVED_SHARE, PLATEAU, FREE_IN_RESERVE, RESERVES, UNRESERVES];
/// Measures of huge pages, and of the work to make them.
const HUGE: &[Measure] = &[THP_SUCCESS, THP_FAULTS, COMPACTION_SUCCESS, COMPACT_STALLS, MIGRATED, FREE_BLOCKS];
/// Measures of reclaim.
const RECLAIM: &[Measure] = &[KSWAPD_SCANNED, RECLAIM_STALLS];
/// Measures of requests that cannot wait, and of the memory that serves them.
const REQUESTS: &[Measure] = &[ATOMIC_COSTLY, ATOMIC, ATOMIC_FAILED, FROM_LIST, FROM_RESERVE, FROM_ORDINARY];

/// All measures, by subject.
pub const GROUPS: [(&str, &[Measure]); 4] =
    [("reserve", RESERVE), ("huge pages", HUGE), ("reclaim", RECLAIM), ("atomic requests", REQUESTS)];

/// Iterates over all measures of hosts.
pub fn iter() -> impl Iterator<Item = &'static Measure> {
    GROUPS.iter().flat_map(|(_, measures)| *measures)
}

fn thp_faults(host: &HostResult) -> u64 {
    host.count("thp_fault_alloc") + host.count("thp_fault_fallback")
}

fn per_minute(host: &HostResult, name: &str) -> Option<f64> {
    Some(host.count(name) as f64 / host.minutes())
}

/// Returns the minutes until the first sample from which on the size of the reserve stayed within a pageblock of its
/// final size; `None` if only the last sample was within it.
fn plateau_minutes(host: &HostResult) -> Option<f64> {
    let (&end, earlier) = host.reserved_pages.split_last()?;
    let near = earlier.iter().rev().take_while(|pages| pages.abs_diff(end) as f64 <= PAGEBLOCK_PAGES).count();
    let first = earlier.len() - near;
    (near > 0).then(|| host.minutes() * first as f64 / earlier.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::vmstat::Vmstat;

    fn host(reserved_pages: &[u64], rows: &[(&'static str, u64)]) -> HostResult {
        HostResult {
            duration_ms: 120_000,
            memory_pages: 1 << 20,
            free_pageblocks: 7,
            reserved_pages: reserved_pages.to_vec(),
            vmstat: Vmstat::new(rows.iter().copied()),
        }
    }

    #[test]
    fn shares_without_a_denominator_are_none() {
        let tried = host(&[], &[("thp_fault_alloc", 1), ("thp_fault_fallback", 3), ("compact_stall", 0)]);
        assert_eq!((THP_SUCCESS.evaluate(&tried), COMPACTION_SUCCESS.evaluate(&tried)), (Some(0.25), None));
        assert_eq!(RESERVED_SHARE.evaluate(&host(&[], &[("nr_reserved_highatomic", 1 << 19)])), Some(0.5));
    }

    #[test]
    fn rates_are_per_minute_and_reserves_in_pageblocks() {
        let seen = host(&[], &[("pgscan_kswapd", 10), ("nr_reserved_highatomic", 1024), ("allocstall_normal", 4)]);
        assert_eq!((KSWAPD_SCANNED.evaluate(&seen), RESERVED.evaluate(&seen)), (Some(5.0), Some(2.0)));
        assert_eq!(RECLAIM_STALLS.evaluate(&seen), Some(2.0));
    }

    #[test]
    fn plateau_starts_at_the_final_reserve_size() {
        assert_eq!(PLATEAU.evaluate(&host(&[0, 5000, 9000, 9500, 9400], &[])), Some(1.0));
        assert_eq!(PLATEAU.evaluate(&host(&[9400, 9400, 9400], &[])), Some(0.0));
        assert_eq!(PLATEAU.evaluate(&host(&[0, 1000, 2000, 3000], &[])), None, "it still grows");
        assert_eq!(PLATEAU.evaluate(&host(&[], &[])), None);
    }

    #[test]
    fn share_differences_are_in_points() {
        assert_eq!(THP_SUCCESS.difference_text(0.4) + THP_SUCCESS.difference_unit(), "+40.0 points");
        assert_eq!(KSWAPD_SCANNED.difference_text(-40_300_000.0), "-40,300,000");
    }
}
