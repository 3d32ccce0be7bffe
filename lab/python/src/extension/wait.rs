//! Work that takes its time: on threads of its own, while this one waits without the interpreter's lock, lets Python
//! handle signals, and shows how far it is.

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

/// How soon a signal is heard, and how often it is shown how far it is.
const PAUSE: Duration = Duration::from_millis(50);

/// The class that shows it.
const SHOW: (&str, &str) = ("freehold._progress", "Progress");

/// Who hears of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// The work is ended, and the interrupt is raised.
    Ends,
    /// The work listens itself: the first one ends what is recorded, and the answer says so.
    Heard,
}

impl Interrupts {
    /// Those of this command, asked for by these words.
    pub fn of(command: &Command, asked: &[String]) -> Interrupts {
        match command {
            Command::Record(_) => Interrupts::Heard,
            Command::Age(_) if asked.iter().any(|word| word == "--apply") => Interrupts::Heard,
            _ => Interrupts::Ends,
        }
    }
}

/// Whether it is shown how far the work is.
pub enum Shown {
    /// It is.
    Yes,
    /// It is not.
    No,
}

impl Shown {
    /// What a call of the function says of it.
    ///
    /// # Errors
    /// When it is neither true nor false.
    pub fn of(function: &Function, names: Option<&Bound<'_, PyDict>>) -> PyResult<Shown> {
        let Some(value) = names.map(|names| names.get_item(PROGRESS)).transpose()?.flatten() else {
            return Ok(Shown::Yes);
        };
        match value.cast::<PyBool>() {
            Ok(value) => Ok(if value.is_true() { Shown::Yes } else { Shown::No }),
            Err(_) => {
                let sentence =
                    format!("{}(): {PROGRESS} must be a bool, not {}", function.name, value.get_type().name()?);
                Err(errors::call(value.py(), &sentence))
            }
        }
    }
}

/// Does the work, and waits for it.
///
/// # Errors
/// What a handler of a signal raised, once the work has stopped; and when there is no thread to be had.
pub fn for_work<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    shown: &Shown,
    interrupts: Interrupts,
) -> PyResult<T> {
    let observer = Arc::new(Observer::default());
    let watched = {
        let observer = Arc::clone(&observer);
        move || observer.watch(work)
    };
    let begun = parallel::begin(watched);
    let mut receiver = begun.map_err(|error| errors::system(py, &format!("there is no thread for this ({error})")))?;
    let mut screen = Screen::new(py, shown)?;
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

/// What shows how far the work is.
struct Screen<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Screen<'py> {
    fn new(py: Python<'py>, shown: &Shown) -> PyResult<Screen<'py>> {
        match shown {
            Shown::Yes => Ok(Screen(Some(py.import(SHOW.0)?.getattr(SHOW.1)?.call0()?))),
            Shown::No => Ok(Screen(None)),
        }
    }

    fn show(&mut self, stages: &[Stage]) -> PyResult<()> {
        let Some(screen) = &self.0 else { return Ok(()) };
        // What it says may be the name of a file.
        let told =
            |stage: &Stage| (stage.number, printable(&stage.what).into_owned(), stage.done, stage.total, stage.unit);
        screen.call_method1("show", (stages.iter().map(told).collect::<Vec<_>>(),))?;
        Ok(())
    }

    fn close(&self) -> PyResult<()> {
        self.0.as_ref().map_or(Ok(()), |screen| screen.call_method0("close").map(|_| ()))
    }
}
