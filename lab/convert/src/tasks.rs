//! Tasks of the events. A task is one life of a thread id, and its name is the last one that it took.
//!
//! Unlike a recorder, an importer keeps all names, since they are in the given file.

use freehold_trace::facts::Task;
use rustc_hash::FxHashMap;

/// Name of the idle task of each CPU.
const IDLE: &str = "swapper";

/// All tasks that fired an event, and names of others. Index 0 of the table is "no task".
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// For each thread id, the index of its current life.
    current: FxHashMap<u32, u32>,
    /// Names that threads took before their first event.
    named: FxHashMap<u32, String>,
    table: Vec<Task>,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks { table: vec![Task::default()], ..Tasks::default() }
    }

    /// Returns the index of the task that has this thread id now.
    #[inline]
    pub(crate) fn index(&mut self, pid: u32) -> u32 {
        match self.current.get(&pid) {
            Some(&index) => index,
            None => self.begin(pid),
        }
    }

    #[cold]
    fn begin(&mut self, pid: u32) -> u32 {
        let unnamed = if pid == 0 { IDLE } else { "" };
        let name = self.named.remove(&pid).unwrap_or_else(|| unnamed.to_owned());
        let index = self.table.len() as u32;
        self.table.push(Task { pid, name });
        self.current.insert(pid, index);
        index
    }

    /// Sets the name of a task.
    pub(crate) fn rename(&mut self, pid: u32, name: String) {
        match self.current.get(&pid) {
            Some(&index) => self.table[index as usize].name = name,
            None => drop(self.named.insert(pid, name)),
        }
    }

    /// Starts a task. Without a name of its own it has its parent's until it takes another.
    pub(crate) fn born(&mut self, pid: u32, parent: u32, name: String) {
        let name = if name.is_empty() { self.name(parent).to_owned() } else { name };
        self.current.remove(&pid);
        self.named.insert(pid, name);
    }

    /// Returns the current name of a thread id; empty if it is not known.
    fn name(&self, pid: u32) -> &str {
        let of_task = self.current.get(&pid).map(|&index| &self.table[index as usize].name);
        of_task.or_else(|| self.named.get(&pid)).map_or("", String::as_str)
    }

    /// Returns all tasks that fired an event.
    pub(crate) fn active(&self) -> &[Task] {
        &self.table[1..]
    }

    /// Returns the table for the recording.
    pub(crate) fn into_table(self) -> Vec<Task> {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_pid_is_another_task() {
        let mut tasks = Tasks::new();
        tasks.rename(7, "sh".to_owned());
        assert_eq!([tasks.index(7), tasks.index(0), tasks.index(7)], [1, 2, 1]);
        tasks.rename(7, "cc1".to_owned());
        tasks.born(7, 1, "make".to_owned());
        assert_eq!(tasks.index(7), 3);
        let names: Vec<String> = tasks.into_table().into_iter().map(|task| task.name).collect();
        assert_eq!(names, ["", "cc1", "swapper", "make"]);
    }

    #[test]
    fn child_inherits_its_name_until_renamed() {
        let mut tasks = Tasks::new();
        tasks.rename(7, "python3".to_owned());
        tasks.born(8, 7, String::new());
        tasks.born(9, 8, String::new());
        tasks.born(10, 99, String::new());
        let children = [8, 9, 10].map(|pid| tasks.index(pid));
        tasks.rename(9, "ls".to_owned());
        let table = tasks.into_table();
        assert_eq!(children.map(|index| table[index as usize].name.as_str()), ["python3", "ls", ""]);
    }
}
