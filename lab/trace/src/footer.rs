//! Footer of a recording's file: the location of all parts, and the check that the file is a recording.
//!
//! The file is read from the back: the magic, the footer's length, the footer. The schema is parsed from the footer by
//! a parser in this module. It must be flat and contain the columns of `FORMAT.md`. The Parquet crate then decodes the
//! rest against that schema.
//!
//! The own parser is necessary, since parquet 60.1 must not read a schema from another writer. It reserves memory for
//! as many children as a group claims (nine bytes claim 32 GB), and recurses once per level without bound. A failed
//! allocation and a stack overflow cannot be caught. A check of the schema beforehand would not suffice. The crate
//! reads a field by its number regardless of the type in the file, so it can be led to read other fields than the check
//! did. The crate itself bounds all other lists of a footer, by the remaining bytes and to a depth of 64.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};

use crate::error::Error;
use crate::schema::{COLUMN_COUNT, COLUMNS};
use crate::thrift::{Cursor, ThriftError, kind};

const MAGIC: &[u8; 4] = b"PAR1";

/// Largest size of a footer in bytes. The footer contains the facts, which take some megabytes for an hour.
const FOOTER_MAX: u64 = 1 << 30;

/// Largest number of elements in a schema: its root and all columns.
const FIELDS_MAX: usize = 1000;

/// The parts of a Parquet file's footer that the reader needs.
pub(crate) struct Footer {
    pub metadata: ParquetMetaData,
    /// Index of each column of a recording in the file's schema.
    pub columns: [usize; COLUMN_COUNT],
}

/// Reads and decodes the footer of the file at `path`, which is open as `file` and `length` bytes long.
pub(crate) fn read(path: &Path, file: &File, length: u64) -> Result<Footer, Error> {
    let bytes = read_bytes(path, file, length)?;
    let fields = parse_schema(&bytes).map_err(|ThriftError| Error::corrupt(path, "its schema cannot be parsed"))?;
    let columns = find_columns(&fields).map_err(|reason| Error::not_recording(path, reason))?;
    let metadata = decode(&bytes, &fields).map_err(|error| Error::corrupt(path, error))?;
    Ok(Footer { metadata, columns })
}

fn read_bytes(path: &Path, file: &File, length: u64) -> Result<Vec<u8>, Error> {
    let mut head = [0; 4];
    if length < 4 || file.read_exact_at(&mut head, 0).is_ok() && head != *MAGIC {
        return Err(Error::NotParquet { path: path.to_path_buf() });
    }
    let Some(tail_at) = length.checked_sub(8).filter(|&at| at >= 4) else {
        return Err(Error::Truncated { path: path.to_path_buf() });
    };
    let mut tail = [0; 8];
    file.read_exact_at(&mut tail, tail_at).map_err(|source| Error::read(path, source))?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic != *MAGIC {
        return Err(Error::Truncated { path: path.to_path_buf() });
    }
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(start) = tail_at.checked_sub(size).filter(|&start| start >= 4 && size <= FOOTER_MAX) else {
        return Err(Error::corrupt(path, "the length of its footer is invalid"));
    };
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, start).map_err(|source| Error::read(path, source))?;
    Ok(bytes)
}

/// A column in the file's schema.
struct SchemaField<'a> {
    name: &'a str,
    physical: Option<Physical>,
    repetition: Repetition,
    children: i64,
}

/// Parses the columns of a schema, which must be flat.
fn parse_schema(footer: &[u8]) -> Result<Vec<SchemaField<'_>>, ThriftError> {
    let mut fields = Vec::new();
    Cursor::new(footer).fields(|field, cursor| {
        if (field.id, field.kind) != (2, kind::LIST) {
            return Ok(false);
        }
        let (count, element) = cursor.list()?;
        if element != kind::STRUCT || count > FIELDS_MAX || !fields.is_empty() {
            return Err(ThriftError);
        }
        for _ in 0..count {
            fields.push(parse_field(cursor)?);
        }
        Ok(true)
    })?;
    let root = if fields.is_empty() {
        return Err(ThriftError);
    } else {
        fields.remove(0)
    };
    let flat = fields.iter().all(|field| field.children == 0);
    if flat && root.children == fields.len() as i64 { Ok(fields) } else { Err(ThriftError) }
}

fn parse_field<'a>(cursor: &mut Cursor<'a>) -> Result<SchemaField<'a>, ThriftError> {
    let mut parsed = SchemaField { name: "", physical: None, repetition: Repetition::REQUIRED, children: 0 };
    cursor.fields(|field, cursor| {
        match (field.id, field.kind) {
            (1, kind::I32) => parsed.physical = Some(physical_type(cursor.integer()?)?),
            (3, kind::I32) => parsed.repetition = repetition(cursor.integer()?)?,
            (4, kind::BINARY) => parsed.name = str::from_utf8(cursor.binary()?).map_err(|_| ThriftError)?,
            (5, kind::I32) => parsed.children = cursor.integer()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(parsed)
}

fn physical_type(code: i64) -> Result<Physical, ThriftError> {
    Ok(match code {
        0 => Physical::BOOLEAN,
        1 => Physical::INT32,
        2 => Physical::INT64,
        3 => Physical::INT96,
        4 => Physical::FLOAT,
        5 => Physical::DOUBLE,
        6 => Physical::BYTE_ARRAY,
        7 => Physical::FIXED_LEN_BYTE_ARRAY,
        _ => return Err(ThriftError),
    })
}

fn repetition(code: i64) -> Result<Repetition, ThriftError> {
    Ok(match code {
        0 => Repetition::REQUIRED,
        1 => Repetition::OPTIONAL,
        2 => Repetition::REPEATED,
        _ => return Err(ThriftError),
    })
}

/// Finds the columns of a recording in the file's schema. Their order does not matter, and other columns are ignored.
fn find_columns(fields: &[SchemaField<'_>]) -> Result<[usize; COLUMN_COUNT], String> {
    let mut indices = [0; COLUMN_COUNT];
    for (index, column) in indices.iter_mut().zip(&COLUMNS) {
        let name = column.name;
        let place = fields.iter().position(|field| field.name == name);
        *index = place.ok_or_else(|| format!("there is no column `{name}`"))?;
        let SchemaField { physical, repetition, .. } = fields[*index];
        if physical != Some(column.physical) || repetition == Repetition::REPEATED {
            return Err(format!("the column `{name}` is not a plain {}", column.physical));
        }
    }
    Ok(indices)
}

fn decode(footer: &[u8], fields: &[SchemaField<'_>]) -> parquet::errors::Result<ParquetMetaData> {
    let mut options = ParquetMetaDataOptions::new();
    options.set_schema(descriptor(fields)?);
    ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options))
}

fn descriptor(fields: &[SchemaField<'_>]) -> parquet::errors::Result<SchemaDescPtr> {
    let mut types = Vec::with_capacity(fields.len());
    for field in fields {
        let physical = field.physical.unwrap_or(Physical::BYTE_ARRAY);
        let builder = Type::primitive_type_builder(field.name, physical).with_length(1);
        types.push(Arc::new(builder.with_repetition(field.repetition).build()?));
    }
    let message = Type::group_type_builder("recording").with_fields(types).build()?;
    Ok(Arc::new(SchemaDescriptor::new(Arc::new(message))))
}
