//! Failed requests by task and order, in the recording and in the engine.
//!
//! A task whose request fails repeats it, often many times. The number of repeats depends more on the task's loop than
//! on memory. Consecutive failures of one task at one order therefore count as one request, until a request of the task
//! succeeds or has another order.

use std::collections::BTreeMap;

use freehold::base::Order;
use freehold_trace::facts::Facts;
use rustc_hash::FxHashMap;

use super::waiting::Claim;
use crate::report::course::{FailureCount, FailuresInTenth};

/// Nanoseconds in a tenth of a second.
const TENTH: u64 = 100_000_000;

/// Failures so far. Each pair counts the recorded kernel's failures, then the engine's.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Failures by task and order.
    refused: FxHashMap<(u32, Order), [u64; 2]>,
    /// Failures by tenths of a second.
    tenths: BTreeMap<u64, [u64; 2]>,
    /// Last failed request of each task: its order, and whether the recorded kernel and the engine refused it.
    last: FxHashMap<u32, (Order, [bool; 2])>,
}

impl Failures {
    /// Records the results of a request in the recorded kernel and in the engine.
    #[inline]
    pub(crate) fn note(&mut self, claim: &Claim, replayed: bool) {
        let refused = [claim.recorded.is_none(), !replayed];
        if refused == [false; 2] {
            if !self.last.is_empty() {
                self.last.remove(&claim.task);
            }
            return;
        }
        let before = self.last.insert(claim.task, (claim.order, refused));
        let repeats = before.filter(|(order, _)| *order == claim.order).map_or([false; 2], |(_, refused)| refused);
        let counts = self.refused.entry((claim.task, claim.order)).or_default();
        let in_tenth = self.tenths.entry(claim.time / TENTH).or_default();
        for side in 0..2 {
            let is_new = u64::from(refused[side] && !repeats[side]);
            counts[side] += is_new;
            in_tenth[side] += is_new;
        }
    }

    /// Returns the failures by tenths of a second.
    pub(crate) fn over_time(&self) -> Vec<FailuresInTenth> {
        let some = self.tenths.iter().filter(|(_, counts)| **counts != [0, 0]);
        some.map(|(&tenth, &[recorded, replayed])| FailuresInTenth { tenth, recorded, replayed }).collect()
    }

    /// Returns the failures by the tasks' names and by order, the largest counts first.
    pub(crate) fn finish(&self, facts: &Facts) -> Vec<FailureCount> {
        let mut by_name: FxHashMap<(&str, u8), [u64; 2]> = FxHashMap::default();
        for (&(task, order), counts) in &self.refused {
            let sum = by_name.entry((facts.task_name(task), order.get())).or_default();
            (0..2).for_each(|side| sum[side] += counts[side]);
        }
        let mut rows: Vec<FailureCount> = by_name
            .into_iter()
            .map(|((task, order), [recorded, replayed])| FailureCount {
                task: task.to_owned(),
                order,
                recorded,
                replayed,
            })
            .collect();
        rows.sort_by(|one, other| {
            let [size, other_size] = [one, other].map(|row| row.recorded.max(row.replayed));
            other_size.cmp(&size).then_with(|| (&one.task, one.order).cmp(&(&other.task, other.order)))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{CpuId, Gfp};
    use freehold_trace::facts::Task;

    use super::super::super::survey::Work;
    use super::*;

    fn ask(failures: &mut Failures, order: u8, is_recorded: bool, is_replayed: bool) {
        let claim = Claim {
            task: 1,
            gfp: Gfp::KERNEL,
            order: Order::new(order),
            cpu: CpuId(0),
            row: 0,
            time: 0,
            recorded: is_recorded.then_some(8),
            second: None,
            work: Work::Own,
            is_queued: false,
        };
        failures.note(&claim, is_replayed);
    }

    fn count_of_dd(order: u8, recorded: u64, replayed: u64) -> FailureCount {
        FailureCount { task: "dd".to_owned(), order, recorded, replayed }
    }

    #[test]
    fn repeated_failures_count_once_until_another_request() {
        let tasks = ["", "dd"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let facts = Facts { tasks, ..Facts::default() };
        let mut failures = Failures::default();
        // Three recorded failures of which the engine serves the second; then another order; then a success and a
        // failure.
        [false, true, false].into_iter().for_each(|is_replayed| ask(&mut failures, 3, false, is_replayed));
        ask(&mut failures, 2, true, false);
        ask(&mut failures, 3, true, true);
        ask(&mut failures, 3, false, false);
        assert_eq!(failures.finish(&facts), [count_of_dd(3, 2, 3), count_of_dd(2, 0, 1)]);
        assert_eq!(failures.over_time(), [FailuresInTenth { tenth: 0, recorded: 2, replayed: 4 }]);
    }
}
