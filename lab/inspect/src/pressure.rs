//! Fallbacks, reclaim and compaction: reactions of the recorded kernel to scarce or fragmented memory.

use freehold_trace::{Kind, Row};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::census::migratetype_name;
use super::pairing::Phase;
use super::work::Work;

/// Fallbacks from one migratetype to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FallbackRow {
    /// Type that was requested.
    pub wanted: &'static str,
    /// Type whose pages were used.
    pub gave: &'static str,
    /// Fallbacks that claimed the pageblock.
    pub claims: u64,
    /// Fallbacks that stole pages and left the pageblock its type.
    pub steals: u64,
}

/// Counters of reclaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReclaimReport {
    /// Passes of kswapd. A pass follows another one without sleep if the high watermark was not reached.
    pub kswapd_wakes: u64,
    /// Number of times that kswapd went to sleep.
    pub kswapd_sleeps: u64,
    /// Direct reclaims, by events.
    pub direct_reclaims: u64,
    /// Direct reclaims, by the counters of `/proc/vmstat`; `None` if these were not recorded.
    pub allocstall: Option<u64>,
    /// Total time of direct reclaims, in nanoseconds.
    pub direct_reclaim_ns: u64,
    /// Pages reclaimed by direct reclaims.
    pub direct_reclaimed_pages: u64,
    /// Reclaims of control groups, at their own limit or requested by a process.
    pub memcg_reclaims: u64,
    /// Total time of reclaims of control groups, in nanoseconds.
    pub memcg_reclaim_ns: u64,
    /// Pages reclaimed from control groups.
    pub memcg_reclaimed_pages: u64,
    /// Reclaims of one node for a request that preferred the node.
    pub node_reclaims: u64,
    /// Pages reclaimed by node reclaims.
    pub node_reclaimed_pages: u64,
    /// Processes that the OOM killer ended, for the machine or for a control group; `None` without a counter.
    pub oom_kills: Option<u64>,
    /// Pages of inactive lists that were scanned.
    pub inactive_scanned_pages: u64,
    /// Pages of inactive lists that were reclaimed.
    pub inactive_reclaimed_pages: u64,
    /// Pages of active lists that were deactivated.
    pub deactivated_pages: u64,
}

/// Counters of compaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompactionReport {
    /// Compactions of a zone.
    pub runs: u64,
    /// Total time of the compactions, in nanoseconds.
    pub ns: u64,
    /// Compactions by result.
    pub results: Vec<(String, u64)>,
    /// Pages that were migrated.
    pub migrated_pages: u64,
    /// Pages that could not be migrated.
    pub failed_pages: u64,
    /// Attempts of khugepaged to make a huge page.
    pub collapses: u64,
}

/// Names of compaction results, by number. linux: include/linux/compaction.h:compact_result
const RESULTS: [&str; 9] = [
    "not_suitable_zone",
    "skipped",
    "deferred",
    "no_suitable_page",
    "continue",
    "complete",
    "partial_skipped",
    "contended",
    "success",
];

/// Collector of reclaim, compaction and fallback events.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    fallbacks: FxHashMap<(i64, i64), (u64, u64)>,
    reclaim: ReclaimReport,
    compaction: CompactionReport,
    compacting: FxHashMap<u32, u64>,
    results: [u64; RESULTS.len() + 1],
}

impl Pressure {
    /// Returns whether a task is compacting at this moment of the recording.
    #[inline]
    pub(crate) fn phase(&self, task: u32) -> Phase {
        if !self.compacting.is_empty() && self.compacting.contains_key(&task) {
            Phase::Compacting
        } else {
            Phase::Ordinary
        }
    }

    /// Adds a row. Kinds that do not belong to this module are ignored.
    pub(crate) fn observe(&mut self, row: &Row) {
        match row.kind {
            Kind::ExtFrag => self.count_fallback(row),
            Kind::KswapdSleep => self.reclaim.kswapd_sleeps += 1,
            Kind::LruShrinkInactive => {
                add(&mut self.reclaim.inactive_scanned_pages, pages(row, 0));
                add(&mut self.reclaim.inactive_reclaimed_pages, pages(row, 1));
            }
            Kind::LruShrinkActive => add(&mut self.reclaim.deactivated_pages, pages(row, 1)),
            Kind::NodeReclaimBegin => self.reclaim.node_reclaims += 1,
            Kind::NodeReclaimEnd => add(&mut self.reclaim.node_reclaimed_pages, pages(row, 0)),
            _ => self.observe_compaction(row),
        }
    }

