//! Local execution of all tasks, on all cores of this machine.
//!
//! Each thread opens a recording and runs its tasks. If no recording is left to open, the thread takes tasks of a
//! recording that another thread opened. Each recording is therefore read once, and at most as many recordings are in
//! memory as there are threads. A failure of a recording or a task is noted and does not stop the others. Only an error
//! of the folder, such as a result that cannot be written, ends the sweep.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use freehold_report::parallel;
use freehold_report::progress::Progress;
use freehold_sim::meter;
use freehold_sim::sweep::{self, Job};

use crate::Failure;
use crate::error::{Error, TaskError};
use crate::folder::Folder;
use crate::plan::{Plan, Study};
use crate::subject::{Identity, Subject};
use crate::task::Task;
use crate::worker::Worker;

/// Extension of recordings.
const ENDING: &str = "parquet";

/// Outcome of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Different recordings that could be read.
    pub recordings: usize,
    /// Tasks of these recordings.
    pub tasks: usize,
    /// Tasks that were done before.
    pub kept: usize,
    /// Tasks that were done in this run.
    pub done: usize,
    /// Recordings and tasks that failed.
    pub failures: Vec<Failure>,
    /// Paths of recordings with the same contents as another one.
    pub repeated: Vec<String>,
}

/// Returns the recordings that were named, and those in the folders that were named.
///
/// # Errors
/// If the plan needs recordings and there are none, if it takes no recordings and there are some, or if a folder cannot
/// be read or has no recording.
pub fn recordings(plan: &Plan, named: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    match (plan.takes_recordings(), named.is_empty()) {
        (true, true) => {
            return Err(Error::Input(
                "the plan replays recordings, but none is given; name some after the plan".to_owned(),
            ));
        }
        (false, false) => {
            return Err(Error::Input("the plan simulates, but recordings are given; remove them".to_owned()));
        }
        _ => {}
    }
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            files.extend(recordings_in(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn recordings_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(|error| Error::Input(format!("cannot read the folder {}: {error}", folder.display())))?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    paths.sort();
    match paths.is_empty() {
        true => Err(Error::Input(format!("there is no recording in {}; name another folder", folder.display()))),
        false => Ok(paths),
    }
}

/// Runs all tasks of a plan on these recordings that are not done yet, `jobs` at a time.
///
/// # Errors
/// If a result cannot be written, if the place of a result contains another part, or if there is too little memory for
/// the simulations.
pub fn run(plan: &Plan, files: &[PathBuf], folder: &Folder, jobs: usize) -> Result<Summary, Error> {
    expect_room(plan, jobs)?;
    let sorted = largest_first(files);
    let subjects = if plan.takes_recordings() { sorted.len() } else { 1 };
    let progress = Progress::counting(plan.title(), (subjects * plan.tasks_max()) as u64, "tasks");
    let queue = Queue { plan, folder, files: sorted, progress, state: Mutex::default(), changed: Condvar::new() };
    if !plan.takes_recordings() {
        queue.open_simulations()?;
    }
    let worked = parallel::run_all(jobs.max(1), |_| queue.work());
    folder.conclude();
    worked.map(|_| queue.into_summary())
}

/// Returns the number of tasks, and how many of them are done in the folder. Nothing is run or written.
///
/// # Errors
/// If the place of a result contains another part.
pub fn look(plan: &Plan, files: &[PathBuf], folder: Option<&Folder>) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    if !plan.takes_recordings() {
        summary.add(None, check_tasks(plan, None, folder)?);
        return Ok(summary);
    }
    let progress = Progress::counting(plan.title(), files.len() as u64, "recordings");
    let opened = parallel::run_all(files.len(), |number| {
        let opened = Subject::open(&files[number]).map(|subject| subject.identity);
        progress.advance(1);
        Ok::<_, Error>(opened)
    })?;
    let (mut seen, mut identities) = (HashSet::new(), Vec::new());
    for (file, opened) in files.iter().zip(opened) {
        match opened {
            Ok(identity) if seen.insert(identity.sha256.clone()) => identities.push(identity),
            Ok(_) => summary.repeated.push(file.display().to_string()),
            Err(error) => summary.failures.push(failure(file, &error)),
        }
    }
    let checked = parallel::run_all(identities.len(), |number| check_tasks(plan, Some(&identities[number]), folder))?;
    for (identity, tasks) in identities.iter().zip(checked) {
        summary.add(Some(identity), tasks);
    }
    Ok(summary)
}

/// Returns the tasks of a recording, each with `true` if it is done.
fn check_tasks(plan: &Plan, identity: Option<&Identity>, folder: Option<&Folder>) -> Result<Vec<(Task, bool)>, Error> {
    let mut tasks = Vec::new();
    for task in plan.tasks(identity) {
        let is_done = folder.map_or(Ok(false), |folder| folder.has(plan, &task, identity))?;
        tasks.push((task, is_done));
    }
    Ok(tasks)
}

impl Summary {
    /// Counts the tasks of a recording, and returns those that are not done.
    fn add(&mut self, identity: Option<&Identity>, tasks: Vec<(Task, bool)>) -> Vec<Task> {
        let (done, left): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(_, is_done)| *is_done);
        self.recordings += usize::from(identity.is_some());
        self.tasks += done.len() + left.len();
        self.kept += done.len();
        left.into_iter().map(|(task, _)| task).collect()
    }
}

