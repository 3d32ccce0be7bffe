//! How fast the recorded background tasks worked: a fact of the machine, not of the policy.
//!
//! What kswapd and kcompactd do is decided by the engine, but while they do it the recorded time goes on, and requests
//! that come meanwhile see memory short. So each of their passes takes as long as the recorded task would have taken for
//! as many pages, waiting for its CPU and its disk included.

use freehold_trace::facts::{Facts, Sample};
use freehold_trace::{Kind, Row};

use super::windows::{Daemon, Windows};

/// Nanoseconds a page where a recording does not tell; those of `recordings/pressure.parquet`.
const PACE_DEFAULT: Pace = Pace { kswapd: 15_051, kcompactd: 99 };

/// Nanoseconds a page that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// By kswapd, while it is awake.
    pub kswapd: u64,
    /// By kcompactd, while it compacts.
    pub kcompactd: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        PACE_DEFAULT
    }
}

/// Measures it.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    /// Nodes whose kswapd is awake, and since when.
    awake: Vec<(i64, u64)>,
    kswapd_ns: u64,
    kswapd_pages: u64,
    /// Tasks that compact in the background, and since when.
    compacting: Vec<(u32, u64)>,
    kcompactd_ns: u64,
}

impl Stopwatch {
    /// Takes note of an event.
    pub fn observe(&mut self, row: &Row, windows: &Windows) {
        match row.kind {
            Kind::KswapdWake if self.awake.iter().all(|&(node, _)| node != row.args[0]) => {
                self.awake.push((row.args[0], row.time));
            }
            Kind::KswapdSleep => self.kswapd_ns += stop(&mut self.awake, row.args[0], row.time),
            Kind::LruShrinkInactive if windows.daemon(row.task) == Some(Daemon::Kswapd) => {
                self.kswapd_pages += row.args[0].max(0) as u64;
            }
            Kind::CompactionBegin if windows.daemon(row.task) == Some(Daemon::Kcompactd) => {
                self.compacting.push((row.task, row.time));
            }
            Kind::CompactionEnd => self.kcompactd_ns += stop(&mut self.compacting, row.task, row.time),
            _ => {}
        }
    }

    /// What was measured, at the end of the recording.
    pub fn pace(mut self, facts: &Facts) -> Pace {
        self.kswapd_ns += self.awake.iter().map(|&(_, since)| facts.duration.saturating_sub(since)).sum::<u64>();
        let scanned = ["compact_daemon_migrate_scanned", "compact_daemon_free_scanned"];
        let kcompactd_pages = scanned.iter().filter_map(|name| vmstat_delta(facts, name)).sum();
        Pace {
            kswapd: per_page(self.kswapd_ns, self.kswapd_pages).unwrap_or(PACE_DEFAULT.kswapd),
            kcompactd: per_page(self.kcompactd_ns, kcompactd_pages).unwrap_or(PACE_DEFAULT.kcompactd),
        }
    }
}

/// The time since `who` was noted, who is forgotten.
fn stop<K: Copy + PartialEq>(running: &mut Vec<(K, u64)>, who: K, time: u64) -> u64 {
    let Some(at) = running.iter().position(|&(key, _)| key == who) else { return 0 };
    time.saturating_sub(running.swap_remove(at).1)
}

fn per_page(ns: u64, pages: u64) -> Option<u64> {
    (ns > 0).then(|| ns.checked_div(pages)).flatten()
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
    fn kswapd_is_paced_by_its_time_awake() {
        let tasks = ["", "kswapd0"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let facts = Facts { tasks, duration: 1_000, ..Facts::default() };
        let windows = Windows::new(&facts);
        let event = |kind, time, arg| Row { time, task: 1, args: [arg, 0, 0], ..Row::new(kind) };
        let mut stopwatch = Stopwatch::default();
        for row in [
            event(Kind::KswapdWake, 100, 0),
            event(Kind::LruShrinkInactive, 150, 20),
            event(Kind::KswapdWake, 160, 0),
            event(Kind::KswapdSleep, 200, 0),
            event(Kind::KswapdWake, 900, 0),
        ] {
            stopwatch.observe(&row, &windows);
        }
        assert_eq!(stopwatch.pace(&facts), Pace { kswapd: 10, ..PACE_DEFAULT });
    }
}
