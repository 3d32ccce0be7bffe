//! Failed allocations by order, GFP class, kernel message and task.

use freehold_trace::event::NO_PFN;
use freehold_trace::{Facts, Row, gfp_names};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// `__GFP_NOWARN` in the numbering of the file format.
const NOWARN: u32 = 1 << 13;

/// Failed allocations of one order and GFP class by tasks of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureRow {
    /// Order of the requests.
    pub order: u8,
    /// GFP class of the requests.
    pub gfp_class: String,
    /// `true` if the kernel reports such a failure as `page allocation failure` in its log, at a limited rate. Requests
    /// with `__GFP_NOWARN` are not reported.
    pub is_logged: bool,
    /// Name of the tasks.
    pub task: String,
    /// Number of failures.
    pub failed: u64,
}

/// Collector of failed allocations.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    counts: FxHashMap<(u8, u32, u32), u64>,
}

impl Failures {
    /// Adds an allocation; successful ones are ignored.
    #[inline]
    pub(crate) fn observe(&mut self, row: &Row) {
        if row.pfn == NO_PFN {
            *self.counts.entry((row.order, row.gfp, row.task)).or_default() += 1;
        }
    }

    /// Returns the failures, the most frequent first.
    pub(crate) fn rows(&self, facts: &Facts) -> Vec<FailureRow> {
        let mut sums: FxHashMap<(u8, &str, bool, &str), u64> = FxHashMap::default();
        for (&(order, gfp, task), failed) in &self.counts {
            let key = (order, gfp_names::class(gfp), gfp & NOWARN == 0, facts.task_name(task));
            *sums.entry(key).or_default() += failed;
        }
        let rows = sums.into_iter().map(|((order, class, is_logged, task), failed)| FailureRow {
            order,
            gfp_class: class.to_owned(),
            is_logged,
            task: task.to_owned(),
            failed,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| b.failed.cmp(&a.failed).then_with(|| sort_key(a).cmp(&sort_key(b))));
        rows
    }
}

/// Returns the order of rows with equal counts.
fn sort_key(row: &FailureRow) -> (u8, &str, bool, &str) {
    (row.order, &row.gfp_class, row.is_logged, &row.task)
}

#[cfg(test)]
mod tests {
    use freehold_trace::Kind;
    use freehold_trace::facts::Task;

    use super::*;

    #[test]
    fn failures_are_counted_by_order_class_message_and_task_name() {
        let tasks = ["", "dd", "dd"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let facts = Facts { tasks, ..Facts::default() };
        let failed = Row { order: 3, gfp: 0xcc0, task: 1, ..Row::new(Kind::Alloc) };
        let mut failures = Failures::default();
        for row in [
            failed,
            Row { task: 2, ..failed },
            Row { gfp: 0xcc0 | NOWARN, ..failed },
            Row { order: 0, ..failed },
            Row { pfn: 7, ..failed },
        ] {
            failures.observe(&row);
        }
        let rows: Vec<_> = failures
            .rows(&facts)
            .into_iter()
            .inspect(|row| assert_eq!((row.gfp_class.as_str(), row.task.as_str()), ("GFP_KERNEL", "dd")))
            .map(|row| (row.failed, row.order, row.is_logged))
            .collect();
        let expected = [(2, 3, true), (1, 0, true), (1, 3, false)];
        assert_eq!(rows, expected);
    }
}
