//! One row group: its bytes in memory, and the decoders of its eleven columns.
//!
//! A group's compressed bytes (some 4 MB for a million rows) are read at once and checked against their checksum.
//! Decoding then needs no further access to the file and sees one consistent state. The module [`pages`](crate::pages)
//! checks these bytes before the Parquet crate decodes them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;

use crate::batch::Values;
use crate::error::Error;
use crate::pages::{CheckedPages, PageBytes};
use crate::schema::{COLUMN_COUNT, COLUMNS};

/// Largest accepted size of a row group in bytes, since it is held in memory.
const GROUP_BYTES_MAX: u64 = 512 << 20;

/// Location of a row group's bytes in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub start: u64,
    pub length: u64,
}

/// Returns the extent of all columns of a group in a file of `file_length` bytes, and checks that the group can be
/// read.
pub(crate) fn extent(group: &RowGroupMetaData, file_length: u64) -> Result<Extent, String> {
    let mut start = u64::MAX;
    let mut end = 0;
    for chunk in group.columns() {
        let offset = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let range = u64::try_from(offset).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let (offset, size) = range.ok_or("a column has a negative offset or size")?;
        start = start.min(offset);
        end = end.max(offset.checked_add(size).ok_or("the end of a column is out of range")?);
    }
    if end > file_length || start > end {
        return Err("a row group ends beyond the end of the file".to_owned());
    }
    let length = end - start;
    if length > GROUP_BYTES_MAX {
        return Err("a row group is larger than 512 MiB".to_owned());
    }
    Ok(Extent { start, length })
}

/// Refuses codecs and encodings that the decoders do not support. `indices` are the positions of the recording's
/// columns in the file.
pub(crate) fn check_packing(
    path: &Path,
    group: &RowGroupMetaData,
    indices: &[usize; COLUMN_COUNT],
) -> Result<(), Error> {
    for (&index, column) in indices.iter().zip(&COLUMNS) {
        let chunk = group.column(index);
        let (packing, instead) = if !matches!(chunk.compression(), Compression::UNCOMPRESSED | Compression::ZSTD(_)) {
            (format!("the codec {}", codec(chunk.compression())), "ZSTD, or without compression")
        } else if let Some(encoding) = chunk.encodings().find(|encoding| !READ.contains(encoding)) {
            (format!("the encoding {encoding}"), "DELTA_BINARY_PACKED, PLAIN or a dictionary")
        } else {
            continue;
        };
        return Err(Error::Packing { path: path.to_path_buf(), column: column.name.to_owned(), packing, instead });
    }
    Ok(())
}

/// Supported encodings of integers, and of the levels that mark missing values.
const READ: [Encoding; 7] = [
    Encoding::PLAIN,
    Encoding::PLAIN_DICTIONARY,
    Encoding::RLE_DICTIONARY,
    Encoding::DELTA_BINARY_PACKED,
    Encoding::BYTE_STREAM_SPLIT,
    Encoding::RLE,
    #[expect(deprecated, reason = "old writers name it as the encoding of levels that are not there")]
    Encoding::BIT_PACKED,
];

/// Returns a codec's name without its level.
fn codec(compression: Compression) -> String {
    compression.to_string().chars().take_while(|letter| *letter != '(').collect()
}

/// Decoders of the columns of one row group.
pub(crate) struct GroupReader {
    columns: Vec<ColumnSource>,
    left: usize,
}

impl GroupReader {
    /// Loads the group. `indices` are the positions of the recording's columns in the file's schema.
    pub(crate) fn open(
        path: &Path,
        file: &File,
        group: &RowGroupMetaData,
        extent: Extent,
        indices: &[usize; COLUMN_COUNT],
        checksum: Option<u32>,
    ) -> Result<GroupReader, Error> {
        let mut bytes = vec![0; extent.length as usize];
        file.read_exact_at(&mut bytes, extent.start).map_err(|source| Error::read(path, source))?;
        if checksum.is_some_and(|expected| crc32fast::hash(&bytes) != expected) {
            return Err(Error::corrupt(path, "the checksum of a row group does not match"));
        }
        let pages = Arc::new(PageBytes::new(extent.start, bytes));
        let rows = usize::try_from(group.num_rows()).map_err(|error| Error::corrupt(path, error))?;
        let columns = indices
            .iter()
            .zip(&COLUMNS)
            .map(|(&index, column)| ColumnSource::open(&pages, group, index, column.physical))
            .collect::<ParquetResult<_>>()
            .map_err(|error| Error::corrupt(path, error))?;
        Ok(GroupReader { columns, left: rows })
    }

    /// Decodes the next rows, at most `rows_max`, as columns of equal length; `None` at the end.
    pub(crate) fn next_columns(&mut self, rows_max: usize) -> ParquetResult<Option<[Values; COLUMN_COUNT]>> {
        let rows = self.left.min(rows_max);
        if rows == 0 {
            return Ok(None);
        }
        // The decoders index out of bounds on some malformed pages. That panic is caught here. The decoders are not
        // used after an error, so their state does not matter.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            self.columns.iter_mut().map(|column| column.read(rows)).collect::<ParquetResult<Vec<_>>>()
        }));
        let columns = decoded.unwrap_or_else(|_| Err(ParquetError::General("a page cannot be decoded".to_owned())))?;
        self.left -= rows;
        Ok(columns.try_into().ok())
    }
}

/// Decoder of one column of a row group.
enum ColumnSource {
    Narrow(ColumnReaderImpl<Int32Type>),
    Wide(ColumnReaderImpl<Int64Type>),
}

impl ColumnSource {
    fn open(
        bytes: &Arc<PageBytes>,
        group: &RowGroupMetaData,
        index: usize,
        physical: Physical,
    ) -> ParquetResult<ColumnSource> {
        let chunk = group.column(index);
        let rows = group.num_rows() as usize;
        let pages = Box::new(CheckedPages::new(Arc::clone(bytes), chunk, rows)?);
        let description = chunk.column_descr_ptr();
        Ok(match physical {
            Physical::INT32 => ColumnSource::Narrow(ColumnReaderImpl::new(description, pages)),
            _ => ColumnSource::Wide(ColumnReaderImpl::new(description, pages)),
        })
    }

    fn read(&mut self, rows: usize) -> ParquetResult<Values> {
        Ok(match self {
            ColumnSource::Narrow(reader) => Values::Narrow(read_values(reader, rows)?),
            ColumnSource::Wide(reader) => Values::Wide(read_values(reader, rows)?),
        })
    }
}

/// Reads exactly `rows` values, none of them null.
fn read_values<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> ParquetResult<Vec<T::T>> {
    let mut values = Vec::with_capacity(rows);
    // Definition levels exist only if another writer declared the column as optional.
    let mut levels = Vec::new();
    let (records, present, _) = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
    if records != rows {
        return Err(ParquetError::EOF("a column has fewer values than its row group has rows".to_owned()));
    }
    if present != rows {
        return Err(ParquetError::General("a column contains nulls".to_owned()));
    }
    Ok(values)
}
