//! Counters as in `/proc/vmstat`: names and values, in one fixed order.
//!
//! Names are the kernel's if the kernel counts the same events. Names that begin with `nr_` are gauges, which go up and
//! down; all others are counters, which only increase. The difference of two readings therefore holds the increase of
//! each counter, and the later value of each gauge.

use std::borrow::Cow;
use std::fmt;

use freehold::PageAllocator;
use freehold::platform::Platform;
use freehold::stats::Counts;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Prefix of the names of gauges.
const GAUGE: &str = "nr_";

/// A row: a name, and a value.
pub type Row = (&'static str, u64);

/// Counters and gauges at one moment, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmstat {
    rows: Vec<(Cow<'static, str>, u64)>,
}

impl Vmstat {
    /// Creates a set of rows, in this order.
    pub fn new(rows: impl IntoIterator<Item = Row>) -> Vmstat {
        Vmstat { rows: rows.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect() }
    }

    /// Creates a set of rows whose names were read at run time.
    pub fn from_named(rows: impl IntoIterator<Item = (String, u64)>) -> Vmstat {
        Vmstat { rows: rows.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect() }
    }

    /// Returns the value of a name. Takes a step for each row.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|(known, _)| known == name).map(|&(_, value)| value)
    }

    /// Returns the increase of each counter since `earlier`, and the current gauges. A name that `earlier` lacks counts
    /// from 0.
    pub fn since(&self, earlier: &Vmstat) -> Vmstat {
        let changes = self.rows.iter().map(|(name, now)| {
            let before = if name.starts_with(GAUGE) { 0 } else { earlier.get(name).unwrap_or(0) };
            (name.clone(), now.saturating_sub(before))
        });
        Vmstat { rows: changes.collect() }
    }

    /// Returns names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.rows.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Returns whether reclaim scanned any pages, which means that memory was full at some time.
    pub fn is_under_pressure(&self) -> bool {
        ["pgscan_kswapd", "pgscan_direct"].iter().any(|name| self.get(name) > Some(0))
    }

    /// Formats the rows as in `/proc/vmstat`, one per line.
    pub fn text(&self) -> String {
        self.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
    }
}

/// Counters of direct reclaim: one for each highest zone that a request may use.
pub const ALLOCSTALLS: [&str; 4] = ["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"];

/// Returns the gauges of the engine.
pub fn engine_gauges<P: Platform>(allocator: &PageAllocator<'_, P>) -> impl Iterator<Item = Row> {
    let zones = allocator.zones();
    [
        ("nr_free_pages", zones.iter().map(|zone| zone.free_pages()).sum()),
        ("nr_free_highatomic", zones.iter().map(|zone| zone.free_highatomic()).sum()),
        ("nr_reserved_highatomic", zones.iter().map(|zone| zone.reserved_highatomic()).sum()),
    ]
    .into_iter()
}

macro_rules! rows {
    ($counts:ident: $($name:ident,)*) => { [$((stringify!($name), $counts.$name)),*] };
}

/// Returns the counters of the engine: first those of the kernel, then those that only Freehold has.
pub fn engine_counts(counts: &Counts) -> impl Iterator<Item = Row> + use<> {
    let kernels = rows!(counts:
        allocstall_dma, allocstall_dma32, allocstall_normal, allocstall_movable,
        pgscan_kswapd, pgscan_direct, pgsteal_kswapd, pgsteal_direct, pageoutrun,
    );
    let migrated = [("pgmigrate_success", counts.migrations), ("pgmigrate_fail", counts.migrations_refused)];
    let compaction = rows!(counts:
        compact_migrate_scanned, compact_free_scanned, compact_isolated, compact_stall, compact_fail, compact_success,
        compact_daemon_wake, compact_daemon_migrate_scanned, compact_daemon_free_scanned,
    );
    let ours = rows!(counts:
        highatomic_from_list, highatomic_from_reserve, highatomic_from_ordinary, reserves, unreserves,
        compact_deferred, fallback_claims, fallback_steals, boosts, pcp_refills, pcp_drains, zone_lock_acquisitions, broken_promises,
        failures,
    );
    kernels.into_iter().chain(migrated).chain(compaction).chain(ours)
}

impl Serialize for Vmstat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Vmstat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vmstat, D::Error> {
        deserializer.deserialize_map(Rows)
    }
}

/// Deserializes rows in their order of appearance.
struct Rows;

impl<'de> Visitor<'de> for Rows {
    type Value = Vmstat;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a value for each counter")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vmstat, M::Error> {
        let mut rows = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, u64>()? {
            rows.push((Cow::Owned(name), value));
        }
        Ok(Vmstat { rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmstat_difference_subtracts_counters_and_keeps_gauges() {
        let early = Vmstat::new([("nr_free_pages", 70), ("pgfault", 10)]);
        let late = Vmstat::new([("nr_free_pages", 50), ("pgfault", 15), ("pgactivate", 3)]);
        let between = late.since(&early);
        assert_eq!(between.text(), "nr_free_pages 50\npgfault 5\npgactivate 3\n");
        assert_eq!((between.get("pgfault"), between.get("pgsteal")), (Some(5), None));
    }

    #[test]
    fn memory_without_scans_is_not_under_pressure() {
        assert!(!Vmstat::default().is_under_pressure());
        assert!(!Vmstat::new([("pgscan_kswapd", 0), ("nr_free_pages", 5)]).is_under_pressure());
        assert!(Vmstat::new([("pgscan_kswapd", 3)]).is_under_pressure());
        assert!(Vmstat::new([("pgscan_kswapd", 0), ("pgscan_direct", 1)]).is_under_pressure());
    }

    #[test]
    fn vmstat_json_round_trips() {
        let rows = engine_counts(&Counts { compact_stall: 7, ..Counts::default() });
        let vmstat = Vmstat::new(rows);
        let text = serde_json::to_string(&vmstat).unwrap();
        assert_eq!(serde_json::from_str::<Vmstat>(&text).unwrap(), vmstat);
        assert!(text.contains("\"compact_stall\":7"), "{text}");
    }

    #[test]
    fn counter_names_are_unique() {
        let mut names: Vec<_> = engine_counts(&Counts::default()).map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
