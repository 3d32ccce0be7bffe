//! Kernel stacks of a sample of the allocations, as stored in the facts of a recording.
//!
//! A sample stands for a number of pages and not for one event. A block is sampled if it has a frame whose number is a
//! multiple of the [`period`](StackFacts::period). Each page of a large block is therefore as likely to be sampled as a
//! single page, and sums are in pages.

use crate::facts::{Facts, StackCount, StackFacts};

/// A stack, and the allocations from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledStack<'a> {
    /// Names of functions, the innermost first; empty if the stack was not kept.
    pub frames: Vec<&'a str>,
    /// Name of the task.
    pub task: &'a str,
    /// Thread id of the task.
    pub pid: u32,
    /// Order of the blocks.
    pub order: u8,
    /// Number of samples.
    pub samples: u64,
    /// Pages that the samples stand for.
    pub pages: u64,
}

impl StackFacts {
    /// Returns the pages that a sample of a block of `order` stands for: the period, or the size of a larger block,
    /// which is always sampled.
    pub fn pages_of(&self, order: u8) -> u64 {
        self.period.max(1 << order.min(63))
    }

    /// Returns the name of a function by its index in stacks; empty if there is none.
    fn symbol(&self, frame: u32) -> &str {
        self.symbols.get(frame as usize).map_or("", String::as_str)
    }

    /// Returns the first contradiction in the stacks, as a clause; `None` if there is none.
    pub(crate) fn contradiction(&self, tasks: usize) -> Option<String> {
        if !self.period.is_power_of_two() {
            return Some(format!("`stacks` has a sample of one frame in {}, which is not a power of two", self.period));
        }
        let index = self.stacks.iter().position(|stack| {
            let are_named = stack.frames.iter().all(|&frame| (frame as usize) < self.symbols.len());
            !are_named || (stack.task as usize) >= tasks.max(1) || stack.order >= 64
        })?;
        Some(format!("stack {index} of `stacks` has an unknown function, task or order"))
    }
}

impl Facts {
    /// Returns the sampled stacks with names, those with the most pages first; empty if no stacks were recorded.
    pub fn sampled_stacks(&self) -> impl Iterator<Item = SampledStack<'_>> {
        self.stacks.iter().flat_map(move |facts| facts.stacks.iter().map(move |stack| self.sampled(facts, stack)))
    }

    fn sampled<'a>(&'a self, facts: &'a StackFacts, stack: &StackCount) -> SampledStack<'a> {
        SampledStack {
            frames: stack.frames.iter().map(|frame| facts.symbol(*frame)).collect(),
            task: self.task_name(stack.task),
            pid: self.tasks.get(stack.task as usize).map_or(0, |task| task.pid),
            order: stack.order,
            samples: stack.samples,
            pages: stack.samples.saturating_mul(facts.pages_of(stack.order)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Task;

    use super::*;

    fn facts() -> Facts {
        let stacks = StackFacts {
            period: 256,
            symbols: vec!["alloc_pages".to_owned(), "do_anonymous_page".to_owned()],
            stacks: vec![
                StackCount { frames: vec![0, 1], task: 1, order: 0, samples: 3 },
                StackCount { frames: Vec::new(), task: 0, order: 9, samples: 2 },
            ],
        };
        Facts {
            tasks: vec![Task::default(), Task { pid: 7, name: "cc1".to_owned() }],
            stacks: Some(stacks),
            ..Facts::default()
        }
    }

    #[test]
    fn sampled_stacks_have_names_and_page_counts() {
        let facts = facts();
        let samples: Vec<_> = facts.sampled_stacks().collect();
        let first = SampledStack {
            frames: vec!["alloc_pages", "do_anonymous_page"],
            task: "cc1",
            pid: 7,
            order: 0,
            samples: 3,
            pages: 768,
        };
        assert_eq!(samples[0], first);
        assert_eq!((samples[1].frames.len(), samples[1].pages), (0, 1024), "a block above the period counts itself");
        assert_eq!(Facts::default().sampled_stacks().count(), 0);
    }

    #[test]
    fn dangling_stack_references_are_contradictions() {
        let stacks = facts().stacks.unwrap();
        assert_eq!(stacks.contradiction(2), None);
        assert!(stacks.contradiction(1).unwrap().starts_with("stack 0"));
        let odd = StackFacts { period: 3, ..stacks.clone() };
        assert!(odd.contradiction(2).unwrap().contains("not a power of two"));
        let unnamed = StackFacts { symbols: Vec::new(), ..stacks };
        assert!(unnamed.contradiction(2).is_some());
    }
}
