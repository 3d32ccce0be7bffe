//! Tasks: each maps some ranges of the size of a huge page, touches them from the first page to the last, lives on, and
//! exits.
//!
//! One task at a time grows on a CPU. When the tasks of a CPU hold more than their share, a random one exits, so the
//! lifetime of a task depends on the growth of others. A touched range gets a huge page or, if none is available,
//! single pages one after the other.

use super::pace::Runs;
use super::parameters::Webhost;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::memory::{FaultOutcome, Mapping};

/// Pages of a range.
pub(super) const RANGE: u64 = 512;
/// Faults whose time is spent together, so that a run is not interrupted after each.
const FAULTS: u64 = 16;

/// A task.
struct Task {
    mapping: Mapping,
    /// Next page to touch.
    next: u32,
    /// Pages that the task holds.
    held: u64,
}

/// Tasks of a CPU.
pub(super) struct Tasks {
    /// Maximum number of pages that the tasks may hold.
    room: u64,
    /// Number of pages that the tasks hold.
    held: u64,
    /// Pages to be touched.
    runs: Runs,
    /// Pages of huge pages that were touched before they were due.
    ahead: u64,
    growing: Option<Task>,
    grown: Vec<Task>,
}

impl Tasks {
    /// Creates the state without tasks, with a limit on their pages.
    pub(super) fn new(parameters: &Webhost, room: u64, rng: &mut fastrand::Rng) -> Tasks {
        Tasks {
            room,
            held: 0,
            runs: Runs::new(&parameters.touch_pages, rng),
            ahead: 0,
            growing: None,
            grown: Vec::new(),
        }
    }

    /// Takes over running tasks until the limit is reached or none is left.
    pub(super) fn inherit<X: Executor>(&mut self, cpu: &Cpu<'_, '_, X>) {
        while self.held < self.room
            && let Some((mapping, held)) = cpu.inherit()
        {
            self.held += held;
            self.grown.push(Task { next: mapping.pages(), mapping, held });
        }
    }

    /// Touches the tasks' share of `pages` pages that are turned over.
    pub(super) fn step<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, parameters: &Webhost, pages: u64) {
        self.runs.pass(pages, parameters.anon_turnover_percent.into(), 100);
        while let Some(run) = self.runs.next(&parameters.touch_pages, cpu.rng()) {
            self.touch_run(cpu, parameters, run);
            self.make_room(cpu);
        }
    }

    /// Ends all tasks.
    pub(super) fn end<X: Executor>(self, cpu: &mut Cpu<'_, '_, X>) {
        self.grown.into_iter().chain(self.growing).for_each(|task| cpu.unmap(task.mapping));
    }

    /// Touches `pages` pages, one after the other, as fast as possible.
    fn touch_run<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, parameters: &Webhost, pages: u64) {
        let early = self.ahead.min(pages);
        self.ahead -= early;
        let mut due = pages - early;
        let mut small = 0;
        while due > 0 {
            let touched = self.touch(cpu, parameters);
            self.ahead += touched.saturating_sub(due);
            due = due.saturating_sub(touched);
            if touched == RANGE {
                cpu.work(parameters.huge_fault_ns);
            } else {
                small += 1;
            }
            if small == FAULTS || due == 0 {
                cpu.work(small * parameters.fault_ns);
                small = 0;
            }
        }
    }

    /// Touches the next page; returns the number of pages that this covers.
    fn touch<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, parameters: &Webhost) -> u64 {
        let task = self.growing.get_or_insert_with(|| Task::start(cpu, parameters));
        let touched = task.touch(cpu);
        self.held += touched.held;
        if task.next >= task.mapping.pages() {
            self.grown.extend(self.growing.take());
        }
        touched.due
    }

    fn make_room<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        while self.held > self.room {
            let victim = match self.grown.len() {
                0 => self.growing.take(),
                many => Some(self.grown.swap_remove(cpu.rng().usize(0..many))),
            };
            let Some(task) = victim else { return };
            self.held -= task.held;
            cpu.unmap(task.mapping);
        }
    }
}

/// Effect of touching a page.
struct Touch {
    /// Pages that the task has gained.
    held: u64,
    /// Pages that are covered and need no further touch.
    due: u64,
}

impl Task {
    fn start<X: Executor>(cpu: &mut Cpu<'_, '_, X>, parameters: &Webhost) -> Task {
        let ranges = parameters.task_ranges.draw(cpu.rng());
        Task { mapping: cpu.map(ranges * RANGE as u32), next: 0, held: 0 }
    }

    fn touch<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) -> Touch {
        let pages = match cpu.fault(&mut self.mapping, self.next) {
            FaultOutcome::Huge => RANGE,
            FaultOutcome::Small => 1,
            // khugepaged has collapsed the range, or there is no memory: the task continues with the next page in both
            // cases.
            FaultOutcome::Present | FaultOutcome::Failed => 0,
        };
        let step = pages.max(1);
        self.next += step as u32;
        self.held += pages;
        Touch { held: pages, due: step }
    }
}
