//! Tasks of a recording: their ids and names, and the names that may be kept.
//!
//! The kernel records the id of the running task with each event. A *task* here is one life of such an id: when a new
//! task gets the id (`task_newtask`), a new entry begins. The name of a task is the last one that it took, so that a
//! child has the name of its program and not of the shell that started it.
//!
//! A recording is meant to be published, so names are kept only for the recorded command and its descendants. Kernel
//! threads are not secret, but their suffixes can name devices, so only the stem is kept (`kworker/u8:2-flush` becomes
//! `kworker`). The recorder itself is `freehold`. All other tasks are `other`, unless the user requests all names.

use std::fs;

use freehold_trace::facts::Task;
use rustc_hash::{FxHashMap, FxHashSet};

/// The recorder's own name in a recording.
const OWN_NAME: &str = "freehold";
/// Name of tasks whose name is not kept.
const FOREIGN_NAME: &str = "other";
/// Flag of a kernel thread in `/proc/PID/stat`.
const PF_KTHREAD: u64 = 0x0020_0000;
/// Id of the task that creates kernel threads.
const KTHREADD: u32 = 2;

/// Tasks whose names are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The command and its descendants; kernel threads keep the stem of their names.
    Command,
    /// All tasks.
    All,
}

/// Origin of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Recorder,
    Command,
    Kernel,
    Foreign,
}

#[derive(Clone, Debug)]
struct Life {
    pid: u32,
    name: String,
    origin: Origin,
    /// Index in the recording's table; 0 as long as the task has fired no event.
    listed: u32,
}

/// A task as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcTask {
    pid: u32,
    /// Process of the thread (first field), and the parent of that process (second field).
    process: u32,
    parent: u32,
    name: String,
    kernel: bool,
}

/// All known tasks, and the table of those that fired an event. Index 0 of the table is "no task".
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    lives: Vec<Life>,
    /// Current life of each id.
    current: FxHashMap<u32, usize>,
    /// Lives in the table, from its index 1 on.
    listed: Vec<usize>,
    command: Option<u32>,
}

impl Tasks {
    /// Returns the tasks that exist now.
    pub(crate) fn survey() -> Tasks {
        Tasks::survey_below(None)
    }

    /// Returns the tasks that exist now, after a command has started. Its process and its descendants count as the
    /// command.
    pub(crate) fn survey_below(command: Option<u32>) -> Tasks {
        Tasks::new(survey_proc(), command)
    }

    fn new(seen: Vec<ProcTask>, command: Option<u32>) -> Tasks {
        let ours = descendants(command, &seen);
        let mut tasks = Tasks::default();
        tasks.begin(0, "swapper", Origin::Kernel);
        for ProcTask { pid, process, name, kernel, .. } in seen {
            let origin = match kernel {
                true => Origin::Kernel,
                false if ours.contains(&process) => Origin::Command,
                false => Origin::Foreign,
            };
            tasks.begin(pid, &name, origin);
        }
        tasks
    }

    /// Marks thread `pid` as a thread of the recorder.
    pub(crate) fn add_recorder_thread(&mut self, pid: u32) {
        self.begin(pid, OWN_NAME, Origin::Recorder);
    }

    /// Sets the process id of the command. Its start is in the events.
    pub(crate) fn set_command(&mut self, pid: u32) {
        self.command = Some(pid);
    }

    /// Returns the index in the table of the task with this id, which has fired an event.
    pub(crate) fn index(&mut self, pid: u32) -> u32 {
        let place = self.life(pid);
        let life = &mut self.lives[place];
        if life.listed == 0 {
            self.listed.push(place);
            life.listed = u32::try_from(self.listed.len()).expect("fewer than 2^32 tasks fit in memory");
        }
        life.listed
    }

    /// Records that task `parent` created task `child` with the name `name`.
    pub(crate) fn born(&mut self, parent: u32, child: u32, name: &str) {
        let place = self.life(parent);
        let origin = if self.command.take_if(|command| *command == child).is_some() {
            Origin::Command
        } else {
            match self.lives[place].origin {
                // Any kernel thread except kthreadd that creates a task starts a program in user space.
                Origin::Kernel if parent != KTHREADD => Origin::Foreign,
                origin => origin,
            }
        };
        self.begin(child, name, origin);
    }

    /// Records that task `pid` took the name `name`.
    pub(crate) fn renamed(&mut self, pid: u32, name: &str) {
        let place = self.life(pid);
        name.clone_into(&mut self.lives[place].name);
    }

    /// Returns the table for the recording.
    pub(crate) fn table(&self, names: Names) -> Vec<Task> {
        let lives = self.listed.iter().map(|&place| &self.lives[place]);
        let tasks = lives.map(|life| Task { pid: life.pid, name: kept_name(life, names) });
        std::iter::once(Task::default()).chain(tasks).collect()
    }

    /// Returns the index of the current life of `pid`. Starts a new life if the id is unknown.
    fn life(&mut self, pid: u32) -> usize {
        match self.current.get(&pid) {
            Some(&place) => place,
            None => self.begin(pid, FOREIGN_NAME, Origin::Foreign),
        }
    }

    fn begin(&mut self, pid: u32, name: &str, origin: Origin) -> usize {
        let place = self.lives.len();
        self.lives.push(Life { pid, name: name.to_owned(), origin, listed: 0 });
        self.current.insert(pid, place);
        place
    }
}

