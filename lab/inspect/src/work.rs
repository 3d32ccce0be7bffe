//! Work to get free memory, and the tasks that did it: kswapd, kcompactd, direct reclaim, direct compaction, and
//! reclaim of control groups.
//!
//! Counts are the kernel's counters if the recording has them, else its events. Times, and pages moved by compaction,
//! are those of the events. CPU time needs the scheduler's events.

use freehold_trace::{Facts, Kind, Row};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::cpu_time::CpuTime;

/// One kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkRow {
    /// Kind of work.
    pub work: WorkKind,
    /// Passes of kswapd, wake-ups of kcompactd, or requests that waited for the work.
    pub count: u64,
    /// Elapsed time in nanoseconds; `None` for kswapd, whose passes have no end that every kernel reports.
    pub ns: Option<u64>,
    /// CPU time of the kernel thread in nanoseconds; `None` without events of the scheduler, and for other work.
    pub cpu_ns: Option<u64>,
    /// Pages that were reclaimed or, by compaction, moved.
    pub pages: u64,
    /// Tasks that did the work, the most frequent first.
    pub tasks: Vec<TaskCount>,
}

/// Kind of work to get free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Reclaim in the background.
    Kswapd,
    /// Compaction in the background.
    Kcompactd,
    /// Reclaim by a request that waits for it.
    DirectReclaim,
    /// Compaction by a request that waits for it.
    DirectCompaction,
    /// Reclaim of a control group, at its limit or requested by a process.
    CgroupReclaim,
}

/// Number of events of the tasks with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskCount {
    /// Name of the tasks.
    pub name: String,
    /// Number of events.
    pub count: u64,
}

impl WorkKind {
    /// Returns the name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WorkKind::Kswapd => "kswapd",
            WorkKind::Kcompactd => "kcompactd",
            WorkKind::DirectReclaim => "direct reclaim",
            WorkKind::DirectCompaction => "direct compaction",
            WorkKind::CgroupReclaim => "cgroup reclaim",
        }
    }

    /// Returns whether a kernel thread does the work, and no request waits for it.
    pub(crate) fn is_in_background(self) -> bool {
        matches!(self, WorkKind::Kswapd | WorkKind::Kcompactd)
    }
}

/// Work of one kind, by one task or by several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Time of a begin without an end so far.
    begun: Option<u64>,
    /// Number of times that the work began.
    pub(crate) count: u64,
    /// Elapsed time in nanoseconds.
    pub(crate) ns: u64,
    /// Pages that were reclaimed or moved.
    pub(crate) pages: u64,
}

impl Share {
    fn plus(self, other: &Share) -> Share {
        Share {
            begun: None,
            count: self.count + other.count,
            ns: self.ns.saturating_add(other.ns),
            pages: self.pages.saturating_add(other.pages),
        }
    }

    fn begin(&mut self, time: u64) {
        self.count += 1;
        self.begun = Some(time);
    }

    fn end(&mut self, time: u64, pages: i64) {
        self.pages = self.pages.saturating_add(u64::try_from(pages).unwrap_or(0));
        if let Some(begin) = self.begun.take() {
            self.ns = self.ns.saturating_add(time.saturating_sub(begin));
        }
    }
}

/// Shares of the tasks, by their number.
type Shares = FxHashMap<u32, Share>;

/// Collector of the work.
#[derive(Debug, Default)]
pub(crate) struct Work {
    kswapd: FxHashSet<u32>,
    kcompactd: FxHashSet<u32>,
    kswapd_passes: u64,
    kcompactd_wakes: u64,
    /// Reclaim of LRU lists, by any task.
    shrinks: Shares,
    direct_reclaims: Shares,
    cgroup_reclaims: Shares,
    /// Compactions of a zone, by any task.
    compactions: Shares,
    /// Requests that tried to compact.
    tries: Shares,
    cpu_time: CpuTime,
}

impl Work {
    /// Adds an event. Kinds that do not belong to this module are ignored.
    pub(crate) fn observe(&mut self, row: &Row) {
        match row.kind {
            Kind::KswapdWake => {
                self.kswapd_passes += 1;
                self.kswapd.insert(row.task);
            }
            Kind::KswapdSleep | Kind::BalancePgdatBegin => drop(self.kswapd.insert(row.task)),
            Kind::KcompactdWake => {
                self.kcompactd_wakes += 1;
                self.kcompactd.insert(row.task);
            }
            Kind::KcompactdSleep => drop(self.kcompactd.insert(row.task)),
            Kind::LruShrinkInactive => share(&mut self.shrinks, row).end(row.time, row.args[1]),
            Kind::DirectReclaimBegin => share(&mut self.direct_reclaims, row).begin(row.time),
            Kind::DirectReclaimEnd => share(&mut self.direct_reclaims, row).end(row.time, row.args[0]),
            Kind::MemcgReclaimBegin => share(&mut self.cgroup_reclaims, row).begin(row.time),
            Kind::MemcgReclaimEnd => share(&mut self.cgroup_reclaims, row).end(row.time, row.args[0]),
            Kind::CompactionBegin => share(&mut self.compactions, row).begin(row.time),
            Kind::CompactionEnd => share(&mut self.compactions, row).end(row.time, 0),
            Kind::CompactionMigrate => {
                let share = share(&mut self.compactions, row);
                share.pages = share.pages.saturating_add(u64::try_from(row.args[0]).unwrap_or(0));
            }
            Kind::TryToCompact => share(&mut self.tries, row).begin(row.time),
            Kind::SchedSwitch => self.cpu_time.switched(row),
            _ => {}
        }
    }

