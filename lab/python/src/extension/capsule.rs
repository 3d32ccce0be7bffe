//! Arrow's C interface in Python capsules, under the names that Python readers of Arrow expect.
//!
//! A capsule owns its contents. A reader takes the stream out of the capsule and releases it. A stream that is not
//! taken is released with the capsule.
//!
//! # Design
//!
//! Tables leave through Arrow's C interface in capsules, which takes some twenty lines. A library for this would depend
//! on a version of Arrow of its own.

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::errors;

/// Returns a capsule with a stream of rows.
pub(super) fn stream(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// Returns a capsule with the schema of the columns.
pub(super) fn schema<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| errors::input(py, &error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
