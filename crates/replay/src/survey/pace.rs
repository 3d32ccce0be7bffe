//! How fast the recorded background tasks worked, and when they could not: facts of the machine, not of the policy.
//!
//! What kswapd and kcompactd do is decided by the engine, but while they do it the recorded time goes on, and requests
//! that come meanwhile see memory short. So each of their passes takes as long as the recorded task took to look at as many
//! pages. kswapd also waits, for a CPU, a disk or a lock, at times for longer than all its work takes; where the recorded one
//! waited, the engine's waits too.
//!
//! kswapd reports every few pages, and says each time it begins anew, a nap behind it. So a long time before a report is a wait,
//! and the time before a beginning was its own choice.

use freehold_trace::facts::{Facts, Sample};
use freehold_trace::{Kind, Row};

use super::windows::{Daemon, Windows};

/// Nanoseconds a page where a recording does not tell; those of `recordings/pressure.parquet`.
const KSWAPD_DEFAULT: u64 = 3_184;
const KCOMPACTD_DEFAULT: u64 = 99;
/// Nanoseconds between two reports that are no work any more: a few time slices.
const WAIT_MIN: u64 = 10_000_000;

/// How fast they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds a page that kswapd looks at.
    pub kswapd: u64,
    /// Nanoseconds a page that kcompactd looks at.
    pub kcompactd: u64,
    /// When each node's kswapd waited: from, until. In order of time.
    pub waits: Vec<Vec<(u64, u64)>>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { kswapd: KSWAPD_DEFAULT, kcompactd: KCOMPACTD_DEFAULT, waits: Vec::new() }
    }
}

/// Measures it.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    /// For each kswapd, when it last reported or began.
    reported: Vec<(u32, u64)>,
    kswapd_ns: u64,
    kswapd_pages: u64,
    waits: Vec<Vec<(u64, u64)>>,
    /// Tasks that compact in the background, and since when.
    compacting: Vec<(u32, u64)>,
    kcompactd_ns: u64,
}

impl Stopwatch {
    /// Takes note of an event.
    pub fn observe(&mut self, row: &Row, windows: &Windows) {
        match (row.kind, windows.daemon(row.task)) {
            (Kind::KswapdWake, Some(Daemon::Kswapd)) => _ = lap(&mut self.reported, row),
            (Kind::LruShrinkInactive, Some(Daemon::Kswapd)) => self.kswapd_reports(row),
            (Kind::CompactionBegin, Some(Daemon::Kcompactd)) => _ = lap(&mut self.compacting, row),
            (Kind::CompactionEnd, Some(Daemon::Kcompactd)) => {
                self.kcompactd_ns += lap(&mut self.compacting, row).map_or(0, |since| row.time.saturating_sub(since));
            }
            _ => {}
        }
    }

    fn kswapd_reports(&mut self, row: &Row) {
        let Some(since) = lap(&mut self.reported, row) else { return };
        let ns = row.time.saturating_sub(since);
        if ns < WAIT_MIN {
            self.kswapd_ns += ns;
            self.kswapd_pages += row.args[0].max(0) as u64;
            return;
        }
        let node = row.args[2].clamp(0, 62) as usize;
        if self.waits.len() <= node {
            self.waits.resize(node + 1, Vec::new());
        }
        self.waits[node].push((since, row.time));
    }

    /// What was measured, at the end of the recording.
    pub fn pace(self, facts: &Facts) -> Pace {
        let scanned = ["compact_daemon_migrate_scanned", "compact_daemon_free_scanned"];
        let kcompactd_pages: u64 = scanned.iter().filter_map(|name| vmstat_delta(facts, name)).sum();
        Pace {
            kswapd: per_page(self.kswapd_ns, self.kswapd_pages).unwrap_or(KSWAPD_DEFAULT),
            kcompactd: per_page(self.kcompactd_ns, kcompactd_pages).unwrap_or(KCOMPACTD_DEFAULT),
            waits: self.waits,
        }
    }
}

fn per_page(ns: u64, pages: u64) -> Option<u64> {
    ns.checked_div(pages).filter(|&ns| ns > 0)
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

/// How much a counter of the recorded `/proc/vmstat` went up; `None` if the recording lacks it.
pub fn vmstat_delta(facts: &Facts, name: &str) -> Option<u64> {
    let at = facts.vmstat_names.iter().position(|known| known == name)?;
    let value = |sample: Option<&Sample>| sample?.vmstat.get(at).copied();
    Some(value(facts.samples.last())?.saturating_sub(value(facts.samples.first())?))
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::Task;

    use super::*;

    #[test]
    fn kswapd_is_as_fast_as_it_was_when_it_did_not_wait() {
        let tasks = ["", "kswapd0"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let facts = Facts { tasks, ..Facts::default() };
        let windows = Windows::new(&facts);
        let event = |kind, time, arg| Row { time, task: 1, args: [arg, 0, 0], ..Row::new(kind) };
        let mut stopwatch = Stopwatch::default();
        for row in [
            event(Kind::LruShrinkInactive, 50, 7),
            event(Kind::KswapdWake, 100, 0),
            event(Kind::LruShrinkInactive, 150, 10),
            event(Kind::LruShrinkInactive, 250, 10),
            event(Kind::LruShrinkInactive, 250 + WAIT_MIN, 10),
            event(Kind::KswapdWake, 3 * WAIT_MIN, 0),
            event(Kind::LruShrinkInactive, 3 * WAIT_MIN + 50, 20),
        ] {
            stopwatch.observe(&row, &windows);
        }
        let pace = stopwatch.pace(&facts);
        assert_eq!((pace.kswapd, pace.kcompactd), (5, KCOMPACTD_DEFAULT));
        assert_eq!(pace.waits, [[(250, 250 + WAIT_MIN)]]);
    }
}
