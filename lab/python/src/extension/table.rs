//! The Python class of a report's table.

use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::capsule;

/// A table of a report, for readers of Arrow.
#[pyclass(frozen, module = "freehold")]
pub struct Table {
    /// Title of the table.
    #[pyo3(get)]
    pub title: String,
    /// Explanation of the columns.
    #[pyo3(get)]
    pub about: String,
    /// Conclusions from the table.
    #[pyo3(get)]
    pub conclusions: Vec<String>,
    /// Rows of the table.
    pub rows: RecordBatch,
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.rows.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.rows.schema())
    }

    /// Returns the only available types, as the interface allows, even if the reader requests others.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let rows = RecordBatchIterator::new([Ok(self.rows.clone())], self.rows.schema());
        capsule::stream(py, Box::new(rows))
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.rows.num_rows(), self.rows.num_columns());
        format!("<freehold.Table {:?}: {rows} rows, {columns} columns>", self.title)
    }
}
