//! Failed requests by task and order, and by tenths of a second. Computes the share that engine and kernel have in
//! common, and the share that two runs of the kernel have in common.
//!
//! For two runs, the share is the overlap of their counts divided by their union, where counts are kept per task and
//! order, or per tenth of a second. The numbers that kernels append to the names of worker threads are removed, because
//! they differ between runs.

use std::collections::BTreeMap;

use freehold_replay::report::course::Course;

/// Failed requests of one run, counted by a key.
type CountedBy<K> = BTreeMap<K, u64>;

/// Failed requests of each run, first in the kernel and then in the engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    by_task: Vec<[CountedBy<(String, u8)>; 2]>,
    by_tenth: Vec<[CountedBy<u64>; 2]>,
}

/// Shares of failed requests that two sides have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct InCommon {
    /// Mean share of kernel and engine over the runs; `None` if no run has failed requests on either side.
    pub(crate) with_engine: Option<f64>,
    /// Mean share of all pairs of runs of the kernel; `None` if no pair has failed requests.
    pub(crate) between_runs: Option<f64>,
}

impl InCommon {
    fn new<K: Ord>(runs: &[[CountedBy<K>; 2]]) -> InCommon {
        let kernels: Vec<&CountedBy<K>> = runs.iter().map(|[kernel, _]| kernel).collect();
        let pairs =
            kernels.iter().enumerate().flat_map(|(at, one)| kernels[at + 1..].iter().map(move |other| (*one, *other)));
        InCommon {
            with_engine: mean(runs.iter().filter_map(|[kernel, engine]| in_common(kernel, engine))),
            between_runs: mean(pairs.filter_map(|(one, other)| in_common(one, other))),
        }
    }
}

impl Failures {
    /// Adds the failed requests of a run.
    pub(crate) fn push(&mut self, course: &Course) {
        let tasks = course.failures.iter().map(|row| ((bare(&row.task), row.order), [row.recorded, row.replayed]));
        self.by_task.push(sides(tasks));
        let tenths = course.failures_over_time.iter().map(|row| (row.tenth, [row.recorded, row.replayed]));
        self.by_tenth.push(sides(tenths));
    }

    /// Returns the shares in common by task and order.
    pub(crate) fn by_task(&self) -> InCommon {
        InCommon::new(&self.by_task)
    }

    /// Returns the shares in common by tenths of a second.
    pub(crate) fn by_tenth(&self) -> InCommon {
        InCommon::new(&self.by_tenth)
    }

    /// Returns the number of failed requests of the kernel in all runs.
    pub(crate) fn of_kernel(&self) -> u64 {
        self.by_task.iter().map(|[kernel, _]| kernel.values().sum::<u64>()).sum()
    }
}

/// Splits rows into the counts of the kernel and those of the engine.
fn sides<K: Ord + Clone>(rows: impl Iterator<Item = (K, [u64; 2])>) -> [CountedBy<K>; 2] {
    let mut sides = [CountedBy::new(), CountedBy::new()];
    for (key, counts) in rows {
        for (side, count) in sides.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            *side.entry(key.clone()).or_default() += count;
        }
    }
    sides
}

fn bare(task: &str) -> String {
    task.split('/').next().unwrap_or(task).trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}

fn in_common<K: Ord>(one: &CountedBy<K>, other: &CountedBy<K>) -> Option<f64> {
    let both: u64 = one.iter().map(|(key, &had)| had.min(other.get(key).copied().unwrap_or(0))).sum();
    let all = one.values().sum::<u64>() + other.values().sum::<u64>() - both;
    (all > 0).then(|| both as f64 / all as f64)
}

fn mean(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = shares.fold((0.0, 0), |(sum, count), share| (sum + share, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use freehold_replay::report::course::{FailureCount, FailuresInTenth};

    use super::*;

    fn failed(task: &str, recorded: u64, replayed: u64) -> FailureCount {
        FailureCount { task: task.to_owned(), order: 3, recorded, replayed }
    }

    #[test]
    fn common_failures_count_once() {
        let mut failures = Failures::default();
        let first = [failed("kworker/0:1", 4, 1), failed("kworker/1:2", 0, 1), failed("dd", 0, 4)];
        let tenth = FailuresInTenth { tenth: 7, recorded: 4, replayed: 6 };
        failures.push(&Course { failures: first.to_vec(), failures_over_time: vec![tenth], ..Course::default() });
        failures.push(&Course { failures: vec![failed("kworker/1:7", 2, 2)], ..Course::default() });
        // With the engine, the runs share 2 of 8 and 2 of 2 requests. The two runs of the kernel share 2 of 4.
        let by_task = InCommon { with_engine: Some((0.25 + 1.0) / 2.0), between_runs: Some(0.5) };
        assert_eq!((failures.by_task(), failures.of_kernel()), (by_task, 6));
        assert_eq!(failures.by_tenth(), InCommon { with_engine: Some(4.0 / 6.0), between_runs: Some(0.0) });
        assert_eq!(Failures::default().by_task(), InCommon::default());
    }
}
