//! The table of a replay against the recorded kernel.

use comfy_table::Table;
use freehold_measure::number::{ABSENT, change, count, decimal, percent};
use freehold_measure::terminal::{Column, Style, Tone};

use super::model::FidelityRow;

/// The table of the engine against the recorded kernel.
pub fn fidelity<'a>(rows: impl Iterator<Item = &'a FidelityRow>, style: Style) -> Table {
    let mut table = style.table(&[
        Column::Text("fidelity"),
        Column::Number("recorded"),
        Column::Number("replayed"),
        Column::Number("error"),
        Column::Number("bound"),
        Column::Text("within"),
    ]);
    for row in rows {
        let (word, tone) = match row.within {
            None => (ABSENT, Tone::Faint),
            Some(true) => ("yes", Tone::Good),
            Some(false) => ("no", Tone::Bad),
        };
        table.add_row(vec![
            style.cell(&row.name, Tone::Plain),
            style.cell(bare(row.recorded), Tone::Plain),
            style.cell(bare(row.replayed), Tone::Plain),
            style.cell(change(row.relative_error), Tone::Plain),
            style.cell(row.bound.map_or(ABSENT.to_owned(), percent), Tone::Faint),
            style.cell(word, tone),
        ]);
    }
    table
}

/// A number that is whole in most rows: no decimals then.
fn bare(number: f64) -> String {
    if number.fract() == 0.0 && number >= 0.0 { count(number as u64) } else { decimal(number) }
}
