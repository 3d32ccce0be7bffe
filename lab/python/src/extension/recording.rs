//! The Python class of a recording: its facts, and its rows as Arrow.

use std::path::{Path, PathBuf};

use freehold_trace::event::Section;
use freehold_trace::recording;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use super::{capsule, errors};
use crate::rows;

/// A recording: facts of the machine, and rows.
#[pyclass(frozen, module = "freehold")]
pub struct Recording {
    /// Path as the caller gave it.
    path: PathBuf,
    /// Absolute path, which stays valid if the process changes its working directory.
    file: PathBuf,
    facts: String,
    rows: u64,
}

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Recording> {
        let recording = open(py, &path)?;
        let facts = serde_json::to_string(recording.reader.facts()).expect("facts serialize to JSON");
        let file = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        Ok(Recording { path, file, facts, rows: recording.reader.row_count() })
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path, so that a recording can be used as a path.
    fn __fspath__(&self) -> PyResult<String> {
        let path = self.file.to_str().map(str::to_owned);
        path.ok_or_else(|| PyValueError::new_err("the path of this recording is not valid Unicode; use .path"))
    }

    /// Pickles the path, so that another process opens the file again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, (PathBuf,))> {
        Ok((slf.get_type(), (slf.get().file.clone(),)))
    }

    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.facts,))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.rows).unwrap_or(usize::MAX)
    }

    fn events(&self) -> Rows {
        self.part(Section::Events)
    }

    fn start(&self) -> Rows {
        self.part(Section::Start)
    }

    fn end(&self) -> Rows {
        self.part(Section::End)
    }

    fn __repr__(&self) -> String {
        format!("<freehold.Recording {:?}: {} rows>", self.path.display().to_string(), self.rows)
    }
}

impl Recording {
    fn part(&self, section: Section) -> Rows {
        Rows { file: self.file.clone(), section }
    }
}

/// Rows of a recording. Each reader reads them again.
#[pyclass(frozen, module = "freehold")]
pub struct Rows {
    file: PathBuf,
    section: Section,
}

#[pymethods]
impl Rows {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &rows::schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = open(py, &self.file)?.reader;
        capsule::stream(py, Box::new(rows::Rows::new(reader, self.section)))
    }

    fn __repr__(&self) -> String {
        format!("<freehold.Rows of {:?}>", self.file.display().to_string())
    }
}

fn open(py: Python<'_>, path: &Path) -> PyResult<recording::Recording> {
    let opened = py.detach(|| recording::Recording::open_any(path));
    opened.map_err(|error| errors::from_recording(py, error))
}
