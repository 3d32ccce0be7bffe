//! Calls of functions: from Python arguments to a report.

use std::ffi::OsString;

use clap::Parser;
use freehold_cli::{Cli, Command, answer};
use freehold_report::origin;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::report::Report;
use super::wait::{self, Interrupts, ProgressDisplay};
use super::{errors, values};
use crate::keywords::Function;

/// Calls a function.
///
/// # Errors
/// An exception of `freehold._errors`, or KeyboardInterrupt.
pub(super) fn call(
    function: &Function,
    places: &Bound<'_, PyTuple>,
    names: Option<&Bound<'_, PyDict>>,
) -> PyResult<Report> {
    let py = places.py();
    let display = ProgressDisplay::from_call(function, names)?;
    let by_place = values::read_positional(places)?;
    let words =
        function.words(by_place, values::read_named(names)?).map_err(|error| errors::call(py, &error.to_string()))?;
    let asked: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let command = parse(py, function, words)?;
    let interrupts = Interrupts::for_command(&command, &asked);
    let origin_words = asked.clone();
    let answered =
        wait::for_work(py, move || origin::asked_by(&origin_words, || answer(command)), &display, interrupts)?;
    Ok(Report::new(answered.map_err(|error| errors::from_command(py, &error))?, function.name, asked))
}

/// Parses the words of a command line.
fn parse(py: Python<'_>, function: &Function, words: Vec<OsString>) -> PyResult<Command> {
    let cli = Cli::try_parse_from([OsString::from("freehold")].into_iter().chain(words));
    let command = cli.map_err(|error| errors::input(py, &function.sentence(&error)))?.command;
    command.ok_or_else(|| errors::input(py, "no command is given"))
}
