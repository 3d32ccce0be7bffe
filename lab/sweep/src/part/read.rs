//! Decoding of parts. The input is not trusted: a part may be truncated, damaged, or another kind of file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record};

use super::{Header, KEY, Row, seal};

/// Returns the header of a part, if the part is bit for bit as it was written. Cost: a digest of the file.
///
/// # Errors
/// If the bytes are not a valid part. The message follows the name of the file.
pub fn header(bytes: Bytes) -> Result<Header, String> {
    catch_panics(|| open(bytes).map(|(_, header)| header))
}

/// Returns the header of a part, and its rows in the order in which they were written.
///
/// # Errors
/// If the bytes are not a valid part. The message follows the name of the file.
pub fn read(bytes: Bytes) -> Result<(Header, Vec<Row>), String> {
    catch_panics(|| {
        let (file, header) = open(bytes)?;
        let records = file.get_row_iter(None).map_err(damage_message)?;
        let rows: ParquetResult<Vec<Row>> = records.map(|record| row(&record?)).collect();
        Ok((header, rows.map_err(damage_message)?))
    })
}

/// Converts a panic into an error, because the Parquet crate may panic on a damaged file.
fn catch_panics<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("is damaged".to_owned()))
}

fn damage_message(error: ParquetError) -> String {
    format!("is damaged ({error})")
}

fn open(bytes: Bytes) -> Result<(SerializedFileReader<Bytes>, Header), String> {
    let file = SerializedFileReader::new(bytes.clone()).map_err(damage_message)?;
    let header = read_header(&file)?;
    match seal::holds(&bytes) {
        true => Ok((file, header)),
        false => Err("is damaged (its bytes have another checksum)".to_owned()),
    }
}

fn read_header(file: &SerializedFileReader<Bytes>) -> Result<Header, String> {
    let metadata = file.metadata().file_metadata().key_value_metadata();
    let pair = metadata.into_iter().flatten().find(|pair| pair.key == KEY);
    let text = pair.and_then(|pair| pair.value.as_deref()).ok_or("is not a part of a sweep")?;
    serde_json::from_str(text).map_err(|error| format!("is damaged ({error})"))
}

fn row(record: &Record) -> ParquetResult<Row> {
    let fields: Vec<&Field> = record.get_column_iter().map(|(_, field)| field).collect();
    match fields.as_slice() {
        [
            Field::Str(_),
            Field::Str(section),
            Field::UInt(at),
            Field::Str(measure),
            Field::Str(unit),
            count @ (Field::ULong(_) | Field::Null),
            value @ (Field::Double(_) | Field::Null),
            text @ (Field::Str(_) | Field::Null),
        ] => Ok(Row {
            section: section.clone(),
            at: *at,
            measure: measure.clone(),
            unit: unit.clone(),
            count: if let Field::ULong(count) = count { Some(*count) } else { None },
            value: if let Field::Double(value) = value { Some(*value) } else { None },
            text: if let Field::Str(text) = text { Some(text.clone()) } else { None },
        }),
        _ => Err(ParquetError::General("it has other columns".to_owned())),
    }
}
