//! What goes wrong, as an exception of `freehold._errors`: the command's own sentence, and a class that programs know.

use freehold_cli::{Cause, Error};
use freehold_report::terminal::printable;
use freehold_trace::recording::OpenError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The module that has the classes.
const CLASSES: &str = "freehold._errors";

/// A failure of a command.
pub fn of(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.cause() {
        Cause::Interrupted => return PyKeyboardInterrupt::new_err(error.to_string()),
        Cause::Input => "InputError",
        Cause::Missing => "NotFoundError",
        Cause::Denied => "NotPermittedError",
        Cause::System => "SystemFailure",
        Cause::Outcome => "Error",
    };
    raised(py, class, &error.to_string())
}

/// A sweep that cannot be carried out.
pub fn of_sweep(py: Python<'_>, error: freehold_sweep::Error) -> PyErr {
    of(py, &Error::from(error))
}

/// A file that is no recording.
pub fn of_recording(py: Python<'_>, error: OpenError) -> PyErr {
    of(py, &Error::from(error))
}

/// A call that is none.
pub fn call(py: Python<'_>, sentence: &str) -> PyErr {
    raised(py, "CallError", sentence)
}

/// Something that cannot be worked with.
pub fn input(py: Python<'_>, sentence: &str) -> PyErr {
    raised(py, "InputError", sentence)
}

/// The system has no more of something.
pub fn system(py: Python<'_>, sentence: &str) -> PyErr {
    raised(py, "SystemFailure", sentence)
}

/// A fault of the program.
pub fn fault(py: Python<'_>) -> PyErr {
    raised(py, "Error", "this is a fault of the program, which has said more on stderr; please report it")
}

fn raised(py: Python<'_>, class: &str, sentence: &str) -> PyErr {
    let raised = py.import(CLASSES).and_then(|classes| classes.getattr(class)?.call1((printable(sentence).as_ref(),)));
    raised.map_or_else(|error| error, PyErr::from_value)
}