fn kept_name(life: &Life, names: Names) -> String {
    match (life.origin, names) {
        (Origin::Recorder, _) => OWN_NAME.to_owned(),
        (Origin::Kernel, Names::Command) => stem(&life.name).to_owned(),
        (Origin::Foreign, Names::Command) => FOREIGN_NAME.to_owned(),
        (Origin::Command, _) | (_, Names::All) => life.name.clone(),
    }
}

/// Returns a kernel thread's name up to a part that may name a device or a queue.
fn stem(name: &str) -> &str {
    name.split(['/', ':', '-']).next().unwrap_or(name)
}

/// Returns the command's process and its descendants.
fn descendants(command: Option<u32>, seen: &[ProcTask]) -> FxHashSet<u32> {
    let mut ours: FxHashSet<u32> = command.into_iter().collect();
    let mut known = 0;
    while ours.len() > known {
        known = ours.len();
        let children: Vec<u32> =
            seen.iter().filter(|task| ours.contains(&task.parent)).map(|task| task.process).collect();
        ours.extend(children);
    }
    ours
}

/// Returns every thread in `/proc`. Threads that end in the meantime are left out.
fn survey_proc() -> Vec<ProcTask> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|process| {
            let number = process.file_name().to_string_lossy().parse().ok()?;
            Some((number, fs::read_dir(process.path().join("task")).ok()?))
        })
        .flat_map(|(process, threads)| threads.flatten().map(move |thread| (process, thread)))
        .filter_map(|(process, thread)| parse_stat(process, &fs::read_to_string(thread.path().join("stat")).ok()?))
        .collect()
}

/// Parses id, name, parent and flags of a thread of `process` from its `stat`. The name is in parentheses and may
/// contain any character.
fn parse_stat(process: u32, stat: &str) -> Option<ProcTask> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(1);
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    Some(ProcTask { pid: pid.parse().ok()?, process, parent, name: name.to_owned(), kernel: flags & PF_KTHREAD != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Tasks {
        let existing = [(1, "init", false), (2, "kthreadd", true), (50, "secret", false)]
            .map(|(pid, name, kernel)| ProcTask { pid, process: pid, parent: 0, name: name.to_owned(), kernel });
        let mut tasks = Tasks::new(existing.to_vec(), None);
        tasks.add_recorder_thread(100);
        tasks.set_command(200);
        tasks
    }

    fn name(tasks: &Tasks, index: u32, names: Names) -> String {
        tasks.table(names)[index as usize].name.clone()
    }

    #[test]
    fn only_the_command_and_descendants_keep_their_names() {
        let mut tasks = tasks();
        tasks.born(100, 200, "freehold");
        tasks.renamed(200, "cargo");
        tasks.born(200, 201, "cargo");
        tasks.renamed(201, "rustc");
        tasks.born(50, 202, "secret");
        let (cargo, rustc, secret) = (tasks.index(200), tasks.index(201), tasks.index(202));
        assert_eq!(name(&tasks, cargo, Names::Command), "cargo");
        assert_eq!(name(&tasks, rustc, Names::Command), "rustc");
        assert_eq!(name(&tasks, secret, Names::Command), "other");
        assert_eq!(name(&tasks, secret, Names::All), "secret");
        let unknown = tasks.index(999);
        assert_eq!(name(&tasks, unknown, Names::Command), "other");
        let recorder = tasks.index(100);
        assert_eq!(name(&tasks, recorder, Names::Command), "freehold");
        let table = tasks.table(Names::Command);
        assert_eq!(table[0], Task::default());
        assert_eq!(table.len(), 6, "tasks without events are not listed");
    }

    #[test]
    fn renamed_kernel_thread_keeps_only_its_stem() {
        let mut tasks = tasks();
        tasks.born(2, 300, "kthreadd");
        tasks.renamed(300, "kworker/u8:3-flush-253:0");
        let worker = tasks.index(300);
        assert_eq!(name(&tasks, worker, Names::Command), "kworker");
        tasks.born(300, 301, "kworker/u8:3-flush-253:0");
        tasks.renamed(301, "modprobe");
        let helper = tasks.index(301);
        assert_eq!(name(&tasks, helper, Names::Command), "other", "a program that the kernel starts is a program");
        let idle = tasks.index(0);
        assert_eq!(name(&tasks, idle, Names::Command), "swapper");
    }

    #[test]
    fn reused_pid_is_another_task() {
        let mut tasks = tasks();
        tasks.born(100, 200, "first");
        let first = tasks.index(200);
        tasks.born(50, 200, "again");
        assert_ne!(tasks.index(200), first);
        assert_eq!(name(&tasks, first, Names::Command), "first");
    }

    #[test]
    fn stat_with_a_hostile_name_is_parsed() {
        let stat = "7 (a) S (b) R 1 7 7 0 -1 2129984 0 0";
        let seen = ProcTask { pid: 7, process: 6, parent: 1, name: "a) S (b".to_owned(), kernel: true };
        assert_eq!(parse_stat(6, stat), Some(seen));
        assert_eq!(parse_stat(6, "7 (a"), None);
    }

    #[test]
    fn descendants_of_a_running_command_keep_their_names() {
        let existing = [(12, 12, 11), (13, 12, 11), (11, 11, 10), (10, 10, 1), (20, 20, 1)]
            .map(|(pid, process, parent)| ProcTask { pid, process, parent, name: format!("t{pid}"), kernel: false });
        let mut tasks = Tasks::new(existing.to_vec(), Some(10));
        let indices = [10, 11, 12, 13, 20].map(|pid| tasks.index(pid));
        let names = indices.map(|index| name(&tasks, index, Names::Command));
        assert_eq!(names, ["t10", "t11", "t12", "t13", "other"]);
    }
}
