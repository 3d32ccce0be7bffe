//! Recordings from a careless writer: without checks, checksums and compression, and with unusual encodings.

use std::sync::Arc;

use freehold_trace::facts::METADATA_KEY;
use freehold_trace::{Facts, Row};
use parquet::basic::Encoding;
use parquet::data_type::{Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// Columns in another order than the writer's, one of them optional.
const SCHEMA: &str = "message plain { required int64 time; required int32 cpu; required int32 task;
    required int32 kind; required int64 pfn; required int32 order; required int32 gfp; required int32 migratetype;
    required int64 arg0; optional int64 arg1; required int64 arg2; }";
const OPTIONAL: usize = 9;

/// A row as it is stored in the file, valid or not: a value for each column, in the order above.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) values: [i64; 11],
    /// 1 if `arg1` has a value, 0 if it is null.
    pub(crate) arg1_level: i16,
}

impl Raw {
    /// Converts a row without changes.
    pub(crate) fn from_row(row: &Row) -> Raw {
        let [arg0, arg1, arg2] = row.args;
        let (cpu, task, kind) = (row.cpu.into(), row.task.into(), row.kind as i64);
        let (order, gfp, migratetype) = (row.order.into(), row.gfp.into(), row.migratetype.into());
        let values = [row.time as i64, cpu, task, kind, row.pfn as i64, order, gfp, migratetype, arg0, arg1, arg2];
        Raw { values, arg1_level: 1 }
    }

    /// Returns the row with another value in one column.
    pub(crate) fn with(mut self, column: usize, value: i64) -> Raw {
        self.values[column] = value;
        self
    }
}

/// Returns the file's bytes: two row groups of several pages each.
pub(crate) fn plain_file(rows: &[Raw], facts: &Facts) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(50)
        .set_column_dictionary_enabled("time".into(), false)
        .set_column_encoding("time".into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled("pfn".into(), false)
        .set_column_encoding("pfn".into(), Encoding::BYTE_STREAM_SPLIT)
        .set_column_dictionary_enabled("gfp".into(), false);
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).unwrap();
    for part in rows.chunks(rows.len().div_ceil(2)) {
        let mut group = writer.next_row_group().unwrap();
        for index in 0..11 {
            write_column(group.next_column().unwrap().unwrap(), part, index);
        }
        group.close().unwrap();
    }
    let json = serde_json::to_string(facts).unwrap();
    writer.append_key_value_metadata(KeyValue::new(METADATA_KEY.to_owned(), json));
    writer.into_inner().unwrap()
}

fn write_column(mut column: SerializedColumnWriter<'_>, rows: &[Raw], index: usize) {
    let levels: Vec<i16> = rows.iter().map(|row| row.arg1_level).collect();
    let levels = (index == OPTIONAL).then_some(&levels[..]);
    let present = rows.iter().filter(|row| index != OPTIONAL || row.arg1_level == 1);
    let values = present.map(|row| row.values[index]);
    if matches!(index, 0 | 4 | 8..=10) {
        column.typed::<Int64Type>().write_batch(&values.collect::<Vec<_>>(), levels, None).unwrap();
    } else {
        let values: Vec<i32> = values.map(|value| value as i32).collect();
        column.typed::<Int32Type>().write_batch(&values, levels, None).unwrap();
    }
    column.close().unwrap();
}
