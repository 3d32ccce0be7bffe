//! The Python module: functions, reports and recordings as Python classes.
//!
//! A function reads its arguments ([`values`]), runs the work on another thread and waits for it without the
//! interpreter's lock ([`wait`]), and returns a [`report::Report`]. Every failure is an exception of `freehold._errors`
//! with a message of one sentence ([`errors`]).

mod call;
mod capsule;
mod errors;
mod recording;
mod report;
mod sweep;
mod table;
mod values;
mod wait;

use std::ffi::{CStr, CString};
use std::sync::Arc;

use freehold_report::origin;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::keywords::{Function, functions};
use crate::stubs;

/// The module.
#[pymodule]
fn _freehold(module: &Bound<'_, PyModule>) -> PyResult<()> {
    origin::built_from(freehold_cli::COMMIT);
    for function in functions() {
        module.add(function.name, callable(module.py(), function)?)?;
    }
    module.add_class::<report::Report>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<recording::Rows>()?;
    module.add_class::<sweep::SweepPlan>()?;
    module.add_class::<sweep::SweepWorker>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// Returns a Python function that runs a command.
fn callable(py: Python<'_>, function: Function) -> PyResult<Bound<'_, PyCFunction>> {
    let (name, doc) = (for_ever(function.name)?, for_ever(&stubs::signature_and_docstring(&function))?);
    let function = Arc::new(function);
    PyCFunction::new_closure(
        py,
        Some(name),
        Some(doc),
        move |places: &Bound<'_, PyTuple>, names: Option<&Bound<'_, PyDict>>| call::call(&function, places, names),
    )
}

/// Leaks a text, because Python refers to it as long as the module exists, which is as long as the process.
fn for_ever(text: &str) -> PyResult<&'static CStr> {
    Ok(Box::leak(CString::new(text)?.into_boxed_c_str()))
}
