//! Reports as Arrow: their tables, and all measures as one table.
//!
//! Each column is built once, and all readers get the same buffers. A column of counts becomes integers, a column of
//! other numbers floats, and a column of yes and no booleans. All other columns become texts. The texts are those of
//! the report without escaping, because a table is not printed to a terminal.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, Field, Schema};
use freehold_report::number::Quantity;
use freehold_report::report::{Measure, Pooled, Report, Row, Table, Value};
use freehold_stats::verdict::Verdict;

/// Metadata key of a column for the unit of its numbers.
const UNIT: &str = "unit";

/// Converts a table of a report.
///
/// # Errors
/// If a row and the columns differ in length, which does not happen in a report.
pub fn table_batch(table: &Table) -> Result<RecordBatch, ArrowError> {
    let mut names = Names::default();
    let columns = table.columns.iter().enumerate().map(|(index, column)| {
        let values: Vec<&Value> = table.rows.iter().map(|row| row.get(index).unwrap_or(&Value::None)).collect();
        let unit = HashMap::from([(UNIT.to_owned(), column.unit.to_owned())]);
        let array = array(&values);
        let field = Field::new(names.take(&column.name, index), array.data_type().clone(), true);
        (if column.unit.is_empty() { field } else { field.with_metadata(unit) }, array)
    });
    batch(columns.collect())
}

/// Converts all measures: a record for each measure in each case, and one over all cases.
///
/// # Errors
/// As for [`table_batch`].
pub fn measures_batch(reports: &[Report]) -> Result<RecordBatch, ArrowError> {
    let records: Vec<Record<'_>> = reports.iter().flat_map(records).collect();
    let cases: ArrayRef = Arc::new(records.iter().map(Record::cases).collect::<Int64Array>());
    let columns = [
        ("policy_a", texts(&records, |record| Some(record.sides[0].clone()))),
        ("policy_b", texts(&records, |record| Some(record.sides[1].clone()))),
        ("group", texts(&records, |record| Some(record.group.to_owned()))),
        ("measure", texts(&records, |record| Some(record.measure.name.to_owned()))),
        ("unit", texts(&records, |record| Some(record.measure.unit.to_owned()))),
        ("of", texts(&records, |record| Some(record.row()?.case.clone()))),
        ("cases", cases),
        ("a", numbers(&records, |record| record.row()?.a.map(Quantity::value))),
        ("b", numbers(&records, |record| record.row()?.b.map(Quantity::value))),
        ("change", numbers(&records, Record::change)),
        ("low", numbers(&records, |record| record.interval().map(|(low, _)| low))),
        ("high", numbers(&records, |record| record.interval().map(|(_, high)| high))),
        ("verdict", texts(&records, |record| Some(record.verdict().word().to_owned()))),
        ("replay_error", numbers(&records, |record| record.row()?.replay_error)),
    ];
    batch(columns.map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).into())
}

fn texts<'r>(records: &[Record<'r>], text: impl Fn(&Record<'r>) -> Option<String>) -> ArrayRef {
    Arc::new(records.iter().map(text).collect::<StringArray>())
}

fn numbers<'r>(records: &[Record<'r>], number: impl Fn(&Record<'r>) -> Option<f64>) -> ArrayRef {
    Arc::new(records.iter().map(number).collect::<Float64Array>())
}

/// A row of the table of measures, with the report's sides and the group.
struct Record<'r> {
    sides: &'r [String; 2],
    group: &'static str,
    measure: &'r Measure,
    values: Values<'r>,
}

/// A measure in one case, or over all cases.
enum Values<'r> {
    Case(&'r Row),
    Pooled(Pooled),
}

impl<'r> Record<'r> {
    fn row(&self) -> Option<&'r Row> {
        if let Values::Case(row) = self.values { Some(row) } else { None }
    }

    fn cases(&self) -> Option<i64> {
        if let Values::Pooled(pooled) = self.values { i64::try_from(pooled.cases).ok() } else { None }
    }

    fn change(&self) -> Option<f64> {
        match self.values {
            Values::Case(row) => row.change,
            Values::Pooled(pooled) => pooled.change,
        }
    }

    fn interval(&self) -> Option<(f64, f64)> {
        match self.values {
            Values::Case(row) => row.interval,
            Values::Pooled(pooled) => pooled.interval,
        }
    }

    fn verdict(&self) -> Verdict {
        match self.values {
            Values::Case(row) => row.verdict,
            Values::Pooled(pooled) => pooled.verdict,
        }
    }
}

fn records(report: &Report) -> impl Iterator<Item = Record<'_>> {
    let measures = report.groups.iter().flat_map(|group| group.measures.iter().map(|measure| (group.name, measure)));
    measures.flat_map(move |(group, measure)| {
        let values = measure.rows.iter().map(Values::Case).chain(measure.pooled.map(Values::Pooled));
        values.map(move |values| Record { sides: &report.sides, group, measure, values })
    })
}