fn failure(file: &Path, error: &TaskError) -> Failure {
    Failure { of: file.display().to_string(), why: error.to_string() }
}

/// Checks that as many simulations as run at the same time fit into memory.
fn expect_room(plan: &Plan, jobs: usize) -> Result<(), Error> {
    let Study::Simulations(simulations) = &plan.study else { return Ok(()) };
    let at_once = jobs.max(1).min(parallel::at_once());
    // Every seed and policy of a point needs as much memory as the first.
    let mut needs = Vec::with_capacity(simulations.points.len() * at_once);
    for point in &simulations.points {
        let job = Job { point: 0, cpus: point.cpus, policy: 0, seed: 1 };
        needs.extend(vec![sweep::need(&point.plan, job); at_once]);
    }
    meter::expect_room(needs, at_once).map_err(Error::Room)
}

/// Sorts files by descending size, so that large recordings are started early and no long task remains for the end.
fn largest_first(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut sorted = files.to_vec();
    sorted
        .sort_by_cached_key(|file| (u64::MAX - fs::metadata(file).map_or(0, |metadata| metadata.len()), file.clone()));
    sorted
}

/// An open recording or simulation, and its tasks.
struct Open {
    of: String,
    identity: Option<Identity>,
    worker: Worker,
    tasks: Vec<Task>,
    taken: AtomicUsize,
}

impl Open {
    fn take(&self) -> Option<&Task> {
        self.tasks.get(self.taken.fetch_add(1, Ordering::Relaxed))
    }

    fn has_left(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.tasks.len()
    }
}

/// Remaining work, and the results so far.
struct Queue<'q> {
    plan: &'q Plan,
    folder: &'q Folder,
    files: Vec<PathBuf>,
    progress: Progress,
    state: Mutex<State>,
    /// Signalled when a recording was opened or could not be, and when the sweep is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Index of the next recording to open.
    next: usize,
    /// Number of recordings that are being opened.
    opening: usize,
    /// Open recordings that have tasks left.
    open: Vec<Arc<Open>>,
    /// `true` if an error ended the sweep.
    is_over: bool,
    /// Digests of the recordings that were opened.
    seen: HashSet<String>,
    summary: Summary,
}

/// Next step of a thread.
enum Next {
    Help(Arc<Open>),
    Open(usize),
    Nothing,
}

