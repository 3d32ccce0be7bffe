//! What the task of an event is at: its own work, or what the kernel makes it do when memory is short.
//!
//! Reclaim and compaction run in the tasks that need memory, between a begin and an end that are events; kswapd
//! reclaims whenever it runs. A free inside such a window is a consequence of the recorded policy, not the workload's
//! doing.

use freehold_trace::facts::Facts;
use freehold_trace::{Kind, Row};

/// What a task is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Its own work.
    #[default]
    Own,
    /// It reclaims: what it frees, nobody gave up.
    Reclaiming,
    /// It compacts: what it frees lives on elsewhere, or was a place that nothing moved to.
    Compacting,
}

/// Background tasks of the kernel that the engine has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// Reclaims.
    Kswapd,
    /// Compacts.
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

/// Watches all tasks. A byte or two for each.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    daemons: Vec<Option<Daemon>>,
    work: Vec<Work>,
}

impl Windows {
    /// Every task at its own work; kswapd's own work is to reclaim.
    pub(crate) fn new(facts: &Facts) -> Windows {
        let daemons: Vec<_> = facts.tasks.iter().map(|task| Daemon::from_name(&task.name)).collect();
        let work = daemons.iter().map(|&daemon| usual_work(daemon)).collect();
        Windows { daemons, work }
    }

    /// Takes note of a row.
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

    /// What a task is at.
    #[inline]
    pub(crate) fn work(&self, task: u32) -> Work {
        self.work.get(task as usize).copied().unwrap_or_default()
    }

    /// Which background task it is, if any.
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
    fn windows_open_and_close_by_task() {
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
