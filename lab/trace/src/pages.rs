//! Checks of a file's pages that the Parquet crate does not make.
//!
//! parquet 60.1 compares packed sizes with the remaining bytes, checks a page's CRC if it has one, and refuses a second
//! dictionary. It trusts three other claims. It reserves the unpacked size in a header, up to 2 GiB. It makes room for
//! the number of values in a dictionary, up to 16 GiB. It expects that a dictionary, and the levels of a page of
//! version 2, exist. [`PageBytes`] and [`CheckedPages`] refuse pages that would cause an abort or a panic.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};

use crate::thrift::{Cursor, ThriftError, kind};

/// Largest accepted size of an unpacked page in bytes. Real pages have a megabyte.
const PAGE_BYTES_MAX: i64 = 64 << 20;

/// The bytes of a row group. Pages whose header claims too large a size are refused.
pub(crate) struct PageBytes {
    start: u64,
    bytes: Bytes,
}

impl PageBytes {
    /// Wraps the bytes that are in the file from `start` on.
    pub(crate) fn new(start: u64, bytes: Vec<u8>) -> PageBytes {
        PageBytes { start, bytes: bytes.into() }
    }

    fn offset(&self, position: u64) -> ParquetResult<usize> {
        let offset = position.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        offset.filter(|&offset| offset <= self.bytes.len()).ok_or_else(|| outside(position))
    }
}

fn outside(position: u64) -> ParquetError {
    ParquetError::EOF(format!("a page at byte {position} is outside its row group"))
}

impl Length for PageBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for PageBytes {
    type T = bytes::buf::Reader<Bytes>;

    /// Called once for each page, with the position of its header.
    fn get_read(&self, position: u64) -> ParquetResult<Self::T> {
        let rest = self.bytes.slice(self.offset(position)?..);
        match check_page_header(&rest) {
            Ok(()) => Ok(rest.reader()),
            Err(ThriftError) => Err(ParquetError::General("a page header is invalid".to_owned())),
        }
    }

    fn get_bytes(&self, position: u64, length: usize) -> ParquetResult<Bytes> {
        let start = self.offset(position)?;
        let end = start.checked_add(length).filter(|&end| end <= self.bytes.len());
        Ok(self.bytes.slice(start..end.ok_or_else(|| outside(position))?))
    }
}

/// Refuses a page header that claims an unpacked page above [`PAGE_BYTES_MAX`].
fn check_page_header(bytes: &[u8]) -> Result<(), ThriftError> {
    const UNPACKED_SIZE: i16 = 2;
    Cursor::new(bytes).fields(|field, cursor| {
        if field.id != UNPACKED_SIZE {
            return Ok(false);
        }
        let is_sane = field.kind == kind::I32 && (0..=PAGE_BYTES_MAX).contains(&cursor.integer()?);
        if is_sane { Ok(true) } else { Err(ThriftError) }
    })
}

/// The pages of one column chunk, in order. Each has a form that the decoders can handle.
pub(crate) struct CheckedPages {
    pages: SerializedPageReader<PageBytes>,
    has_dictionary: bool,
}

impl CheckedPages {
    pub(crate) fn new(bytes: Arc<PageBytes>, chunk: &ColumnChunkMetaData, rows: usize) -> ParquetResult<CheckedPages> {
        let pages = SerializedPageReader::new(bytes, chunk, rows, None)?;
        Ok(CheckedPages { pages, has_dictionary: false })
    }
}

/// Refuses a page that the decoders cannot handle. `has_dictionary` is set if a dictionary came before the page.
fn check_page(page: &Page, has_dictionary: bool) -> Result<(), &'static str> {
    match page {
        // A value takes at least one byte.
        Page::DictionaryPage { buf, num_values, .. } if u64::from(*num_values) > buf.len() as u64 => {
            return Err("a dictionary has fewer bytes than values");
        }
        Page::DictionaryPage { .. } => return Ok(()),
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            if levels > buf.len() as u64 {
                return Err("a page is shorter than its levels");
            }
        }
        Page::DataPage { .. } => {}
    }
    let needs_dictionary = matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    if needs_dictionary && !has_dictionary { Err("a page needs a dictionary that is missing") } else { Ok(()) }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            check_page(page, self.has_dictionary).map_err(|reason| ParquetError::General(reason.to_owned()))?;
            self.has_dictionary |= matches!(page, Page::DictionaryPage { .. });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_page_header_is_an_error() {
        // Field 1: i32 0; field 2: the unpacked size.
        let header = [0x15, 0, 0x15, 0x80, 0x10, 0];
        assert_eq!(check_page_header(&header), Ok(()));
        assert_eq!(check_page_header(&[0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0]), Err(ThriftError), "2 GiB");
        assert_eq!(check_page_header(&[0x15, 0, 0x15, 1, 0]), Err(ThriftError), "-1");
        assert_eq!(check_page_header(&[0x15, 0, 0x16, 0x80, 0x10, 0]), Err(ThriftError), "of 64 bits");
        assert_eq!(check_page_header(&header[..5]), Err(ThriftError), "it breaks off");
    }

    fn dictionary(num_values: u32) -> Page {
        Page::DictionaryPage {
            buf: Bytes::from_static(&[0; 8]),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }
    }

    fn data(encoding: Encoding, def_levels_byte_len: u32) -> Page {
        Page::DataPageV2 {
            buf: Bytes::from_static(&[0; 8]),
            num_values: 1,
            encoding,
            num_nulls: 0,
            num_rows: 1,
            def_levels_byte_len,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        }
    }

    #[test]
    fn page_contents_must_match_the_header() {
        assert!(check_page(&dictionary(2), false).is_ok());
        assert!(check_page(&dictionary(u32::MAX), false).unwrap_err().contains("fewer bytes than values"));
        assert!(check_page(&data(Encoding::RLE_DICTIONARY, 8), true).is_ok());
        assert!(check_page(&data(Encoding::RLE_DICTIONARY, 8), false).unwrap_err().contains("missing"));
        assert!(check_page(&data(Encoding::PLAIN, 9), false).unwrap_err().contains("shorter than its levels"));
    }
}
