//! What stands between a file's pages and the Parquet crate.
//!
//! That crate decodes well-formed pages fast and takes some promises of malformed ones at their word: it
//! reserves the memory a header asks for, and expects a dictionary before the pages that use it. [`PageBytes`] and
//! [`CheckedPages`] see each header and each page first and refuse what would end in an abort or a panic.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};

use crate::thrift::{Cursor, Malformed, kind};

/// Bytes of a page, packed or not, that are accepted. Real pages have a megabyte.
const PAGE_BYTES_MAX: i64 = 64 << 20;

/// The bytes of a row group, which lets no page through whose header claims absurd sizes.
pub(crate) struct PageBytes {
    start: u64,
    bytes: Bytes,
}

impl PageBytes {
    /// The bytes that stand in the file from `start` on.
    pub fn new(start: u64, bytes: Vec<u8>) -> PageBytes {
        PageBytes { start, bytes: bytes.into() }
    }

    fn offset(&self, position: u64) -> ParquetResult<usize> {
        let offset = position.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        offset.filter(|&offset| offset <= self.bytes.len()).ok_or_else(|| outside(position))
    }
}

fn outside(position: u64) -> ParquetError {
    ParquetError::EOF(format!("a page at byte {position} lies outside its row group"))
}

impl Length for PageBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for PageBytes {
    type T = bytes::buf::Reader<Bytes>;

    /// Called once for each page, with the place of its header.
    fn get_read(&self, position: u64) -> ParquetResult<Self::T> {
        let rest = self.bytes.slice(self.offset(position)?..);
        match check_page_header(&rest) {
            Ok(()) => Ok(rest.reader()),
            Err(Malformed) => Err(ParquetError::General("a page header is impossible".to_owned())),
        }
    }

    fn get_bytes(&self, position: u64, length: usize) -> ParquetResult<Bytes> {
        let start = self.offset(position)?;
        let end = start.checked_add(length).filter(|&end| end <= self.bytes.len());
        Ok(self.bytes.slice(start..end.ok_or_else(|| outside(position))?))
    }
}

/// Refuses a page header that claims more bytes or values than a page may have.
fn check_page_header(bytes: &[u8]) -> Result<(), Malformed> {
    const UNPACKED_SIZE: i16 = 2;
    const PACKED_SIZE: i16 = 3;
    Cursor::new(bytes).fields(|field, cursor| {
        match (field.id, field.kind) {
            (UNPACKED_SIZE | PACKED_SIZE, kind::I32) => within_page(cursor.integer()?)?,
            // The headers of data pages, of dictionary pages, and of data pages of version 2.
            (5 | 7 | 8, kind::STRUCT) => check_value_counts(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// The first field of each kind of page is its number of values; the others are small or skipped.
fn check_value_counts(cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    cursor.fields(|field, cursor| {
        if (field.id, field.kind) != (1, kind::I32) {
            return Ok(false);
        }
        within_page(cursor.integer()?)?;
        Ok(true)
    })
}

fn within_page(size: i64) -> Result<(), Malformed> {
    if (0..=PAGE_BYTES_MAX).contains(&size) { Ok(()) } else { Err(Malformed) }
}

/// The pages of one column chunk, in order, each of a form that the decoders can take.
pub(crate) struct CheckedPages {
    pages: SerializedPageReader<PageBytes>,
    has_dictionary: bool,
}

impl CheckedPages {
    pub fn new(bytes: Arc<PageBytes>, chunk: &ColumnChunkMetaData, rows: usize) -> ParquetResult<CheckedPages> {
        let pages = SerializedPageReader::new(bytes, chunk, rows, None)?;
        Ok(CheckedPages { pages, has_dictionary: false })
    }

    fn check(&mut self, page: &Page) -> Result<(), &'static str> {
        if let Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } = page {
            let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            if levels > buf.len() as u64 {
                return Err("a page is shorter than its levels");
            }
        }
        let needs_dictionary = matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        match page {
            Page::DictionaryPage { .. } if self.has_dictionary => return Err("a column has two dictionaries"),
            Page::DictionaryPage { .. } => self.has_dictionary = true,
            _ if needs_dictionary && !self.has_dictionary => return Err("a page needs a dictionary that is missing"),
            _ => {}
        }
        Ok(())
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page).map_err(|reason| ParquetError::General(reason.to_owned()))?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