impl Queue<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_summary(self) -> Summary {
        let mut summary = self.state.into_inner().unwrap_or_else(PoisonError::into_inner).summary;
        summary.failures.sort_by(|a, b| (&a.of, &a.why).cmp(&(&b.of, &b.why)));
        summary.failures.dedup();
        summary.repeated.sort();
        summary
    }

    /// Runs the work of one thread.
    fn work(&self) -> Result<(), Error> {
        self.work_until_done().inspect_err(|_| {
            self.state().is_over = true;
            self.changed.notify_all();
        })
    }

    fn work_until_done(&self) -> Result<(), Error> {
        loop {
            // The recording of the last iteration is dropped by now, so a thread has one recording in memory.
            let open = match self.next() {
                Next::Help(open) => open,
                Next::Nothing => return Ok(()),
                Next::Open(number) => match self.open(number)? {
                    Some(open) => open,
                    None => continue,
                },
            };
            while let Some(task) = open.take() {
                self.finish(&open, task)?;
            }
        }
    }

    /// Returns the next step: to open a recording if one is left, else to help with an open one. While recordings are
    /// being opened, the thread waits for one with tasks to help with.
    fn next(&self) -> Next {
        let mut state = self.state();
        loop {
            state.open.retain(|open| open.has_left());
            if state.is_over {
                return Next::Nothing;
            }
            if state.next < self.files.len() && self.plan.takes_recordings() {
                state.next += 1;
                state.opening += 1;
                return Next::Open(state.next - 1);
            }
            if let Some(open) = state.open.first() {
                return Next::Help(Arc::clone(open));
            }
            if state.opening == 0 {
                return Next::Nothing;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, number: usize) -> Result<Option<Arc<Open>>, Error> {
        let opened = self.try_open(&self.files[number]);
        let mut state = self.state();
        state.opening -= 1;
        self.changed.notify_all();
        let open = opened?.map(Arc::new);
        state.open.extend(open.clone());
        Ok(open)
    }

    /// Opens a recording; `None` if it cannot be opened, was opened before, or has no tasks left.
    fn try_open(&self, file: &Path) -> Result<Option<Open>, Error> {
        let all = self.plan.tasks_max() as u64;
        let subject = match Subject::open(file) {
            Ok(subject) => subject,
            Err(error) => {
                self.state().summary.failures.push(failure(file, &error));
                self.progress.advance(all);
                return Ok(None);
            }
        };
        if !self.state().seen.insert(subject.identity.sha256.clone()) {
            self.state().summary.repeated.push(file.display().to_string());
            self.progress.advance(all);
            return Ok(None);
        }
        let identity = subject.identity.clone();
        let tasks = self.remaining_tasks(Some(&identity))?;
        self.progress.advance(all - tasks.len() as u64);
        if tasks.is_empty() {
            return Ok(None);
        }
        match Worker::new(self.plan, Some(subject)) {
            Ok(worker) => {
                let of = file.display().to_string();
                Ok(Some(Open { of, identity: Some(identity), worker, tasks, taken: AtomicUsize::new(0) }))
            }
            Err(error) => {
                self.state().summary.failures.push(failure(file, &error));
                self.progress.advance(tasks.len() as u64);
                Ok(None)
            }
        }
    }

    fn open_simulations(&self) -> Result<(), Error> {
        let tasks = self.remaining_tasks(None)?;
        self.progress.advance((self.plan.tasks_max() - tasks.len()) as u64);
        let worker = Worker::new(self.plan, None).map_err(|error| Error::Input(error.to_string()))?;
        let of = self.plan.title().to_owned();
        let open = Open { of, identity: None, worker, tasks, taken: AtomicUsize::new(0) };
        self.state().open.push(Arc::new(open));
        Ok(())
    }

    /// Returns the tasks of a recording that are not done yet.
    fn remaining_tasks(&self, identity: Option<&Identity>) -> Result<Vec<Task>, Error> {
        let tasks = check_tasks(self.plan, identity, Some(self.folder))?;
        Ok(self.state().summary.add(identity, tasks))
    }

    /// Runs a task, unless another sweep has done it meanwhile.
    fn finish(&self, open: &Open, task: &Task) -> Result<(), Error> {
        let is_done = self.folder.has(self.plan, task, open.identity.as_ref())?;
        let outcome = if is_done { None } else { Some(open.worker.run(self.plan, task)) };
        if let Some(Ok(bytes)) = &outcome {
            self.folder.put(task, bytes)?;
        }
        let mut state = self.state();
        match outcome {
            None => state.summary.kept += 1,
            Some(Ok(_)) => state.summary.done += 1,
            Some(Err(error)) => {
                state.summary.failures.push(Failure { of: open.of.clone(), why: error.to_string() });
            }
        }
        drop(state);
        self.progress.advance(1);
        Ok(())
    }
}
