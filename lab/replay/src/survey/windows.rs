//! Work of the task of each event: its own work, or reclaim or compaction on behalf of the kernel.
//!
//! Reclaim and compaction run in the tasks that need memory, between a begin event and an end event. kswapd reclaims
//! whenever it runs. A free inside such a window follows from the recorded policy and not from the workload.

use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Row};

/// Current work of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Its own work.
    #[default]
    Own,
    /// Reclaim: pages that it frees were still in use by the workload.
    Reclaiming,
    /// Compaction: a block that it frees was moved, or was an unused target.
    Compacting,
}

/// Background tasks of the kernel that the engine has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// kswapd, which reclaims.
    Kswapd,
    /// kcompactd, which compacts.
    Kcompactd,
}

impl Daemon {
    fn from_name(task: &str) -> Option<Daemon> {
        match task {
            _ if task.starts_with("kswapd") => Some(Daemon::Kswapd),
            _ if task.starts_with("kcompactd") => Some(Daemon::Kcompactd),
            _ => None,
        }
    }
}

/// Current work of all tasks. Takes a byte or two per task.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    daemons: Vec<Option<Daemon>>,
    work: Vec<Work>,
}

impl Windows {
    /// Creates the state in which every task does its own work, which is reclaim for kswapd.
    pub(crate) fn new(facts: &Facts) -> Windows {
        let daemons: Vec<_> = facts.tasks.iter().map(|task| Daemon::from_name(&task.name)).collect();
        let work = daemons.iter().map(|&daemon| usual_work(daemon)).collect();
        Windows { daemons, work }
    }

    /// Updates the state by a row.
    #[inline]
    pub(crate) fn observe(&mut self, row: &Row) {
        let task = row.task as usize;
        let now = match row.kind {
            Kind::DirectReclaimBegin => Work::Reclaiming,
            Kind::CompactionBegin => Work::Compacting,
            Kind::DirectReclaimEnd | Kind::CompactionEnd => usual_work(self.daemon(row.task)),
            _ => return,
        };
        if let Some(work) = self.work.get_mut(task) {
            *work = now;
        }
    }

    /// Returns the current work of a task.
    #[inline]
    pub(crate) fn work(&self, task: u32) -> Work {
        self.work.get(task as usize).copied().unwrap_or_default()
    }

    /// Returns the kind of a background task; `None` for other tasks.
    pub(crate) fn daemon(&self, task: u32) -> Option<Daemon> {
        self.daemons.get(task as usize).copied().flatten()
    }
}

fn usual_work(daemon: Option<Daemon>) -> Work {
    if daemon == Some(Daemon::Kswapd) { Work::Reclaiming } else { Work::Own }
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::Task;

    use super::*;

    fn event_of(kind: Kind, task: u32) -> Row {
        Row { task, ..Row::new(kind) }
    }

    #[test]
    fn windows_open_and_close_per_task() {
        let tasks = ["", "cc1", "kswapd0"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let mut windows = Windows::new(&Facts { tasks, ..Facts::default() });
        assert_eq!((windows.work(1), windows.work(2)), (Work::Own, Work::Reclaiming));
        windows.observe(&event_of(Kind::DirectReclaimBegin, 1));
        windows.observe(&event_of(Kind::CompactionBegin, 2));
        assert_eq!((windows.work(1), windows.work(2)), (Work::Reclaiming, Work::Compacting));
        windows.observe(&event_of(Kind::DirectReclaimEnd, 1));
        windows.observe(&event_of(Kind::CompactionEnd, 2));
        assert_eq!((windows.work(1), windows.work(2)), (Work::Own, Work::Reclaiming));
        assert_eq!(windows.work(7), Work::Own, "a task that the recording does not name");
    }
}
