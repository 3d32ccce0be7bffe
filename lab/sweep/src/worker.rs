//! Execution of tasks: from the plan and the bytes of a recording to the bytes of parts.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::TaskError;
use crate::outcome;
use crate::part::{self, Header, Row};
use crate::plan::{Plan, Study};
use crate::replaying::Replayer;
use crate::simulating::Simulator;
use crate::subject::{Identity, Subject};
use crate::task::{Task, Work};

/// Worker for the tasks of one recording, or of a plan without recordings.
///
/// A recording is read once and replayed for each of its tasks. A worker holds the packed events of the recording and,
/// during a replay, the replayed machine.
pub struct Worker {
    identity: Option<Identity>,
    kind: WorkerKind,
}

enum WorkerKind {
    Replays(Box<Replayer>),
    Simulations(Simulator),
}

impl Worker {
    /// Creates a worker for this recording, or for a plan without recordings. Cost: reading the recording.
    ///
    /// # Errors
    /// If the recording cannot be read or replayed.
    ///
    /// # Panics
    /// If the plan replays recordings and `subject` is `None`.
    pub fn new(plan: &Plan, subject: Option<Subject>) -> Result<Worker, TaskError> {
        match &plan.study {
            Study::Replays(_) => {
                let Subject { identity, recording } = subject.expect("a task of a replay plan has a recording");
                let replayer = catch_panic(|| Replayer::new(&identity, recording))?;
                Ok(Worker { identity: Some(identity), kind: WorkerKind::Replays(Box::new(replayer)) })
            }
            Study::Simulations(_) => Ok(Worker { identity: None, kind: WorkerKind::Simulations(Simulator::new()) }),
        }
    }

    /// Runs the task with this number, and returns the bytes of its part.
    ///
    /// # Errors
    /// If the plan does not have this task for this recording, or if the task fails.
    pub fn run_number(&self, plan: &Plan, number: &str) -> Result<Vec<u8>, TaskError> {
        let task = plan.tasks(self.identity.as_ref()).into_iter().find(|task| task.number == number);
        self.run(plan, &task.ok_or_else(|| TaskError::NoTask(number.to_owned()))?)
    }

    /// Runs a task of this plan and recording, and returns the bytes of its part.
    ///
    /// # Errors
    /// If the task fails.
    pub fn run(&self, plan: &Plan, task: &Task) -> Result<Vec<u8>, TaskError> {
        let rows = catch_panic(|| self.rows(plan, task))?;
        Ok(part::write(&Header::new(plan, task, self.identity.as_ref()), &rows))
    }

    fn rows(&self, plan: &Plan, task: &Task) -> Result<Vec<Row>, TaskError> {
        match (&self.kind, &plan.study, task.work) {
            (WorkerKind::Replays(replayer), Study::Replays(replays), Work::Replay { policy, setting, cpus }) => {
                replayer.replay(replays, policy, setting, cpus).map(|replay| outcome::rows(&replay))
            }
            (WorkerKind::Simulations(simulator), Study::Simulations(simulations), Work::Simulate { .. }) => {
                simulator.simulate(simulations, task.work)
            }
            _ => Err(TaskError::NoTask(task.number.clone())),
        }
    }
}

/// Converts a panic into an error, so that a defect of the engine that one recording triggers does not lose the results
/// of the others.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, TaskError>) -> Result<T, TaskError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(TaskError::Panic(panic_message(&*panic))))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    message.unwrap_or("panic without a message").to_owned()
}
