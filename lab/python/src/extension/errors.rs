//! What goes wrong, as an exception of `freehold._errors`: the command's own sentence, and a class that programs know.

use freehold_cli::{Cause, Error};
use freehold_report::terminal::printable;
use freehold_trace::recording::OpenError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The module that has the classes.
const CLASSES: &str = "freehold._errors";

/// Makes an exception of a command's failure.
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

/// Makes an exception of a sweep's failure.
pub(super) fn from_sweep(py: Python<'_>, error: freehold_sweep::Error) -> PyErr {
    from_command(py, &Error::from(error))
}

/// Makes an exception for a file that is no recording.
pub(super) fn from_recording(py: Python<'_>, error: OpenError) -> PyErr {
    from_command(py, &Error::from(error))
}

/// A call that is none.
pub(super) fn call(py: Python<'_>, sentence: &str) -> PyErr {
    exception(py, "CallError", sentence)
}

/// Something that cannot be worked with.
pub(super) fn input(py: Python<'_>, sentence: &str) -> PyErr {
    exception(py, "InputError", sentence)
}

/// The system has no more of something.
pub(super) fn system(py: Python<'_>, sentence: &str) -> PyErr {
    exception(py, "SystemFailure", sentence)
}

/// A fault of the program.
pub(super) fn fault(py: Python<'_>) -> PyErr {
    exception(py, "Error", "this is a fault of the program, which has said more on stderr; please report it")
}

fn exception(py: Python<'_>, class: &str, sentence: &str) -> PyErr {
    let made = py.import(CLASSES).and_then(|classes| classes.getattr(class)?.call1((printable(sentence).as_ref(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}
