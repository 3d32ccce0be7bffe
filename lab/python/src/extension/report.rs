//! The Python class of a report: texts, an HTML page in an isolated frame, and tables.

use freehold_report::formats::Views;
use freehold_report::origin;
use freehold_report::terminal::{Style, printable};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::errors;
use super::table::Table;
use crate::tables;

/// Result of a command.
#[pyclass(frozen, module = "freehold")]
pub struct Report {
    answer: Box<dyn Views>,
    function: &'static str,
    /// Words of the equivalent command line.
    asked: Vec<String>,
    /// Recordings and tasks that failed, each with the reason.
    failures: Vec<(String, String)>,
}

impl Report {
    /// Creates the report with the answer of the command with these words.
    pub fn new(answer: Box<dyn Views>, function: &'static str, asked: Vec<String>) -> Report {
        Report { answer, function, asked, failures: Vec::new() }
    }

    /// Adds failures to the report.
    pub fn without(self, failures: Vec<(String, String)>) -> Report {
        Report { failures, ..self }
    }

    /// Runs `view` on behalf of the report's command, for views that name their origin.
    fn as_asked<T>(&self, view: impl FnOnce() -> T) -> T {
        origin::asked_by(&self.asked, view)
    }
}

#[pymethods]
impl Report {
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.as_asked(|| String::from_utf8_lossy(&self.answer.json()).into_owned()))
    }

    #[getter]
    fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.json(py),))
    }

    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| self.as_asked(|| self.answer.page()))
    }

    /// Returns the page in an isolated frame: its styles and its content security policy apply only there, and its
    /// scripts cannot reach the notebook.
    fn _repr_html_(&self, py: Python<'_>) -> String {
        let page = self.html(py).replace('&', "&amp;").replace('"', "&quot;");
        format!(
            "<iframe title=\"freehold {}\" sandbox=\"allow-scripts\" style=\"width: 100%; height: 40em; border: 0\" \
             srcdoc=\"{page}\"></iframe>",
            self.function
        )
    }

    #[getter]
    fn text(&self) -> String {
        self.answer.text(Style::PLAIN)
    }

    fn __str__(&self) -> String {
        self.text()
    }

    /// Refuses to pickle: the data of a report are in the memory of this process, and have no serialized form.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a Report cannot be pickled; pass its .json(), .html() or .measures"))
    }

    fn __repr__(&self) -> String {
        let reports = self.answer.reports();
        let first = reports.first();
        let sentence = first.and_then(|report| report.verdict.first().or(report.subject.first()));
        format!("<freehold.Report {}: {}>", self.function, printable(sentence.map_or("", String::as_str)))
    }

    #[getter]
    fn verdict(&self) -> Vec<String> {
        self.answer.reports().iter().flat_map(|report| report.verdict.clone()).collect()
    }

    #[getter]
    fn failures(&self) -> Vec<(String, String)> {
        self.failures.clone()
    }

    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<Table>> {
        let mut tables = Vec::new();
        for table in self.answer.reports().iter().flat_map(|report| &report.tables) {
            tables.push(Table {
                title: table.title.clone(),
                about: table.about.clone(),
                conclusions: table.conclusions.clone(),
                rows: tables::table_batch(table).map_err(|error| errors::input(py, &error.to_string()))?,
            });
        }
        Ok(tables)
    }

    #[getter]
    fn measures(&self, py: Python<'_>) -> PyResult<Table> {
        let batch = tables::measures_batch(&self.answer.reports());
        let rows = batch.map_err(|error| errors::input(py, &error.to_string()))?;
        Ok(Table { title: "Measures".to_owned(), about: String::new(), conclusions: Vec::new(), rows })
    }
}
