//! How fast the recorded background tasks worked, and when they could not: facts of the machine, not of the policy.
//!
//! What kswapd and kcompactd do is decided by the engine, but while they do it the recorded time goes on, and requests
//! that come meanwhile see memory short. So each of their passes takes as long as the recorded task took to look at as
//! many pages. kswapd also waits, for a CPU, a disk or a lock, at times for longer than all its work takes; where the
//! recorded one waited, the engine's waits too.
//!
//! kswapd reports every few pages, and says each time it begins anew, a nap behind it. So a long time before a report
//! is a wait, and the time before a beginning was its own choice.

use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Row};

use super::super::counts::vmstat_delta;
use super::super::lists::Lists;
use super::windows::{Daemon, Windows};

/// Nanoseconds a page where a recording does not tell; those of `recordings/pressure.parquet`.
const KSWAPD_DEFAULT: u64 = 3_184;
/// Nanoseconds a frame that compaction looks at, where a recording does not tell; those of
/// `recordings/pressure.parquet`.
const SCANNED_FRAME_DEFAULT: u64 = 99;
/// Pages that a run has moved at least to tell what moving takes.
const MOVED_MIN: u64 = 64;
/// Nanoseconds a page that compaction moves, where a recording does not tell; as above.
const MOVED_PAGE_DEFAULT: u64 = 3_000;
/// Nanoseconds from the wake of kswapd to its work, likewise.
const WAKE_LATENCY_DEFAULT: u64 = 50_000;
/// Nanoseconds between two reports that are no work any more: a few time slices.
const WAIT_MIN: u64 = 10_000_000;

/// How fast they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Nanoseconds a page that kswapd looks at.
    pub(crate) kswapd: u64,
    /// Nanoseconds a page that a request looks at which reclaims.
    pub(crate) direct: u64,
    /// What compaction by requests takes.
    pub(crate) compacting: CompactionCosts,
    /// What kcompactd takes.
    pub(crate) kcompactd: CompactionCosts,
    /// Nanoseconds from the wake of kswapd until it works.
    pub(crate) wake_latency: u64,
    /// When each node's kswapd waited: from, until. In order of time.
    pub(crate) waits: Vec<Vec<(u64, u64)>>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            kswapd: KSWAPD_DEFAULT,
            direct: KSWAPD_DEFAULT,
            compacting: CompactionRuns::default().speed(0),
            kcompactd: CompactionRuns::default().speed(0),
            wake_latency: WAKE_LATENCY_DEFAULT,
            waits: Vec::new(),
        }
    }
}

/// Measures it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch {
    /// Which of a report's numbers is what was looked at: all of it, or what was reclaimed.
    counted: usize,
    /// For each kswapd, when it last reported or began.
    reported: Vec<(u32, u64)>,
    kswapd_ns: u64,
    kswapd_pages: u64,
    waits: Vec<Vec<(u64, u64)>>,
    /// Tasks that compact, and since when; and those that reclaim for themselves.
    compactors: Vec<(u32, u64)>,
    reclaiming: Vec<(u32, u64)>,
    /// What compaction took: that of requests, and kcompactd's.
    compacting: [CompactionRuns; 2],
    direct_ns: u64,
    direct_pages: u64,
    /// When somebody first asked for a kswapd that has not begun since.
    woken: Option<u64>,
    latencies: Vec<u64>,
}

impl Stopwatch {
    /// Nothing was measured yet, of a kernel that keeps its pages so.
    pub(crate) fn new(lists: Lists) -> Stopwatch {
        Stopwatch { counted: usize::from(lists == Lists::Generations), ..Stopwatch::default() }
    }

    /// Takes note of an event.
    pub(crate) fn observe(&mut self, row: &Row, windows: &Windows) {
        match (row.kind, windows.daemon(row.task)) {
            (Kind::KswapdWake, Some(Daemon::Kswapd)) => {
                _ = lap(&mut self.reported, row);
                self.latencies.extend(self.woken.take().map(|woken| row.time.saturating_sub(woken)));
            }
            (Kind::LruShrinkInactive, Some(Daemon::Kswapd)) => self.kswapd_reports(row),
            (Kind::LruShrinkInactive, None) => self.direct_pages += row.args[self.counted].max(0) as u64,
            (Kind::DirectReclaimBegin, None) => _ = lap(&mut self.reclaiming, row),
            (Kind::DirectReclaimEnd, None) => self.direct_ns += since_begin(&mut self.reclaiming, row),
            (Kind::CompactionBegin, _) => _ = lap(&mut self.compactors, row),
            (Kind::CompactionEnd, by) => {
                let ns = since_begin(&mut self.compactors, row);
                self.compacting[usize::from(by.is_some())].end(ns);
            }
            (Kind::CompactionMigrate, by) => {
                self.compacting[usize::from(by.is_some())].moved += row.args[0].max(0) as u64;
            }
            (Kind::WakeupKswapd, _) => _ = self.woken.get_or_insert(row.time),
            _ => {}
        }
    }

