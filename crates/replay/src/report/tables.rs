//! The table of a replay against the recorded kernel.

use freehold_measure::number::Quantity;
use freehold_measure::report::{Column, Table, Value};

use super::model::FidelityRow;

const FIDELITY: [&str; 6] = ["fidelity", "recorded", "replayed", "error", "bound", "within"];

/// The table of the engine against the recorded kernel.
pub fn fidelity<'a>(title: String, rows: impl Iterator<Item = &'a FidelityRow>) -> Table {
    let columns = FIDELITY.map(|name| Column { name, unit: "" }).to_vec();
    Table { title, columns, rows: rows.map(row).collect() }
}

fn row(row: &FidelityRow) -> Vec<Value> {
    vec![
        Value::Text(row.name.clone()),
        Value::Number(bare(row.recorded)),
        Value::Number(bare(row.replayed)),
        row.relative_error.map_or(Value::None, Value::Change),
        row.bound.map_or(Value::None, Value::Share),
        row.within.map_or(Value::None, Value::Is),
    ]
}

/// A number that is whole in most rows: no decimals then.
fn bare(number: f64) -> Quantity {
    if number.fract() == 0.0 && number >= 0.0 { Quantity::Count(number as u64) } else { Quantity::Ratio(number) }
}
