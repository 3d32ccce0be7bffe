//! Sampled stacks of allocations, over all tasks and orders.

use std::cmp::Reverse;
use std::collections::HashMap;

use freehold_trace::Facts;
use serde::Serialize;

/// A stack and the estimated pages of its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StackRow {
    /// Functions, the innermost first; empty if the frames of the stack were not kept.
    pub frames: Vec<String>,
    /// Estimated number of pages.
    pub pages: u64,
    /// Number of samples.
    pub samples: u64,
    /// Share of the pages of all stacks.
    pub share: f64,
    /// Name of the task for which the stack allocated the most pages.
    pub task: String,
}

/// Returns a row for each stack, the one with the most pages first.
pub(crate) fn rows(facts: &Facts) -> Vec<StackRow> {
    let mut sums: HashMap<Vec<&str>, StackRow> = HashMap::new();
    let mut pages_by_task: HashMap<Vec<&str>, HashMap<&str, u64>> = HashMap::new();
    let mut total = 0;
    for stack in facts.sampled_stacks() {
        let row = sums.entry(stack.frames.clone()).or_default();
        row.pages += stack.pages;
        row.samples += stack.samples;
        total += stack.pages;
        *pages_by_task.entry(stack.frames).or_default().entry(stack.task).or_default() += stack.pages;
    }
    let shares = sums.into_iter().map(|(frames, row)| StackRow {
        share: row.pages as f64 / total as f64,
        task: busiest_task(&pages_by_task[&frames]),
        frames: frames.into_iter().map(str::to_owned).collect(),
        ..row
    });
    let mut rows: Vec<StackRow> = shares.collect();
    rows.sort_by(|a, b| (b.pages, &a.frames).cmp(&(a.pages, &b.frames)));
    rows
}

fn busiest_task(pages_by_task: &HashMap<&str, u64>) -> String {
    let most = pages_by_task.iter().max_by_key(|(name, pages)| (**pages, Reverse(**name)));
    most.map_or(String::new(), |(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::{StackCount, StackFacts, Task};

    use super::*;

    #[test]
    fn stack_rows_merge_tasks_and_orders() {
        let stacks = StackFacts {
            period: 64,
            symbols: vec!["fault".to_owned(), "read".to_owned()],
            stacks: [(0, 1, 0, 1), (0, 2, 0, 2), (1, 1, 9, 1)]
                .map(|(frame, task, order, samples)| StackCount { frames: vec![frame], task, order, samples })
                .to_vec(),
        };
        let tasks = ["", "sh", "cc1"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let rows = rows(&Facts { tasks, stacks: Some(stacks), ..Facts::default() });
        let told: Vec<_> =
            rows.iter().map(|row| (row.frames[0].as_str(), row.pages, row.samples, row.task.as_str())).collect();
        assert_eq!(told, [("read", 512, 1, "sh"), ("fault", 192, 3, "cc1")]);
        assert!((rows[0].share - 512.0 / 704.0).abs() < 1e-9);
        assert!(super::rows(&Facts::default()).is_empty());
    }
}
