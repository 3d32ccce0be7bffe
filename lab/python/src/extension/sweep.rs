//! Python classes for sweeps, used by the Python code of this package: a plan, a worker for the tasks of one recording,
//! and the report on all parts. The classes are independent of clusters: a plan is sent as the text of its manifest,
//! and a recording or a part as bytes.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use freehold_report::origin::Program;
use freehold_report::parallel;
use freehold_report::report::Detail;
use freehold_sweep::folder::Folder;
use freehold_sweep::part::{self, PartState};
use freehold_sweep::report::Terms;
use freehold_sweep::{Error, Identity, Plan, Subject, Task, TaskError, Worker, local};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator};

use super::errors;
use super::report::Report;
use super::wait::{self, Interrupts, ProgressDisplay};

/// Name of the Python function that uses these classes.
const SWEEP: &str = "sweep";

/// Names of recordings and tasks that failed, each with the reason.
type Failures = Vec<(String, String)>;

/// A plan of a sweep.
#[pyclass(frozen, module = "freehold._freehold")]
pub struct SweepPlan(Arc<Plan>);

#[pymethods]
impl SweepPlan {
    /// Reads the plan from a file.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<SweepPlan> {
        let opened = py.detach(|| Plan::open(&path));
        opened.map(SweepPlan::new).map_err(|error| errors::from_sweep(py, error))
    }

    /// Returns the plan of a manifest that another process wrote.
    #[staticmethod]
    fn of_manifest(py: Python<'_>, manifest: &str) -> PyResult<SweepPlan> {
        Plan::from_manifest(manifest).map(SweepPlan::new).map_err(|error| errors::from_sweep(py, error))
    }

    /// Returns the version and commit of this program.
    #[staticmethod]
    fn program() -> String {
        Program::this().version()
    }

    #[getter]
    fn title(&self) -> &str {
        self.0.title()
    }

    #[getter]
    fn manifest(&self) -> String {
        self.0.manifest()
    }

    #[getter]
    fn takes_recordings(&self) -> bool {
        self.0.takes_recordings()
    }

    #[getter]
    fn tasks_max(&self) -> usize {
        self.0.tasks_max()
    }

    /// Returns why results with this manifest are not results of the plan, as words that follow the name of the folder;
    /// `None` if they are.
    fn difference(&self, manifest: &str) -> Option<String> {
        self.0.difference(manifest)
    }

    /// Makes a folder of this machine the folder for the results of the plan.
    fn claim(&self, py: Python<'_>, into: PathBuf) -> PyResult<()> {
        let claimed = py.detach(|| Folder::create(&into, &self.0));
        claimed.map(|_| ()).map_err(|error| errors::from_sweep(py, error))
    }

    /// Runs all unfinished tasks on this machine. Returns failures, and recordings that are copies of another one.
    fn sweep_here(
        &self,
        py: Python<'_>,
        recordings: Vec<PathBuf>,
        into: PathBuf,
        jobs: Option<usize>,
        progress: bool,
    ) -> PyResult<(Failures, Vec<String>)> {
        let plan = Arc::clone(&self.0);
        let display = ProgressDisplay::new(progress);
        let swept = wait::for_work(
            py,
            move || {
                let files = local::recordings(&plan, &recordings)?;
                let folder = Folder::create(&into, &plan)?;
                local::run(&plan, &files, &folder, jobs.unwrap_or_else(parallel::at_once))
            },
            &display,
            Interrupts::Ends,
        )?;
        let summary = swept.map_err(|error| errors::from_sweep(py, error))?;
        let failures = summary.failures.into_iter().map(|failure| (failure.of, failure.why));
        Ok((failures.collect(), summary.repeated))
    }

    /// Returns the report on the parts in a folder of this machine.
    fn report_here(
        &self,
        py: Python<'_>,
        into: PathBuf,
        failures: Failures,
        margin: f64,
        all: bool,
        progress: bool,
    ) -> PyResult<Report> {
        let (plan, terms) = (Arc::clone(&self.0), terms(margin, all));
        let name = into.display().to_string();
        let display = ProgressDisplay::new(progress);
        let reported = wait::for_work(
            py,
            move || {
                let folder = Folder::create(&into, &plan)?;
                let parts = folder.parts()?.map(|part| part.map(|(path, bytes)| (path.display().to_string(), bytes)));
                freehold_sweep::Report::from_parts(&plan, parts, terms)
            },
            &display,
            Interrupts::Ends,
        )?;
        answer(py, reported, &name, failures)
    }

    /// Returns the report on parts, which are pairs of a name and bytes in any order.
    fn report(
        &self,
        py: Python<'_>,
        parts: &Bound<'_, PyIterator>,
        into: &str,
        failures: Failures,
        margin: f64,
        all: bool,
    ) -> PyResult<Report> {
        let (iterator, mut raised) = (parts.clone().unbind(), None);
        let reported = py.detach(|| {
            let parts = std::iter::from_fn(|| Python::attach(|py| next_part(py, &iterator, &mut raised)));
            freehold_sweep::Report::from_parts(&self.0, parts, terms(margin, all))
        });
        raised.map_or(Ok(()), Err)?;
        answer(py, reported, into, failures)
    }
}

