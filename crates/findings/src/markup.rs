//! Lists and tables of the pages, by the one renderer of Markdown that all reports have.

use freehold_measure::report::markdown::of_table;
use freehold_measure::report::{Column, Table, Value};

/// A list of sentences.
pub fn list(sentences: impl IntoIterator<Item = String>) -> String {
    sentences.into_iter().map(|sentence| format!("- {sentence}")).collect::<Vec<_>>().join("\n")
}

/// A table of cells that are written already.
pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let columns = header.iter().map(|title| Column::words((*title).to_owned())).collect();
    of_table(&Table::new("", columns, rows.map(|row| row.into_iter().map(Value::Text).collect())))
}
