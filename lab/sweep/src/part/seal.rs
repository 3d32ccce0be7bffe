//! The seal of a part: a digest of all of its bytes, stored in its metadata.
//!
//! Parquet does not detect a changed bit: a number or even a column is then read as another one. The metadata therefore
//! contains the SHA-256 of the file, computed with zeros in the place of the digest. Every reader of a part verifies
//! it.

use std::ops::Range;

use parquet::file::metadata::KeyValue;

use crate::digest;

/// Key of the seal in the file's metadata, the last key there.
const KEY: &str = "freehold.sweep.sha256";
/// Placeholder for the digest.
const BLANK: [u8; 64] = [b'0'; 64];
/// Number of bytes between a key and its value in Thrift's compact protocol: the type of the value, and its length.
const BETWEEN: usize = 2;

/// Returns the placeholder that is written before the file is sealed.
pub(super) fn blank() -> KeyValue {
    KeyValue::new(KEY.to_owned(), String::from_utf8_lossy(&BLANK).into_owned())
}

/// Seals the file of a part.
///
/// # Panics
/// If the metadata does not contain [`blank`].
pub(super) fn put(file: &mut [u8]) {
    let place = place(file).expect("the metadata contains a blank seal");
    assert_eq!(file[place.clone()], BLANK, "the file is already sealed");
    let digest = digest_of(file, &place);
    file[place].copy_from_slice(digest.as_bytes());
}

/// Returns whether the file is bit for bit as it was sealed. Cost: a digest of the file.
pub(super) fn holds(file: &[u8]) -> bool {
    place(file).is_some_and(|place| file[place.clone()] == *digest_of(file, &place).as_bytes())
}

/// Returns the place of the digest, after the last occurrence of the key. The metadata is at the end of the file.
fn place(file: &[u8]) -> Option<Range<usize>> {
    let key = file.windows(KEY.len()).rposition(|bytes| bytes == KEY.as_bytes())?;
    let start = key + KEY.len() + BETWEEN;
    let end = start + BLANK.len();
    (end <= file.len()).then_some(start..end)
}

fn digest_of(file: &[u8], place: &Range<usize>) -> String {
    digest::hash_pieces(&[&file[..place.start], &BLANK, &file[place.end..]])
}
