//! Speed of the recorded background tasks, and the times at which they waited. Both are facts of the machine and do not
//! depend on the policy.
//!
//! The engine decides the work of kswapd and kcompactd. While they work, the recorded time continues, and requests in
//! that time see little free memory. Each pass therefore takes the time that the recorded task took for as many pages.
//! kswapd also waits for a CPU, a disk or a lock, sometimes for longer than all its work takes. The engine's kswapd
//! waits at the times at which the recorded one did.
//!
//! A request that compacts waits too. The engine's first run of compaction by a request has the long waits (10 ms or
//! more) of the first recorded run, the second those of the second, and so on.
//!
//! kswapd reports after every few pages, and each time it starts again after a sleep. A long time before a report is
//! therefore a wait, and the time before a start is sleep.

use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Row};

use super::super::counts::vmstat_delta;
use super::super::lists::Lists;
use super::windows::{Daemon, Windows};

/// Nanoseconds per scanned page if a recording does not show them; measured in `recordings/pressure.parquet`.
const KSWAPD_DEFAULT: u64 = 3_184;
/// Nanoseconds per frame that compaction scans, if a recording does not show them; measured in
/// `recordings/pressure.parquet`.
const SCANNED_FRAME_DEFAULT: u64 = 99;
/// Fewest moved pages of a compaction run for an estimate of the cost of moving.
const MOVED_MIN: u64 = 64;
/// Nanoseconds per page that compaction moves, if a recording does not show them; measured in the same recording.
const MOVED_PAGE_DEFAULT: u64 = 3_000;
/// Nanoseconds from the wake-up of kswapd to its start, if a recording does not show them.
const WAKE_LATENCY_DEFAULT: u64 = 50_000;
/// Shortest time between two reports that counts as a wait, in nanoseconds: a few time slices.
const WAIT_MIN: u64 = 10_000_000;

/// Speed of the background tasks and of direct reclaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Nanoseconds per page that kswapd scans.
    pub(crate) kswapd: u64,
    /// Nanoseconds per page that direct reclaim scans.
    pub(crate) direct: u64,
    /// Costs of compaction by requests, without long waits.
    pub(crate) compacting: CompactionCosts,
    /// Long waits of each run of compaction by a request, in nanoseconds; 0 for runs without.
    pub(crate) compaction_waits: Vec<u64>,
    /// Costs of compaction by kcompactd.
    pub(crate) kcompactd: CompactionCosts,
    /// Nanoseconds from the wake-up of kswapd to its start.
    pub(crate) wake_latency: u64,
    /// Waits of each node's kswapd as pairs of start and end, in order of time.
    pub(crate) waits: Vec<Vec<(u64, u64)>>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            kswapd: KSWAPD_DEFAULT,
            direct: KSWAPD_DEFAULT,
            compacting: CompactionRuns::default().speed(0),
            compaction_waits: Vec::new(),
            kcompactd: CompactionRuns::default().speed(0),
            wake_latency: WAKE_LATENCY_DEFAULT,
            waits: Vec::new(),
        }
    }
}

/// Measurement of the [`Pace`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch {
    /// Index of the argument of a report that counts as scanned: 0 for scanned pages, 1 for reclaimed pages.
    counted: usize,
    /// For each kswapd task, the time of its last report or start.
    reported: Vec<(u32, u64)>,
    kswapd_ns: u64,
    kswapd_pages: u64,
    waits: Vec<Vec<(u64, u64)>>,
    /// Tasks that compact (first field) or reclaim (second field), and the time of their last start.
    compactors: Vec<(u32, u64)>,
    reclaiming: Vec<(u32, u64)>,
    /// Runs of compaction: by requests, and by kcompactd.
    compacting: [CompactionRuns; 2],
    direct_ns: u64,
    direct_pages: u64,
    /// Time of the first wake-up of a kswapd that has not started since.
    woken: Option<u64>,
    latencies: Vec<u64>,
}

impl Stopwatch {
    /// Creates a measurement of a kernel with this arrangement of reclaimable pages.
    pub(crate) fn new(lists: Lists) -> Stopwatch {
        Stopwatch { counted: usize::from(lists == Lists::Generations), ..Stopwatch::default() }
    }