    /// Returns the passes of kswapd.
    pub(crate) fn kswapd_passes(&self) -> u64 {
        self.kswapd_passes
    }

    /// Returns all direct reclaims.
    pub(crate) fn direct_reclaims(&self) -> Share {
        total(&self.direct_reclaims)
    }

    /// Returns all reclaims of control groups.
    pub(crate) fn cgroup_reclaims(&self) -> Share {
        total(&self.cgroup_reclaims)
    }

    /// Returns one row for each kind of work; empty for a snapshot.
    pub(crate) fn rows(&self, facts: &Facts) -> Vec<WorkRow> {
        if facts.is_snapshot() {
            return Vec::new();
        }
        vec![
            self.kswapd(facts),
            self.kcompactd(facts),
            self.direct_reclaim(facts),
            self.direct_compaction(facts),
            row(WorkKind::CgroupReclaim, Sum::over(&self.cgroup_reclaims, facts, |_| true)),
        ]
    }

    fn kswapd(&self, facts: &Facts) -> WorkRow {
        let sum = Sum::over(&self.shrinks, facts, |task| self.is_kswapd(facts, task));
        WorkRow {
            count: self.kswapd_passes,
            ns: None,
            cpu_ns: self.cpu_time.total(facts.duration, |task| self.is_kswapd(facts, task)),
            pages: counter(facts, |name| name == "pgsteal_kswapd").unwrap_or(sum.share.pages),
            ..row(WorkKind::Kswapd, sum)
        }
    }

    fn kcompactd(&self, facts: &Facts) -> WorkRow {
        let count = counter(facts, |name| name == "compact_daemon_wake").unwrap_or(self.kcompactd_wakes);
        let cpu_ns = self.cpu_time.total(facts.duration, |task| self.is_kcompactd(facts, task));
        let sum = Sum::over(&self.compactions, facts, |task| self.is_kcompactd(facts, task));
        WorkRow { count, cpu_ns, ..row(WorkKind::Kcompactd, sum) }
    }

    fn direct_reclaim(&self, facts: &Facts) -> WorkRow {
        let sum = Sum::over(&self.direct_reclaims, facts, |_| true);
        let count = counter(facts, |name| name.starts_with("allocstall_")).unwrap_or(0).max(sum.share.count);
        WorkRow { count, ..row(WorkKind::DirectReclaim, sum) }
    }

    fn direct_compaction(&self, facts: &Facts) -> WorkRow {
        let runs = Sum::over(&self.compactions, facts, |task| !self.is_kcompactd(facts, task));
        let tries = Sum::over(&self.tries, facts, |_| true);
        let stalls = counter(facts, |name| name == "compact_stall");
        match tries.share.count {
            0 => WorkRow { count: stalls.unwrap_or(runs.share.count), ..row(WorkKind::DirectCompaction, runs) },
            count => WorkRow { count, tasks: tries.tasks, ..row(WorkKind::DirectCompaction, runs) },
        }
    }

    fn is_kswapd(&self, facts: &Facts, task: u32) -> bool {
        self.kswapd.contains(&task) || is_thread(facts.task_name(task), "kswapd")
    }

    fn is_kcompactd(&self, facts: &Facts, task: u32) -> bool {
        self.kcompactd.contains(&task) || is_thread(facts.task_name(task), "kcompactd")
    }
}

/// Returns the sum over all tasks.
fn total(shares: &Shares) -> Share {
    shares.values().fold(Share::default(), |sum, share| sum.plus(share))
}

/// Returns the share of the row's task.
fn share<'s>(shares: &'s mut Shares, row: &Row) -> &'s mut Share {
    shares.entry(row.task).or_default()
}

