//! The table of a replay against the recorded kernel.

use freehold_measure::number::Quantity;
use freehold_measure::report::{Column, Table, Value};

use super::model::FidelityRow;

/// The table of the engine against the recorded kernel.
pub fn fidelity<'a>(title: String, rows: impl Iterator<Item = &'a FidelityRow>) -> Table {
    let numbers = ["recorded", "replayed", "error", "bound"].map(Column::numbers);
    let columns = [vec![Column::words("fidelity")], numbers.to_vec(), vec![Column::words("within")]].concat();
    Table::new(title, columns, rows.map(row))
}

fn row(row: &FidelityRow) -> Vec<Value> {
    vec![
        Value::text(&row.name),
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
