//! Encoding of parts: one row group with compressed columns. The bytes do not depend on the time or the place of the
//! writing.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{Header, KEY, Row, SCHEMA, seal};

/// Writer that the file names, without a version, which is in the header.
const WRITER: &str = "freehold";

/// Returns the bytes of a part.
pub fn write(header: &Header, rows: &[Row]) -> Vec<u8> {
    let mut file = encode(header, rows).expect("writing to memory does not fail");
    seal::put(&mut file);
    file
}

fn encode(header: &Header, rows: &[Row]) -> Result<Vec<u8>> {
    let header_text = serde_json::to_string(header).expect("a header serializes to JSON");
    let properties = WriterProperties::builder()
        .set_created_by(WRITER.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_owned(), header_text), seal::blank()]));
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    let next = &mut group;
    required::<ByteArrayType>(next, rows.iter().map(|_| Some(ByteArray::from(header.task.as_str()))).collect())?;
    required::<ByteArrayType>(next, texts(rows, |row| &row.section))?;
    required::<Int32Type>(next, rows.iter().map(|row| Some(row.at.cast_signed())).collect())?;
    required::<ByteArrayType>(next, texts(rows, |row| &row.measure))?;
    required::<ByteArrayType>(next, texts(rows, |row| &row.unit))?;
    optional::<Int64Type>(next, rows.iter().map(|row| row.count.map(u64::cast_signed)).collect())?;
    optional::<DoubleType>(next, rows.iter().map(|row| row.value).collect())?;
    optional::<ByteArrayType>(next, rows.iter().map(|row| row.text.as_deref().map(ByteArray::from)).collect())?;
    group.close()?;
    file.into_inner()
}

/// Returns the values of a text column.
fn texts(rows: &[Row], text: fn(&Row) -> &str) -> Vec<Option<ByteArray>> {
    rows.iter().map(|row| Some(ByteArray::from(text(row)))).collect()
}

/// Writes a column that has a value in each row.
fn required<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: Vec<Option<T::T>>) -> Result<()> {
    column::<T>(group, values, None)
}

/// Writes a column that has a value in some rows.
fn optional<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: Vec<Option<T::T>>) -> Result<()> {
    let is_there = values.iter().map(|value| i16::from(value.is_some())).collect();
    column::<T>(group, values, Some(is_there))
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: Vec<Option<T::T>>,
    is_there: Option<Vec<i16>>,
) -> Result<()> {
    let present: Vec<T::T> = values.into_iter().flatten().collect();
    let mut column = group.next_column()?.expect("the schema has a column for each field");
    column.typed::<T>().write_batch(&present, is_there.as_deref(), None)?;
    column.close()
}
