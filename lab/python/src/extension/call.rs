//! A call: from keywords to an answer.

use std::ffi::OsString;

use clap::Parser;
use freehold_cli::{Cli, Command, answer};
use freehold_report::origin;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::report::Report;
use super::wait::{self, Interrupts, Shown};
use super::{errors, values};
use crate::keywords::Function;

/// Calls the function.
///
/// # Errors
/// An exception of `freehold._errors`; KeyboardInterrupt.
pub fn call(function: &Function, places: &Bound<'_, PyTuple>, names: Option<&Bound<'_, PyDict>>) -> PyResult<Report> {
    let py = places.py();
    let shown = Shown::of(function, names)?;
    let by_place = values::all(places)?;
    let words =
        function.words(by_place, values::named(names)?).map_err(|error| errors::call(py, &error.to_string()))?;
    let asked: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let command = parsed(py, function, words)?;
    let interrupts = Interrupts::of(&command, &asked);
    let work = {
        let asked = asked.clone();
        move || origin::asked_by(&asked, || answer(command))
    };
    let answered = wait::for_work(py, work, &shown, interrupts)?;
    Ok(Report::new(answered.map_err(|error| errors::of(py, &error))?, function.name, asked))
}

/// The command of these words, judged by its own parsers.
fn parsed(py: Python<'_>, function: &Function, words: Vec<OsString>) -> PyResult<Command> {
    let cli = Cli::try_parse_from([OsString::from("freehold")].into_iter().chain(words));
    let command = cli.map_err(|error| errors::input(py, &function.sentence(&error)))?.command;
    command.ok_or_else(|| errors::input(py, "there is no command"))
}