    /// Returns the fallbacks, the most frequent first.
    pub(crate) fn fallbacks(&self) -> Vec<FallbackRow> {
        let rows = self.fallbacks.iter().map(|(&(wanted, gave), &(claims, steals))| FallbackRow {
            wanted: migratetype_name(wanted),
            gave: migratetype_name(gave),
            claims,
            steals,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.claims + row.steals), row.wanted, row.gave));
        rows
    }

    /// Returns the counters of reclaim. Those that are sums over tasks are from `work`.
    pub(crate) fn reclaim(&self, work: &Work) -> ReclaimReport {
        let (direct, memcg) = (work.direct_reclaims(), work.cgroup_reclaims());
        ReclaimReport {
            kswapd_wakes: work.kswapd_passes(),
            direct_reclaims: direct.count,
            direct_reclaim_ns: direct.ns,
            direct_reclaimed_pages: direct.pages,
            memcg_reclaims: memcg.count,
            memcg_reclaim_ns: memcg.ns,
            memcg_reclaimed_pages: memcg.pages,
            ..self.reclaim.clone()
        }
    }

    /// Returns the counters of compaction.
    pub(crate) fn compaction(&self) -> CompactionReport {
        let names = RESULTS.into_iter().chain(["unknown"]);
        let results = names.zip(self.results).filter(|(_, runs)| *runs > 0);
        CompactionReport {
            results: results.map(|(name, runs)| (name.to_owned(), runs)).collect(),
            ..self.compaction.clone()
        }
    }

    fn count_fallback(&mut self, row: &Row) {
        let (claims, steals) = self.fallbacks.entry((row.migratetype.into(), row.args[1])).or_default();
        if row.args[2] == 0 {
            *steals += 1;
        } else {
            *claims += 1;
        }
    }

    fn observe_compaction(&mut self, row: &Row) {
        match row.kind {
            Kind::CompactionBegin => {
                self.compaction.runs += 1;
                self.compacting.insert(row.task, row.time);
            }
            Kind::CompactionEnd => {
                add(&mut self.compaction.ns, elapsed(&mut self.compacting, row));
                let result = usize::try_from(row.migratetype).unwrap_or(RESULTS.len()).min(RESULTS.len());
                self.results[result] += 1;
            }
            Kind::CompactionMigrate => {
                add(&mut self.compaction.migrated_pages, pages(row, 0));
                add(&mut self.compaction.failed_pages, pages(row, 1));
            }
            Kind::CollapseHugePage => self.compaction.collapses += 1,
            _ => {}
        }
    }
}

/// Returns an argument of an event that counts pages.
fn pages(row: &Row, index: usize) -> u64 {
    u64::try_from(row.args[index]).unwrap_or(0)
}

/// Adds to a sum without overflow, which a forged file could cause.
fn add(sum: &mut u64, number: u64) {
    *sum = sum.saturating_add(number);
}

/// Returns the nanoseconds since the begin event of the task; zero if the begin was before the recording.
fn elapsed(begun: &mut FxHashMap<u32, u64>, row: &Row) -> u64 {
    begun.remove(&row.task).map_or(0, |begin| row.time.saturating_sub(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, time: u64, args: [i64; 3]) -> Row {
        Row { time, task: 4, args, ..Row::new(kind) }
    }

    #[test]
    fn task_compacts_only_between_begin_and_end() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.phase(4), Phase::Ordinary);
        pressure.observe(&row(Kind::CompactionBegin, 10, [0; 3]));
        assert_eq!((pressure.phase(4), pressure.phase(5)), (Phase::Compacting, Phase::Ordinary));
        pressure.observe(&Row { migratetype: 8, ..row(Kind::CompactionEnd, 30, [0; 3]) });
        assert_eq!(pressure.phase(4), Phase::Ordinary);
        let report = pressure.compaction();
        assert_eq!((report.runs, report.ns), (1, 20));
        assert_eq!(report.results, [("success".to_owned(), 1)]);
    }

    #[test]
    fn claims_and_steals_are_counted_separately() {
        let mut pressure = Pressure::default();
        let fallback = Row { migratetype: 0, ..row(Kind::ExtFrag, 0, [9, 1, 1]) };
        pressure.observe(&fallback);
        pressure.observe(&Row { args: [3, 1, 0], ..fallback });
        let rows = pressure.fallbacks();
        assert_eq!((rows[0].wanted, rows[0].gave, rows[0].claims, rows[0].steals), ("Unmovable", "Movable", 1, 1));
    }

    /// Returns the counters of reclaim after these events.
    fn reclaim(events: &[Row]) -> ReclaimReport {
        let (mut pressure, mut work) = (Pressure::default(), Work::default());
        for row in events {
            pressure.observe(row);
            work.observe(row);
        }
        pressure.reclaim(&work)
    }

    #[test]
    fn memcg_reclaim_is_counted_separately() {
        let report = reclaim(&[
            row(Kind::MemcgReclaimBegin, 10, [0; 3]),
            row(Kind::MemcgReclaimEnd, 50, [32, 0, 0]),
            row(Kind::NodeReclaimEnd, 60, [7, 0, 0]),
        ]);
        assert_eq!((report.memcg_reclaims, report.memcg_reclaim_ns, report.memcg_reclaimed_pages), (1, 40, 32));
        assert_eq!((report.direct_reclaims, report.node_reclaimed_pages), (0, 7));
    }

    #[test]
    fn end_without_a_begin_adds_no_time() {
        let report = reclaim(&[row(Kind::DirectReclaimEnd, 99, [32, 0, 0])]);
        assert_eq!((report.direct_reclaim_ns, report.direct_reclaimed_pages, report.direct_reclaims), (0, 32, 0));
    }

    #[test]
    fn unknown_compaction_result_is_counted() {
        let mut pressure = Pressure::default();
        pressure.observe(&Row { migratetype: 77, ..row(Kind::CompactionEnd, 1, [0; 3]) });
        assert_eq!(pressure.compaction().results, [("unknown".to_owned(), 1)]);
    }
}