    /// Updates the measurement by an event.
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

    /// Returns the measured speeds, at the end of the recording.
    pub(crate) fn pace(mut self, facts: &Facts) -> Pace {
        let [daemon, all]: [u64; 2] = [
            ["compact_daemon_migrate_scanned", "compact_daemon_free_scanned"],
            ["compact_migrate_scanned", "compact_free_scanned"],
        ]
        .map(|names| names.iter().filter_map(|name| vmstat_delta(facts, name)).sum());
        let [direct, kcompactd] = &self.compacting;
        let at_work = direct.at_work();
        self.latencies.sort_unstable();
        Pace {
            kswapd: per_page(self.kswapd_ns, self.kswapd_pages).unwrap_or(KSWAPD_DEFAULT),
            direct: per_page(self.direct_ns, self.direct_pages).unwrap_or(KSWAPD_DEFAULT),
            compacting: at_work.speed(direct.share_of(&at_work, all.saturating_sub(daemon))),
            compaction_waits: direct.waits(&at_work),
            kcompactd: kcompactd.speed(daemon),
            wake_latency: self.latencies.get(self.latencies.len() / 2).copied().unwrap_or(WAKE_LATENCY_DEFAULT),
            waits: self.waits,
        }
    }
}

/// Runs of one kind of compaction: nanoseconds, and pages moved.
#[derive(Clone, Debug, Default)]
struct CompactionRuns {
    runs: Vec<(u64, u64)>,
    /// Pages moved by the current run.
    moved: u64,
}

/// Costs of compaction in nanoseconds: per scanned frame, and per moved page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionCosts {
    pub(crate) scanned_frame: u64,
    pub(crate) moved_page: u64,
}

impl CompactionRuns {
    /// Ends a run.
    fn end(&mut self, ns: u64) {
        self.runs.push((ns, std::mem::take(&mut self.moved)));
    }

    /// Returns the runs that did not wait for long.
    fn at_work(&self) -> CompactionRuns {
        CompactionRuns { runs: self.runs.iter().copied().filter(|&run| !has_waited(run)).collect(), moved: 0 }
    }

    /// Returns as large a share of these frames as the runs at work are of all runs, because no event shows the frames
    /// of each run.
    fn share_of(&self, at_work: &CompactionRuns, frames: u64) -> u64 {
        frames.saturating_mul(at_work.runs.len() as u64).checked_div(self.runs.len() as u64).unwrap_or(0)
    }

    /// Returns the long wait of each run: its time beyond that of a mean run at work.
    fn waits(&self, at_work: &CompactionRuns) -> Vec<u64> {
        let ns = at_work.runs.iter().map(|&(ns, _)| ns).sum::<u64>();
        let mean = ns.checked_div(at_work.runs.len() as u64).unwrap_or(0);
        self.runs.iter().map(|&run| if has_waited(run) { run.0.saturating_sub(mean) } else { 0 }).collect()
    }

    /// Estimates the costs. Moving a page costs the first quartile of the time per page over runs that moved many
    /// pages. The rest of all runs' time is divided by the scanned frames.
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

/// Returns whether a run, given as nanoseconds and moved pages, waited for a CPU or a lock for long: it took longer than
/// its moves explain.
fn has_waited((ns, moved): (u64, u64)) -> bool {
    ns > moved.saturating_mul(MOVED_PAGE_DEFAULT).saturating_add(WAIT_MIN)
}

fn per_page(ns: u64, pages: u64) -> Option<u64> {
    ns.checked_div(pages).filter(|&ns| ns > 0)
}

/// Returns the nanoseconds since a task's last start; 0 if it is not known.
fn since_begin(laps: &mut Vec<(u32, u64)>, row: &Row) -> u64 {
    lap(laps, row).map_or(0, |since| row.time.saturating_sub(since))
}

/// Returns the time of a task's previous event in `laps`, and replaces it by the time of this row.
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
    fn kswapd_pace_excludes_waits() {
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
