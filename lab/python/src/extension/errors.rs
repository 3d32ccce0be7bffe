//! Conversion of errors to exceptions of `freehold._errors`. An exception has the command's own message, and a class
//! that programs can catch.

use freehold_cli::{Cause, Error};
use freehold_report::terminal::printable;
use freehold_trace::recording::OpenError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Module that defines the exception classes.
const CLASSES: &str = "freehold._errors";

/// Returns the exception for the failure of a command.
pub(super) fn from_command(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.cause() {
        Cause::Interrupted => return PyKeyboardInterrupt::new_err(error.to_string()),
        Cause::Input => "InputError",
        Cause::Missing => "NotFoundError",
        Cause::Denied => "NotPermittedError",
        Cause::System => "SystemFailure",
        Cause::Outcome => "Error",
    };
    exception(py, class, &error.to_string())
}

/// Returns the exception for the failure of a sweep.
pub(super) fn from_sweep(py: Python<'_>, error: freehold_sweep::Error) -> PyErr {
    from_command(py, &Error::from(error))
}

/// Returns the exception for a file that is not a recording.
pub(super) fn from_recording(py: Python<'_>, error: OpenError) -> PyErr {
    from_command(py, &Error::from(error))
}

/// Returns the exception for an invalid call.
pub(super) fn call(py: Python<'_>, sentence: &str) -> PyErr {
    exception(py, "CallError", sentence)
}

/// Returns the exception for an invalid input.
pub(super) fn input(py: Python<'_>, sentence: &str) -> PyErr {
    exception(py, "InputError", sentence)
}

/// Returns the exception for a lack of system resources.
pub(super) fn system(py: Python<'_>, sentence: &str) -> PyErr {
    exception(py, "SystemFailure", sentence)
}

/// Returns the exception for a defect of the program.
pub(super) fn fault(py: Python<'_>) -> PyErr {
    exception(py, "Error", "this is a fault of the program; please report it, with the messages on stderr")
}

fn exception(py: Python<'_>, class: &str, sentence: &str) -> PyErr {
    let made = py.import(CLASSES).and_then(|classes| classes.getattr(class)?.call1((printable(sentence).as_ref(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}
