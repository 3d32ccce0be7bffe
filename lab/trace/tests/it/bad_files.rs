//! Tests of files that are not recordings, and of incomplete recordings. Each gets its own error.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_trace::{Error, Reader};

use crate::common::{facts, read, rows, write};

/// Returns a folder with a valid recording, and the recording's path.
fn recording() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &rows(1, 3000), &facts()).unwrap();
    (folder, path)
}

fn error_of(path: &Path, bytes: &[u8]) -> Error {
    fs::write(path, bytes).unwrap();
    read(path).expect_err("the file is bad")
}

#[test]
fn missing_file_is_an_error() {
    let error = Reader::open("/nowhere/a.parquet").err().expect("the file must be missing");
    assert!(error.to_string().starts_with("cannot read /nowhere/a.parquet:"), "{error}");
}

#[test]
fn foreign_file_is_an_error() {
    let (_folder, path) = recording();
    for bytes in [&b""[..], b"PAR", b"TRACE", &[0; 5000], b"\x7fELF........................"] {
        assert!(matches!(error_of(&path, bytes), Error::NotParquet { .. }));
    }
    assert_eq!(
        error_of(&path, b"hello").to_string(),
        format!("{} is not a Parquet file; give a file of `freehold record` or `freehold snapshot`", path.display())
    );
}

#[test]
fn folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Reader::open(folder.path()).err(), Some(Error::Read { .. })));
}

#[test]
fn truncated_file_is_an_error() {
    let (_folder, path) = recording();
    let whole = fs::read(&path).unwrap();
    for cut in (4..whole.len()).step_by(61) {
        let error = error_of(&path, &whole[..cut]);
        assert!(matches!(error, Error::Truncated { .. }), "cut at {cut}: {error}");
    }
}

#[test]
fn flipped_data_bit_is_an_error() {
    let (_folder, path) = recording();
    let whole = fs::read(&path).unwrap();
    let footer = u32::from_le_bytes(*whole[whole.len() - 8..].first_chunk().unwrap()) as usize;
    let data_end = whole.len() - 8 - footer;
    for at in (4..data_end).step_by(data_end / 300) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let error = error_of(&path, &bytes);
        assert!(error.to_string().contains("the checksum of a row group does not match"), "byte {at}: {error}");
    }
}

/// Replaces text in the footer by text of the same length.
fn patched(whole: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = whole.windows(from.len()).rposition(|window| window == from.as_bytes()).expect("the text is there");
    let mut bytes = whole.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

/// Returns the file as if another program had written it, without checksums that would fail first.
fn without_checksums(whole: &[u8]) -> Vec<u8> {
    let whole = patched(whole, "freehold.crc32", "freehold.other");
    patched(&whole, "freehold-trace", "another-writer")
}

#[test]
fn missing_checksums_are_an_error() {
    let (_folder, path) = recording();
    let whole = fs::read(&path).unwrap();
    let error = error_of(&path, &patched(&whole, "freehold.crc32", "freehold.other"));
    assert!(error.to_string().contains("its checksums are missing"), "{error}");
}

#[test]
fn damaged_facts_are_an_error() {
    let (_folder, path) = recording();
    let whole = fs::read(&path).unwrap();
    let error = error_of(&path, &patched(&whole, "6.12.0", "6.13.0"));
    assert!(error.to_string().contains("the checksum of the facts does not match"), "{error}");
}

#[test]
fn earlier_format_is_readable() {
    let (_folder, path) = recording();
    let whole = without_checksums(&fs::read(&path).unwrap());
    fs::write(&path, patched(&whole, "\"format\":2", "\"format\":1")).unwrap();
    assert_eq!(Reader::open(&path).unwrap().facts().format, 1);
}

#[test]
fn later_format_is_reported_first() {
    let (_folder, path) = recording();
    let whole = without_checksums(&fs::read(&path).unwrap());
    let error =
        error_of(&path, &patched(&whole, "\"format\":2,\"writer\":\"test\"", "\"format\":7,\"writer\":[\"te\"]"));
    assert!(matches!(error, Error::Version { found: 7, supported: 2, .. }), "{error}");
}

#[test]
fn other_parquet_file_is_an_error() {
    let (_folder, path) = recording();
    let whole = fs::read(&path).unwrap();
    for (from, to, told) in [
        ("freehold.facts", "freehold.other", "there is no metadata with the key `freehold.facts`"),
        ("migratetype", "migratetyqe", "there is no column `migratetype`"),
    ] {
        // The name is in each column chunk and in the schema; the schema comes first in the footer.
        let mut bytes = whole.clone();
        while bytes.windows(from.len()).any(|window| window == from.as_bytes()) {
            bytes = patched(&bytes, from, to);
        }
        let error = error_of(&path, &bytes);
        assert!(matches!(error, Error::NotRecording { .. }), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn row_counts_must_match_the_facts() {
    let (_folder, path) = recording();
    let whole = without_checksums(&fs::read(&path).unwrap());
    let text = String::from_utf8_lossy(&whole).into_owned();
    let start = text.find("\"64\":1,\"65\":1").expect("one row of each state kind");
    let error = error_of(&path, &patched(&whole, &text[start..start + 13], "\"64\":2,\"65\":1"));
    assert!(error.to_string().contains("the number of rows is not"), "{error}");
    let error = error_of(&path, &patched(&whole, &text[start..start + 13], "\"64\":2,\"65\":0"));
    assert!(error.to_string().contains("the rows of each kind"), "{error}");
}

/// Returns a file that has only a footer, whose schema consists of `count` elements like this one.
fn file_of_schema(count: u32, element: &[u8]) -> Vec<u8> {
    // Field 1: the version, an i32; field 2: a list of structures, whose number follows as a varint.
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    let mut left = count;
    while left > 0x7f {
        footer.push(left as u8 | 0x80);
        left >>= 7;
    }
    footer.push(left as u8);
    footer.extend((0..count).flat_map(|_| element).copied());
    footer.push(0);
    [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// The Parquet crate would reserve 32 GB for the first, and overflow the stack for the second. Neither failure could be
/// caught.
#[test]
fn oversized_schema_is_an_error() {
    let (_folder, path) = recording();
    // Field 4: the name `r`; field 5: the number of children, 2^31 - 1 and 1.
    let many_children = [0x48, 1, b'r', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0];
    let one_child = [0x48, 1, b'r', 0x15, 2, 0];
    for bytes in [file_of_schema(1, &many_children), file_of_schema(1_000_000, &one_child)] {
        let error = error_of(&path, &bytes);
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("its schema cannot be parsed"), "{error}");
    }
}