/// Takes the next part from a Python iterator. An exception ends the parts and is stored in `raised`.
fn next_part(
    py: Python<'_>,
    iterator: &Py<PyIterator>,
    raised: &mut Option<PyErr>,
) -> Option<Result<(String, Bytes), Error>> {
    let item = iterator.bind(py).clone().next()?;
    match item.and_then(|part| part.extract::<(String, Bound<'_, PyBytes>)>()) {
        Ok((name, bytes)) => Some(Ok((name, Bytes::copy_from_slice(bytes.as_bytes())))),
        Err(error) => {
            *raised = Some(error);
            None
        }
    }
}

fn terms(margin: f64, all: bool) -> Terms {
    Terms { margin: margin / 100.0, detail: if all { Detail::All } else { Detail::Differences } }
}

/// Converts a report for Python. The equivalent command line makes a report on the existing results.
fn answer(
    py: Python<'_>,
    reported: Result<freehold_sweep::Report, Error>,
    into: &str,
    failures: Failures,
) -> PyResult<Report> {
    let report = reported.map_err(|error| errors::from_sweep(py, error))?;
    let asked = [SWEEP, "--report", into].map(str::to_owned).to_vec();
    Ok(Report::new(Box::new(report), SWEEP, asked).without(failures))
}

impl SweepPlan {
    fn new(plan: Plan) -> SweepPlan {
        SweepPlan(Arc::new(plan))
    }
}

/// Worker for the tasks of one recording, or of a plan without recordings. Several threads may share it.
#[pyclass(frozen, module = "freehold._freehold")]
pub struct SweepWorker {
    plan: Arc<Plan>,
    identity: Option<Identity>,
    tasks: Vec<Task>,
    worker: Worker,
}

#[pymethods]
impl SweepWorker {
    /// Reads the recording in these bytes, which came from a file of this name. For a plan without recordings, there is
    /// none.
    #[new]
    #[pyo3(signature = (plan, recording=None))]
    fn new(py: Python<'_>, plan: &SweepPlan, recording: Option<(String, Bound<'_, PyBytes>)>) -> PyResult<SweepWorker> {
        let plan = Arc::clone(&plan.0);
        let recording = recording.as_ref().map(|(name, bytes)| (name.as_str(), bytes.as_bytes()));
        py.detach(|| SweepWorker::read(plan, recording)).map_err(|error| errors::input(py, &error.to_string()))
    }

    /// Returns the number of tasks.
    fn __len__(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the number of a task, and the path of its part in the dataset.
    fn task(&self, py: Python<'_>, place: usize) -> PyResult<(String, String)> {
        let task = self.get_task(py, place)?;
        Ok((task.number.clone(), task.path()))
    }

    /// Checks the bytes of a task's part: `"whole"`, `"damaged"`, or `"strange"` for the part of another task.
    fn check_part(&self, py: Python<'_>, place: usize, bytes: &[u8]) -> PyResult<&'static str> {
        let task = self.get_task(py, place)?;
        Ok(match part::check(Bytes::copy_from_slice(bytes), &self.plan, task, self.identity.as_ref()) {
            PartState::Whole => "whole",
            PartState::Damaged => "damaged",
            PartState::OtherTask => "strange",
        })
    }

    /// Runs a task, and returns the bytes of its part.
    fn run<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyBytes>> {
        let task = self.get_task(py, place)?;
        match py.detach(|| self.worker.run(&self.plan, task)) {
            Ok(bytes) => Ok(PyBytes::new(py, &bytes)),
            Err(error) => Err(errors::input(py, &error.to_string())),
        }
    }
}

impl SweepWorker {
    fn read(plan: Arc<Plan>, recording: Option<(&str, &[u8])>) -> Result<SweepWorker, TaskError> {
        let subject = recording.map(|(name, bytes)| Subject::from_bytes(name, bytes)).transpose()?;
        let identity = subject.as_ref().map(|subject| subject.identity.clone());
        let tasks = plan.tasks(identity.as_ref());
        let worker = Worker::new(&plan, subject)?;
        Ok(SweepWorker { plan, identity, tasks, worker })
    }

    fn get_task(&self, py: Python<'_>, place: usize) -> PyResult<&Task> {
        self.tasks.get(place).ok_or_else(|| {
            errors::input(py, &format!("there is no task {place}; the number of tasks is {}", self.tasks.len()))
        })
    }
}