fn batch(columns: Vec<(Field, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Unique column names. Readers of Arrow refuse duplicate names.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn take(&mut self, name: &str, index: usize) -> String {
        let is_new = !name.is_empty() && !self.0.iter().any(|other| other == name);
        let name = if is_new { name.to_owned() } else { format!("{name} {}", index + 1).trim().to_owned() };
        self.0.push(name.clone());
        name
    }
}

/// Returns the narrowest array that can hold all of these values.
fn array(values: &[&Value]) -> ArrayRef {
    let present: Vec<&Value> = values.iter().copied().filter(|value| !matches!(value, Value::None)).collect();
    if present.is_empty() {
        Arc::new(values.iter().map(|value| text(value)).collect::<StringArray>())
    } else if present.iter().all(|value| whole(value).is_some()) {
        Arc::new(values.iter().map(|value| whole(value)).collect::<Int64Array>())
    } else if present.iter().all(|value| number(value).is_some()) {
        Arc::new(values.iter().map(|value| number(value)).collect::<Float64Array>())
    } else if present.iter().all(|value| truth(value).is_some()) {
        Arc::new(values.iter().map(|value| truth(value)).collect::<BooleanArray>())
    } else {
        Arc::new(values.iter().map(|value| text(value)).collect::<StringArray>())
    }
}

fn text(value: &Value) -> Option<String> {
    (!matches!(value, Value::None)).then(|| value.bare())
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Is(is) => Some(*is),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(Quantity::Count(count)) => i64::try_from(*count).ok(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number.value()),
        Value::Change(number) | Value::Share(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_schema::DataType;
    use freehold_report::report::{Column, Group};
    use freehold_stats::verdict::Direction;

    use super::*;

    fn row_of_every_type(name: &str, count: Option<u64>, share: Value) -> Vec<Value> {
        vec![Value::text(name), Value::count(count), share, Value::Is(true), Value::None]
    }

    fn column<'b>(batch: &'b RecordBatch, name: &str) -> &'b ArrayRef {
        batch.column_by_name(name).unwrap()
    }

    #[test]
    fn columns_have_the_type_of_their_values() {
        let columns = vec![
            Column::words("name"),
            Column::counting("pages", "pages"),
            Column::numbers("share"),
            Column::numbers("share"),
            Column::words(""),
        ];
        let hostile = "<script>\u{1b}[2J\0";
        let rows = [
            row_of_every_type(hostile, Some(u64::from(u32::MAX)), Value::Share(0.5)),
            row_of_every_type("b", None, Value::Number(Quantity::Count(2))),
        ];
        let batch = table_batch(&Table::new("t", columns, rows)).unwrap();
        let schema = batch.schema();
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        assert_eq!(types, [&DataType::Utf8, &DataType::Int64, &DataType::Float64, &DataType::Boolean, &DataType::Utf8]);
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, ["name", "pages", "share", "share 4", "5"]);
        assert_eq!(schema.field(1).metadata()[UNIT], "pages");
        assert_eq!(batch.column(0).as_string::<i32>().value(0), hostile, "a table is no terminal");
        assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 0xffff_ffff);
        assert!(batch.column(1).is_null(1) && batch.column(4).is_null(0));
        assert_eq!(batch.column(2).as_primitive::<Float64Type>().values(), &[0.5, 2.0]);
    }

    #[test]
    fn measures_are_one_table() {
        let row = Row {
            case: "x".to_owned(),
            a: Some(Quantity::Count(4)),
            b: Some(Quantity::Ratio(1.0)),
            change: Some(-0.75),
            ..Row::default()
        };
        let pooled = Pooled { cases: 2, change: Some(0.1), interval: Some((0.0, 0.2)), verdict: Verdict::Worse };
        let measure = Measure {
            name: "m",
            title: "m",
            unit: "pages",
            direction: Direction::Lower,
            rows: vec![row],
            pooled: Some(pooled),
        };
        let groups = vec![Group { name: "g", measures: vec![measure] }];
        let report = Report { sides: ["a".to_owned(), "b".to_owned()], groups, ..Report::default() };
        let batch = measures_batch(&[report]).unwrap();
        assert_eq!(batch.num_rows(), 2);
        assert!(column(&batch, "of").is_null(1) && column(&batch, "a").is_null(1) && column(&batch, "low").is_null(0));
        assert_eq!(column(&batch, "change").as_primitive::<Float64Type>().values(), &[-0.75, 0.1]);
        assert_eq!(column(&batch, "verdict").as_string::<i32>().value(1), "worse");
        assert_eq!(measures_batch(&[]).unwrap().num_rows(), 0);
    }
}