    fn kswapd_reports(&mut self, row: &Row) {
        let Some(since) = lap(&mut self.reported, row) else { return };
        let ns = row.time.saturating_sub(since);
        if ns < WAIT_MIN {
            self.kswapd_ns += ns;
            self.kswapd_pages += row.args[self.counted].max(0) as u64;
            return;
        }
        let node = row.args[2].clamp(0, 62) as usize;
        if self.waits.len() <= node {
            self.waits.resize(node + 1, Vec::new());
        }
        self.waits[node].push((since, row.time));
    }

    /// What was measured, at the end of the recording.
    pub(crate) fn pace(mut self, facts: &Facts) -> Pace {
        let [daemon, all]: [u64; 2] = [
            ["compact_daemon_migrate_scanned", "compact_daemon_free_scanned"],
            ["compact_migrate_scanned", "compact_free_scanned"],
        ]
        .map(|names| names.iter().filter_map(|name| vmstat_delta(facts, name)).sum());
        let [direct, kcompactd] = &self.compacting;
        self.latencies.sort_unstable();
        Pace {
            kswapd: per_page(self.kswapd_ns, self.kswapd_pages).unwrap_or(KSWAPD_DEFAULT),
            direct: per_page(self.direct_ns, self.direct_pages).unwrap_or(KSWAPD_DEFAULT),
            compacting: direct.speed(all.saturating_sub(daemon)),
            kcompactd: kcompactd.speed(daemon),
            wake_latency: self.latencies.get(self.latencies.len() / 2).copied().unwrap_or(WAKE_LATENCY_DEFAULT),
            waits: self.waits,
        }
    }
}

/// What a kind of compaction took, run by run: nanoseconds, and pages moved.
#[derive(Clone, Debug, Default)]
struct CompactionRuns {
    runs: Vec<(u64, u64)>,
    /// Pages moved by the run under way.
    moved: u64,
}

/// What a frame that is looked at takes, and a page that is moved, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionCosts {
    pub(crate) scanned_frame: u64,
    pub(crate) moved_page: u64,
}

impl CompactionRuns {
    /// A run has ended.
    fn end(&mut self, ns: u64) {
        self.runs.push((ns, std::mem::take(&mut self.moved)));
    }

    /// Runs that moved much for their time tell what moving takes; what is left of all their time, scans took.
    fn speed(&self, scanned: u64) -> CompactionCosts {
        let mut pace: Vec<u64> =
            self.runs.iter().filter(|&&(_, moved)| moved >= MOVED_MIN).map(|&(ns, moved)| ns / moved).collect();
        pace.sort_unstable();
        let moved_page = pace.get(pace.len() / 4).copied().unwrap_or(MOVED_PAGE_DEFAULT);
        let (ns, moved) = self.runs.iter().fold((0, 0), |(all, pages), &(ns, moved)| (all + ns, pages + moved));
        let left = u64::saturating_sub(ns, moved * moved_page);
        CompactionCosts { scanned_frame: per_page(left, scanned).unwrap_or(SCANNED_FRAME_DEFAULT), moved_page }
    }
}

fn per_page(ns: u64, pages: u64) -> Option<u64> {
    ns.checked_div(pages).filter(|&ns| ns > 0)
}

/// How long a task has been at what it began last.
fn since_begin(laps: &mut Vec<(u32, u64)>, row: &Row) -> u64 {
    lap(laps, row).map_or(0, |since| row.time.saturating_sub(since))
}

/// The time of a task's last lap; this row ends it.
fn lap(laps: &mut Vec<(u32, u64)>, row: &Row) -> Option<u64> {
    match laps.iter_mut().find(|(task, _)| *task == row.task) {
        Some((_, time)) => Some(std::mem::replace(time, row.time)),
        None => {
            laps.push((row.task, row.time));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::Task;

    use super::*;

    fn event_at(kind: Kind, time: u64, arg: i64) -> Row {
        Row { time, task: 1, args: [arg, 0, 0], ..Row::new(kind) }
    }

    #[test]
    fn kswapd_is_as_fast_as_it_was_when_it_did_not_wait() {
        let tasks = ["", "kswapd0"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let facts = Facts { tasks, ..Facts::default() };
        let windows = Windows::new(&facts);
        let mut stopwatch = Stopwatch::default();
        for row in [
            event_at(Kind::LruShrinkInactive, 50, 7),
            event_at(Kind::KswapdWake, 100, 0),
            event_at(Kind::LruShrinkInactive, 150, 10),
            event_at(Kind::LruShrinkInactive, 250, 10),
            event_at(Kind::LruShrinkInactive, 250 + WAIT_MIN, 10),
            event_at(Kind::KswapdWake, 3 * WAIT_MIN, 0),
            event_at(Kind::LruShrinkInactive, 3 * WAIT_MIN + 50, 20),
        ] {
            stopwatch.observe(&row, &windows);
        }
        let pace = stopwatch.pace(&facts);
        assert_eq!((pace.kswapd, pace.compacting.moved_page), (5, MOVED_PAGE_DEFAULT));
        assert_eq!(pace.waits, [[(250, 250 + WAIT_MIN)]]);
    }
}
