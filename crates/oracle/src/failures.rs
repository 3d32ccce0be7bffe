//! Failed requests by task and order: how many the engine and the kernel have in common, and two runs of the kernel.
//!
//! Of two runs the share in common is what both have of each task and order, of what either has. Numbers that kernels
//! give their workers are left out of names: they differ from run to run.

use std::collections::BTreeMap;

use freehold_replay::report::course::FailureCount;

/// Failed requests of one run, by task and order.
type ByTask = BTreeMap<(String, u8), u64>;

/// What failed in each run: in the kernel, and in the engine.
#[derive(Clone, Debug, Default)]
pub struct Failures(Vec<[ByTask; 2]>);

impl Failures {
    /// Adds a run.
    pub fn push(&mut self, counts: &[FailureCount]) {
        let mut run = [ByTask::new(), ByTask::new()];
        for FailureCount { task, order, recorded, replayed } in counts {
            for (side, count) in run.iter_mut().zip([recorded, replayed]).filter(|(_, count)| **count > 0) {
                *side.entry((bare(task), *order)).or_default() += count;
            }
        }
        self.0.push(run);
    }

    /// What the kernel and the engine have in common, run by run, in the mean; nothing if neither refused any.
    pub fn with_engine(&self) -> Option<f64> {
        mean(self.0.iter().filter_map(|[kernel, engine]| in_common(kernel, engine)))
    }

    /// The same of each two runs of the kernel.
    pub fn between_runs(&self) -> Option<f64> {
        let runs = || self.0.iter().map(|[kernel, _]| kernel);
        mean(runs().enumerate().flat_map(|(at, one)| runs().skip(at + 1).filter_map(|other| in_common(one, other))))
    }

    /// What the kernel refused in all runs.
    pub fn of_kernel(&self) -> u64 {
        self.0.iter().map(|[kernel, _]| kernel.values().sum::<u64>()).sum()
    }
}

fn bare(task: &str) -> String {
    task.split('/').next().unwrap_or(task).trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}

fn in_common(one: &ByTask, other: &ByTask) -> Option<f64> {
    let count = |run: &ByTask, key: &(String, u8)| run.get(key).copied().unwrap_or(0);
    let both: u64 = one.iter().map(|(key, &had)| had.min(count(other, key))).sum();
    let all = one.values().sum::<u64>() + other.values().sum::<u64>() - both;
    (all > 0).then(|| both as f64 / all as f64)
}

fn mean(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = shares.fold((0.0, 0), |(sum, count), share| (sum + share, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(task: &str, recorded: u64, replayed: u64) -> FailureCount {
        FailureCount { task: task.to_owned(), order: 3, recorded, replayed }
    }

    #[test]
    fn what_both_have_counts_once() {
        let mut failures = Failures::default();
        failures.push(&[failed("kworker/0:1", 4, 1), failed("kworker/1:2", 0, 1), failed("dd", 0, 4)]);
        failures.push(&[failed("kworker/1:7", 2, 2)]);
        // Two of four and four; all of two. Two of four.
        assert_eq!((failures.with_engine(), failures.between_runs()), (Some((0.25 + 1.0) / 2.0), Some(0.5)));
        assert_eq!(Failures::default().with_engine(), None);
    }
}
