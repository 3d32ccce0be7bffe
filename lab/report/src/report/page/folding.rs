//! Parts of a page that are folded away: plots in which nothing happens, and rows of zeros.
//!
//! A folded part stays in the page, below a summary of one line that names its contents. Paper shows all parts.

use super::super::plot::{Plot, PlotLine, Shape};
use super::super::{Kind, Measure, Table, Value};

/// Largest change of a plot in which nothing happens, relative to its largest value.
pub(super) const FLAT: f64 = 0.02;
/// Fewest rows of zeros that are folded.
const ZEROS_MIN: usize = 4;
/// Most names in a summary.
const NAMES_MAX: usize = 3;

/// Returns whether no value of a plot differs from another by more than [`FLAT`]. In stacked areas, each area is
/// compared with itself and with the largest sum.
pub(super) fn is_flat(plot: &Plot) -> bool {
    if plot.shape == Shape::Stacked {
        let largest: f64 = plot.lines.iter().map(|line| largest(values(line))).sum();
        return plot.lines.iter().all(|line| spread(values(line)) <= FLAT * largest);
    }
    spread(plot.lines.iter().flat_map(values)) <= FLAT * largest(plot.lines.iter().flat_map(values))
}

fn values(line: &PlotLine) -> impl Iterator<Item = f64> {
    line.points.iter().map(|point| point.1)
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::abs).fold(0.0, f64::max)
}

/// Returns the difference between the largest and the smallest value; zero without values.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    ends.map_or(0.0, |(low, high)| high - low)
}

/// Splits the rows of a table into rows to show and rows of zeros to fold.
pub(super) fn split_rows(table: &Table) -> (Vec<&[Value]>, Vec<&[Value]>) {
    let has_names = table.columns.first().is_some_and(|column| column.kind == Kind::Words);
    let zero_count = table.rows.iter().filter(|row| is_zero(table, row)).count();
    let folds = has_names && zero_count >= ZEROS_MIN;
    table.rows.iter().map(Vec::as_slice).partition(|row| !(folds && is_zero(table, row)))
}

/// Returns whether a row has a number, and all its numbers and changes are zero. Shares are bounds, not results.
fn is_zero(table: &Table, row: &[Value]) -> bool {
    let mut cells = table.columns.iter().zip(row);
    let has_number = row.iter().any(|value| matches!(value, Value::Number(_)));
    has_number
        && cells.all(|(column, value)| match value {
            Value::Number(number) => number.value() == 0.0,
            Value::Change(change) => *change == 0.0,
            Value::Share(_) | Value::Is(_) | Value::None => true,
            Value::Text(_) | Value::Faint(_) | Value::Judged(..) => column.kind == Kind::Words,
        })
}

/// Returns whether a measure is zero in all cases, under A and under B.
pub(super) fn is_zero_measure(measure: &Measure) -> bool {
    let values = measure.rows.iter().flat_map(|row| [row.a, row.b]);
    !measure.rows.is_empty() && values.into_iter().all(|value| value.is_some_and(|value| value.value() == 0.0))
}

/// Joins names for a summary; names beyond [`NAMES_MAX`] are counted.
pub(super) fn join_names<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(AsRef::as_ref).collect();
    let rest = names.len() - shown.len();
    let more = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::super::Column;
    use super::*;
    use crate::number::Quantity;

    fn plot(shape: Shape, lines: &[[f64; 2]]) -> Plot {
        let lines = lines.iter().map(|values| PlotLine::new("a", vec![(0.0, values[0]), (1.0, values[1])]));
        Plot { shape, lines: lines.collect(), ..Plot::default() }
    }

    #[test]
    fn plot_is_flat_if_no_value_changes_by_more_than_2_percent() {
        assert!(is_flat(&plot(Shape::Lines, &[[100.0, 101.0], [99.5, 100.0]])));
        assert!(!is_flat(&plot(Shape::Lines, &[[100.0, 103.0]])));
        assert!(!is_flat(&plot(Shape::Lines, &[[100.0, 100.0], [50.0, 50.0]])), "the lines differ");
        assert!(is_flat(&plot(Shape::Lines, &[[0.0, 0.0]])) && is_flat(&plot(Shape::Lines, &[])));
    }

    #[test]
    fn area_is_compared_with_the_sum() {
        assert!(is_flat(&plot(Shape::Stacked, &[[1.0, 2.0], [500.0, 500.0]])));
        assert!(!is_flat(&plot(Shape::Stacked, &[[100.0, 200.0], [500.0, 500.0]])));
    }

    fn table(counts: &[u64]) -> Table {
        let columns = [vec![Column::words("event")], ["A", "B"].map(Column::numbers).to_vec()].concat();
        let rows = counts.iter().map(|&count| {
            vec![Value::text("drains"), Value::Number(Quantity::Count(count)), Value::Number(Quantity::Count(0))]
        });
        Table::new("Events", columns, rows)
    }

    #[test]
    fn rows_of_zeros_are_split_off_if_there_are_several() {
        let many = table(&[0, 1, 0, 0, 0]);
        let (shown, folded) = split_rows(&many);
        assert_eq!((shown.len(), folded.len()), (1, 4));
        let few = table(&[0, 1, 0, 0]);
        let (shown, folded) = split_rows(&few);
        assert_eq!((shown.len(), folded.len()), (4, 0));
    }

    #[test]
    fn row_with_text_in_a_column_of_numbers_is_not_zero() {
        let mut table = table(&[0; 4]);
        table.rows[0][2] = Value::text("3 ms");
        assert_eq!(split_rows(&table).1.len(), 0);
    }

    #[test]
    fn summary_counts_further_names() {
        assert_eq!(join_names(&["a", "b"]), "a; b");
        assert_eq!(join_names(&["a", "b", "c", "d", "e"]), "a; b; c; and 2 more");
    }
}
