//! Lists and tables of the pages, by the one renderer of Markdown that all reports have.

use freehold_report::number;
use freehold_report::report::markdown::format_table;
use freehold_report::report::{Column, Table, Value};
use freehold_sim::measure::Unit;
use freehold_sim::report::measures::Measure;

/// A list of sentences.
pub fn list(sentences: impl IntoIterator<Item = String>) -> String {
    sentences.into_iter().map(|sentence| format!("- {sentence}")).collect::<Vec<_>>().join("\n")
}

/// A table of cells that are written already.
pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let columns = header.iter().map(|title| Column::words((*title).to_owned())).collect();
    format_table(&Table::new("", columns, rows.map(|row| row.into_iter().map(Value::Text).collect())))
}

/// A difference as `judge::difference` makes it: of shares in points, else relative.
pub fn difference_text(measure: &Measure, difference: f64) -> String {
    match measure.unit {
        Unit::Share => format!("{:+.1} points", difference * 100.0),
        _ if difference.is_infinite() => "from none".to_owned(),
        _ => number::change(Some(difference)),
    }
}
