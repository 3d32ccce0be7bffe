//! Arrow's C interface in capsules, by the names that every reader of Arrow in Python looks for.
//!
//! A capsule owns what it holds: a reader takes the stream out and releases it, and what nobody took is released with
//! the capsule.

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::errors;

/// A stream of rows.
pub(super) fn stream(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// The columns.
pub(super) fn schema<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| errors::input(py, &error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
