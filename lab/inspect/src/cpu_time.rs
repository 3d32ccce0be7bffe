//! CPU time of tasks, from the scheduler's switches.
//!
//! A task runs from the switch to it until the next switch of the same CPU. Time before a CPU's first switch is not
//! counted, since the recording of one CPU may begin later than that of another.

use freehold_trace::Row;
use rustc_hash::FxHashMap;

/// Collector of CPU time by task.
#[derive(Debug, Default)]
pub(crate) struct CpuTime {
    /// Running task of each CPU and the time of the switch to it.
    running: FxHashMap<u16, (u32, u64)>,
    ns: FxHashMap<u32, u64>,
}

impl CpuTime {
    /// Adds a switch of tasks.
    pub(crate) fn switched(&mut self, row: &Row) {
        let next = u32::try_from(row.args[0]).unwrap_or(0);
        if let Some((task, since)) = self.running.insert(row.cpu, (next, row.time)) {
            *self.ns.entry(task).or_default() += row.time.saturating_sub(since);
        }
    }

    /// Returns the CPU time in nanoseconds of the tasks that `is_counted` selects, until `end`; `None` if no switch was
    /// recorded.
    pub(crate) fn total(&self, end: u64, is_counted: impl Fn(u32) -> bool) -> Option<u64> {
        if self.running.is_empty() {
            return None;
        }
        let complete = self.ns.iter().filter(|(task, _)| is_counted(**task)).map(|(_, ns)| *ns);
        let at_end = self.running.values().filter(|(task, _)| is_counted(*task));
        Some(complete.chain(at_end.map(|(_, since)| end.saturating_sub(*since))).fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::Kind;

    use super::*;

    fn switch(time: u64, cpu: u16, task: u32, next: i64) -> Row {
        Row { time, cpu, task, args: [next, 0, 0], ..Row::new(Kind::SchedSwitch) }
    }

    #[test]
    fn task_runs_between_two_switches_of_one_cpu() {
        let mut time = CpuTime::default();
        assert_eq!(time.total(100, |_| true), None);
        for row in [switch(10, 0, 1, 7), switch(15, 1, 1, 2), switch(30, 0, 7, 1), switch(90, 0, 1, 7)] {
            time.switched(&row);
        }
        assert_eq!(time.total(100, |task| task == 7), Some(30));
        assert_eq!(time.total(100, |task| task == 2), Some(85));
        assert_eq!(time.total(100, |task| task == 9), Some(0));
    }
}