/// Returns whether this is the name of the kernel's thread for one node, such as `kswapd0`.
pub(crate) fn is_thread(name: &str, thread: &str) -> bool {
    name.strip_prefix(thread).is_some_and(|node| node.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Returns the increase of counters during the recording; `None` without such counters.
fn counter(facts: &Facts, is_counted: impl Fn(&str) -> bool) -> Option<u64> {
    facts.vmstat_increase(facts.samples.last()?, is_counted)
}

/// Sum over tasks, and their names.
struct Sum {
    share: Share,
    tasks: Vec<TaskCount>,
}

impl Sum {
    /// Returns the sum over the tasks that `is_counted` selects.
    fn over(shares: &Shares, facts: &Facts, is_counted: impl Fn(u32) -> bool) -> Sum {
        let mut sum = Share::default();
        let mut counts: FxHashMap<&str, u64> = FxHashMap::default();
        for (&task, share) in shares.iter().filter(|(task, _)| is_counted(**task)) {
            sum = sum.plus(share);
            if share.count > 0 {
                *counts.entry(facts.task_name(task)).or_default() += share.count;
            }
        }
        let tasks = counts.into_iter().map(|(name, count)| TaskCount { name: name.to_owned(), count });
        let mut tasks: Vec<_> = tasks.collect();
        tasks.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        Sum { share: sum, tasks }
    }
}

fn row(work: WorkKind, Sum { share, tasks }: Sum) -> WorkRow {
    WorkRow { work, count: share.count, ns: Some(share.ns), cpu_ns: None, pages: share.pages, tasks }
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::{Sample, Task};

    use super::*;

    fn facts() -> Facts {
        let tasks = ["", "kswapd0", "kcompactd0", "cc1", "ld"];
        Facts {
            duration: 1000,
            tasks: tasks.map(|name| Task { pid: 1, name: name.to_owned() }).to_vec(),
            ..Facts::default()
        }
    }

    fn event(kind: Kind, time: u64, task: u32, args: [i64; 3]) -> Row {
        Row { time, task, args, ..Row::new(kind) }
    }

    fn rows(events: &[Row], facts: &Facts) -> [WorkRow; 5] {
        let mut work = Work::default();
        events.iter().for_each(|row| work.observe(row));
        work.rows(facts).try_into().expect("a row for each kind of work")
    }

    #[test]
    fn compaction_of_kcompactd_and_of_requests_are_separate() {
        let events = [
            event(Kind::CompactionBegin, 10, 2, [0; 3]),
            event(Kind::CompactionMigrate, 15, 2, [7, 0, 0]),
            event(Kind::CompactionBegin, 20, 3, [0; 3]),
            event(Kind::CompactionMigrate, 21, 3, [5, 1, 0]),
            event(Kind::CompactionEnd, 25, 3, [0; 3]),
            event(Kind::CompactionEnd, 40, 2, [0; 3]),
        ];
        let [_, kcompactd, _, direct, _] = rows(&events, &facts());
        assert_eq!((kcompactd.ns, kcompactd.pages), (Some(30), 7));
        assert_eq!((direct.count, direct.ns, direct.pages), (1, Some(5), 5));
        assert_eq!(direct.tasks, [TaskCount { name: "cc1".to_owned(), count: 1 }]);
    }

    #[test]
    fn direct_reclaims_are_counted_by_task_and_by_counter() {
        let events = [
            event(Kind::DirectReclaimBegin, 10, 3, [0; 3]),
            event(Kind::DirectReclaimEnd, 30, 3, [32, 0, 0]),
            event(Kind::DirectReclaimBegin, 40, 4, [0; 3]),
            event(Kind::MemcgReclaimBegin, 50, 4, [0; 3]),
            event(Kind::MemcgReclaimEnd, 59, 4, [2, 0, 0]),
        ];
        let samples = [0, 5].map(|count| Sample { vmstat: vec![count], ..Sample::default() }).to_vec();
        let vmstat_names = vec!["allocstall_normal".to_owned()];
        let [.., direct, _, cgroups] = rows(&events, &Facts { samples, vmstat_names, ..facts() });
        assert_eq!((direct.count, direct.ns, direct.pages, direct.tasks.len()), (5, Some(20), 32, 2));
        assert_eq!((cgroups.count, cgroups.ns, cgroups.pages), (1, Some(9), 2));
    }

    #[test]
    fn cpu_time_is_that_of_the_kernel_threads() {
        let switch = |time, task, next| event(Kind::SchedSwitch, time, task, [next, 0, 0]);
        let events = [switch(100, 3, 1), switch(150, 1, 2), switch(170, 2, 3)];
        let [kswapd, kcompactd, direct, ..] = rows(&events, &facts());
        assert_eq!((kswapd.cpu_ns, kcompactd.cpu_ns, direct.cpu_ns), (Some(50), Some(20), None));
        let [kswapd, ..] = rows(&[event(Kind::KswapdWake, 1, 1, [0; 3])], &facts());
        assert_eq!((kswapd.count, kswapd.cpu_ns), (1, None));
    }

    #[test]
    fn a_renamed_thread_is_known_by_its_events() {
        let facts = Facts { tasks: vec![Task::default(), Task { pid: 9, name: "other".to_owned() }], ..facts() };
        let events = [event(Kind::KswapdWake, 1, 1, [0; 3]), event(Kind::LruShrinkInactive, 2, 1, [9, 4, 0])];
        assert_eq!(rows(&events, &facts)[0].pages, 4);
        assert!(!is_thread("kswapd-helper", "kswapd") && is_thread("kswapd12", "kswapd"));
    }
}
