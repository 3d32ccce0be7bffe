//! A writer of recordings without checks, for files that the real writer refuses to write.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use freehold_trace::facts::METADATA_KEY;
use freehold_trace::{Facts, Row};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Columns of `FORMAT.md`.
const SCHEMA: &str = "message recording {
    required int64 time; required int32 cpu; required int32 task; required int32 kind; required int64 pfn;
    required int32 order; required int32 gfp; required int32 migratetype;
    required int64 arg0; required int64 arg1; required int64 arg2;
}";

/// Values of one column.
enum Values {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
}

impl Values {
    fn narrow(rows: &[Row], value: fn(&Row) -> i32) -> Values {
        Values::Narrow(rows.iter().map(value).collect())
    }

    fn wide(rows: &[Row], value: fn(&Row) -> i64) -> Values {
        Values::Wide(rows.iter().map(value).collect())
    }
}

/// Writes these rows in this order with these facts, even if they are inconsistent.
pub(crate) fn write_unchecked(path: &Path, rows: &[Row], facts: &Facts) {
    let mut facts = Facts { format: 1, ..facts.clone() };
    for row in rows {
        *facts.rows.entry(row.kind as u8).or_default() += 1;
    }
    let pair = KeyValue::new(METADATA_KEY.to_owned(), serde_json::to_string(&facts).expect("facts are plain data"));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![pair])).build();
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema is a constant"));
    let file = File::create(path).expect("the folder can be written");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).expect("a Parquet file can be made");
    let mut group = writer.next_row_group().expect("a row group can be made");
    for values in columns(rows) {
        let mut column = group.next_column().expect("a column can be made").expect("the schema has as many columns");
        match values {
            Values::Narrow(values) => column.typed::<Int32Type>().write_batch(&values, None, None),
            Values::Wide(values) => column.typed::<Int64Type>().write_batch(&values, None, None),
        }
        .expect("the values can be written");
        column.close().expect("the column can be closed");
    }
    group.close().expect("the row group can be closed");
    writer.close().expect("the file can be closed");
}

fn columns(rows: &[Row]) -> Vec<Values> {
    vec![
        Values::wide(rows, |row| row.time as i64),
        Values::narrow(rows, |row| row.cpu.into()),
        Values::narrow(rows, |row| row.task as i32),
        Values::narrow(rows, |row| row.kind as i32),
        Values::wide(rows, |row| row.pfn as i64),
        Values::narrow(rows, |row| row.order.into()),
        Values::narrow(rows, |row| row.gfp as i32),
        Values::narrow(rows, |row| row.migratetype.into()),
        Values::wide(rows, |row| row.args[0]),
        Values::wide(rows, |row| row.args[1]),
        Values::wide(rows, |row| row.args[2]),
    ]
}
