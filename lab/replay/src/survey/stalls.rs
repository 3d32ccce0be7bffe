//! Requests that reclaimed or compacted, with the time at which they began to stall.
//!
//! The event of an allocation is recorded when the request has its page. A request that had to reclaim or compact began
//! before that: at the first start of direct reclaim or compaction that its task reported since its last allocation.
//! The replay issues the request at that time.

use freehold_trace::event::NO_PFN;
use freehold_trace::{Kind, Row};
use rustc_hash::FxHashMap;

use super::windows::{Windows, Work};

/// One request that stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Row at which the stall began.
    pub(crate) row: u64,
    /// Row of the allocation's event.
    pub(crate) end: u64,
    /// Times of the start of the stall and of the answer, in nanoseconds.
    pub(crate) time: (u64, u64),
    pub(crate) task: u32,
    pub(crate) gfp: u32,
    pub(crate) order: u8,
    /// Whether the recorded kernel refused the request.
    pub(crate) failed: bool,
}

impl Stall {
    /// Returns the stall time in nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        self.time.1.saturating_sub(self.time.0)
    }
}

/// Detection of stalls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls {
    /// Row and time of the start of each open stall, by task.
    open: FxHashMap<u32, (u64, u64)>,
    all: Vec<Stall>,
}

impl Stalls {
    /// Handles an event. Must be called before `windows` has handled it.
    #[inline]
    pub(crate) fn observe(&mut self, at: u64, row: &Row, windows: &Windows) {
        match row.kind {
            Kind::DirectReclaimBegin | Kind::CompactionBegin if windows.daemon(row.task).is_none() => {
                self.open.entry(row.task).or_insert((at, row.time));
            }
            Kind::Alloc if !self.open.is_empty() && windows.work(row.task) == Work::Own => {
                if let Some((begin, since)) = self.open.remove(&row.task) {
                    self.all.push(Stall {
                        row: begin,
                        end: at,
                        time: (since, row.time),
                        task: row.task,
                        gfp: row.gfp,
                        order: row.order,
                        failed: row.pfn == NO_PFN,
                    });
                }
            }
            _ => {}
        }
    }

    /// Returns all stalls, in the order in which they began.
    pub(crate) fn finish(mut self) -> Vec<Stall> {
        self.all.sort_by_key(|stall| stall.row);
        self.all
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::{Facts, Task};

    use super::*;

    fn row_of(kind: Kind, task: u32, time: u64) -> Row {
        Row { task, time, ..Row::new(kind) }
    }

    #[test]
    fn stall_starts_with_the_first_work_of_its_task() {
        let tasks = ["", "cc1", "ld"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let mut windows = Windows::new(&Facts { tasks, ..Facts::default() });
        let mut stalls = Stalls::default();
        let rows = [
            row_of(Kind::Alloc, 1, 10),
            row_of(Kind::DirectReclaimBegin, 1, 20),
            row_of(Kind::Alloc, 1, 25),
            row_of(Kind::Alloc, 2, 26),
            row_of(Kind::DirectReclaimEnd, 1, 30),
            row_of(Kind::CompactionBegin, 1, 31),
            row_of(Kind::CompactionEnd, 1, 40),
            Row { pfn: NO_PFN, order: 9, ..row_of(Kind::Alloc, 1, 41) },
            row_of(Kind::Alloc, 1, 50),
        ];
        for (at, row) in (0..).zip(&rows) {
            stalls.observe(at, row, &windows);
            windows.observe(row);
        }
        let found = stalls.finish();
        assert_eq!(found.len(), 1, "what reclaim allocates is not what it was begun for: {found:?}");
        assert_eq!((found[0].row, found[0].end, found[0].time, found[0].failed), (1, 7, (20, 41), true));
    }
}
