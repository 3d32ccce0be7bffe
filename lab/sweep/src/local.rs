//! All tasks on this machine, on as many cores as it has.
//!
//! Each thread opens a recording and does its tasks; when no recording is left to be opened, it helps with another's.
//! So a recording is read once, and as many are in memory as there are threads. What fails is noted, and the rest goes
//! on; only a folder that takes no more results ends the sweep.

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

/// The end of a recording's name.
const ENDING: &str = "parquet";

/// What a sweep came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Recordings that could be read.
    pub recordings: usize,
    /// Tasks of these.
    pub tasks: usize,
    /// Tasks that were done before.
    pub kept: usize,
    /// Tasks that were done now.
    pub done: usize,
    /// What could not be done, by name.
    pub failures: Vec<Failure>,
    /// Recordings that are another one again.
    pub repeated: Vec<String>,
}

/// The recordings that were named, and those in folders that were.
///
/// # Errors
/// When the plan takes some and there are none, or the other way round, or a folder cannot be read.
pub fn recordings(plan: &Plan, named: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    match (plan.takes_recordings(), named.is_empty()) {
        (true, true) => return Err(Error::Input("the plan replays recordings; name some after it".to_owned())),
        (false, false) => return Err(Error::Input("the plan simulates; take the recordings out".to_owned())),
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

/// Does all tasks of a plan on these recordings that are not done yet, so many at a time.
///
/// # Errors
/// When a result cannot be written, or there is too little memory for the simulations.
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

/// What there would be to do, of which so much is done in the folder; nothing is done or written.
///
/// # Errors
/// When the folder holds parts of other tasks.
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

/// The tasks of a recording, and of each whether it is done.
fn check_tasks(plan: &Plan, identity: Option<&Identity>, folder: Option<&Folder>) -> Result<Vec<(Task, bool)>, Error> {
    let mut tasks = Vec::new();
    for task in plan.tasks(identity) {
        let is_done = folder.map_or(Ok(false), |folder| folder.has(plan, &task, identity))?;
        tasks.push((task, is_done));
    }
    Ok(tasks)
}

impl Summary {
    /// Counts the tasks of a recording, and hands back those that are left.
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

/// Whether as many simulations as are done at a time fit into memory.
fn expect_room(plan: &Plan, jobs: usize) -> Result<(), Error> {
    let Study::Simulations(simulations) = &plan.study else { return Ok(()) };
    let at_once = jobs.max(1).min(parallel::at_once());
    // Each seed and policy takes as much as the first.
    let mut needs = Vec::with_capacity(simulations.points.len() * at_once);
    for point in &simulations.points {
        let job = Job { point: 0, cpus: point.cpus, policy: 0, seed: 1 };
        needs.extend(vec![sweep::need(&point.plan, job); at_once]);
    }
    meter::expect_room(needs, at_once).map_err(Error::Room)
}

/// Large recordings are begun early, so that none is left for the end.
fn largest_first(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut sorted = files.to_vec();
    sorted
        .sort_by_cached_key(|file| (u64::MAX - fs::metadata(file).map_or(0, |metadata| metadata.len()), file.clone()));
    sorted
}

/// A recording that is open, and which of its tasks are taken.
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

/// What is to be done, and what has been.
struct Queue<'q> {
    plan: &'q Plan,
    folder: &'q Folder,
    files: Vec<PathBuf>,
    progress: Progress,
    state: Mutex<State>,
    /// A recording was opened, or could not be, or all is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next recording to be opened.
    next: usize,
    /// How many are being opened.
    opening: usize,
    /// Those that have tasks left.
    open: Vec<Arc<Open>>,
    /// Whether something ended the sweep.
    is_over: bool,
    /// Recordings that were opened, by their contents.
    seen: HashSet<String>,
    summary: Summary,
}

/// What a thread does next.
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

    /// One thread's work.
    fn work(&self) -> Result<(), Error> {
        self.work_until_done().inspect_err(|_| {
            self.state().is_over = true;
            self.changed.notify_all();
        })
    }

    fn work_until_done(&self) -> Result<(), Error> {
        loop {
            // What was open before is closed by now: a thread has one recording in memory.
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

    /// A recording to open, else one to help with, once those that are being opened are.
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

    /// Opens a recording; nothing if it cannot be, or has nothing left to do.
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
        let tasks = self.left(Some(&identity))?;
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
        let tasks = self.left(None)?;
        self.progress.advance((self.plan.tasks_max() - tasks.len()) as u64);
        let worker = Worker::new(self.plan, None).map_err(|error| Error::Input(error.to_string()))?;
        let of = self.plan.title().to_owned();
        let open = Open { of, identity: None, worker, tasks, taken: AtomicUsize::new(0) };
        self.state().open.push(Arc::new(open));
        Ok(())
    }

    /// The tasks of a recording that are not done yet.
    fn left(&self, identity: Option<&Identity>) -> Result<Vec<Task>, Error> {
        let tasks = check_tasks(self.plan, identity, Some(self.folder))?;
        Ok(self.state().summary.add(identity, tasks))
    }

    /// Does a task, unless another sweep has done it meanwhile.
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
