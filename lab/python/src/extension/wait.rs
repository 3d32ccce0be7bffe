//! Execution of long work on other threads. The calling thread waits without the interpreter's lock, lets Python handle
//! signals, and displays the progress.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use freehold_cli::Command;
use freehold_report::observer::{Cancellation, Observer, Stage};
use freehold_report::parallel;
use freehold_report::terminal::printable;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use super::errors;
use crate::keywords::{Function, OF_EVERY_CALL as PROGRESS};

/// Interval of signal checks and of progress updates.
const PAUSE: Duration = Duration::from_millis(50);

/// Module and name of the Python class that displays progress.
const SHOW: (&str, &str) = ("freehold._progress", "Progress");

/// Handling of an interrupt during the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupts {
    /// The interrupt stops the work and is raised.
    Ends,
    /// The work handles the interrupt itself: the first interrupt ends the recording, and the report notes it.
    Heard,
}

impl Interrupts {
    /// Returns how an interrupt during this command is handled. `asked` are the words of the command line.
    pub(super) fn for_command(command: &Command, asked: &[String]) -> Interrupts {
        match command {
            Command::Record(_) => Interrupts::Heard,
            Command::Age(_) if asked.iter().any(|word| word == "--apply") => Interrupts::Heard,
            _ => Interrupts::Ends,
        }
    }
}

/// Display of the progress of the work.
pub(super) enum ProgressDisplay {
    /// The progress is displayed.
    On,
    /// The progress is not displayed.
    Off,
}

impl ProgressDisplay {
    /// Returns [`ProgressDisplay::On`] if `is_on`.
    pub(super) fn new(is_on: bool) -> ProgressDisplay {
        if is_on { ProgressDisplay::On } else { ProgressDisplay::Off }
    }

    /// Reads the keyword `progress` of a call.
    ///
    /// # Errors
    /// If the value is not a bool.
    pub(super) fn from_call(function: &Function, names: Option<&Bound<'_, PyDict>>) -> PyResult<ProgressDisplay> {
        let Some(value) = names.map(|names| names.get_item(PROGRESS)).transpose()?.flatten() else {
            return Ok(ProgressDisplay::On);
        };
        match value.cast::<PyBool>() {
            Ok(is_on) => Ok(ProgressDisplay::new(is_on.is_true())),
            Err(_) => {
                let sentence =
                    format!("{}(): {PROGRESS} must be a bool, not {}", function.name, value.get_type().name()?);
                Err(errors::call(value.py(), &sentence))
            }
        }
    }
}

/// Runs the work on another thread and waits for it.
///
/// # Errors
/// The exception of a signal handler, after the work has stopped; or an exception if no thread can be created.
pub(super) fn for_work<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    display: &ProgressDisplay,
    interrupts: Interrupts,
) -> PyResult<T> {
    let observer = Arc::new(Observer::default());
    let watcher = Arc::clone(&observer);
    let begun = parallel::begin(move || watcher.watch(work));
    let mut receiver = begun
        .map_err(|error| errors::system(py, &format!("cannot create a thread ({error}); close other programs")))?;
    let mut screen = Screen::new(py, display)?;
    let mut raised = None;
    let worked = loop {
        let received;
        (receiver, received) = py.detach(move || wait(receiver));
        match received {
            Ok(worked) => break Some(worked),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = py.check_signals().and_then(|()| screen.show(&observer.stages())) {
            if interrupts == Interrupts::Ends {
                observer.stop();
            }
            raised = Some(error);
        }
    };
    screen.close()?;
    match (worked, raised) {
        (None, _) => Err(errors::fault(py)),
        (Some(Ok(worked)), Some(_)) if interrupts == Interrupts::Heard => Ok(worked),
        (_, Some(raised)) => Err(raised),
        (Some(Ok(worked)), None) => Ok(worked),
        (Some(Err(Cancellation)), None) => Err(errors::fault(py)),
    }
}

fn wait<T>(receiver: Receiver<T>) -> (Receiver<T>, Result<T, RecvTimeoutError>) {
    let received = receiver.recv_timeout(PAUSE);
    (receiver, received)
}

/// Display of the progress.
struct Screen<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Screen<'py> {
    fn new(py: Python<'py>, display: &ProgressDisplay) -> PyResult<Screen<'py>> {
        match display {
            ProgressDisplay::On => Ok(Screen(Some(py.import(SHOW.0)?.getattr(SHOW.1)?.call0()?))),
            ProgressDisplay::Off => Ok(Screen(None)),
        }
    }

    fn show(&mut self, stages: &[Stage]) -> PyResult<()> {
        let Some(screen) = &self.0 else { return Ok(()) };
        let mut rows = Vec::with_capacity(stages.len());
        for stage in stages {
            // The description may contain a file name, so it is made printable.
            let what = printable(&stage.what).into_owned();
            rows.push((stage.number, what, stage.done, stage.total, stage.unit));
        }
        screen.call_method1("show", (rows,))?;
        Ok(())
    }

    fn close(&self) -> PyResult<()> {
        self.0.as_ref().map_or(Ok(()), |screen| screen.call_method0("close").map(|_| ()))
    }
}
