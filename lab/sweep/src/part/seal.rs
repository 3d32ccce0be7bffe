//! The seal of a part: a digest of all of its bytes, which stands among them.
//!
//! Parquet says nothing where a bit has turned over: the number is another one then, or a column is. So the metadata
//! has the SHA-256 of the file as it is with zeros in the place of that digest, and whoever reads a part compares.

use std::ops::Range;

use parquet::file::metadata::KeyValue;

use crate::digest;

/// Its key in the file's metadata, the last one there.
const KEY: &str = "freehold.sweep.sha256";
/// Zeros in the place of the digest.
const BLANK: [u8; 64] = [b'0'; 64];
/// Bytes between a key and its value, in Thrift's compact protocol: the value's type, and its length.
const BETWEEN: usize = 2;

/// What is written where the seal will be.
pub(super) fn blank() -> KeyValue {
    KeyValue::new(KEY.to_owned(), String::from_utf8_lossy(&BLANK).into_owned())
}

/// Seals the file of a part.
///
/// # Panics
/// If [`blank`] is not in its metadata.
pub(super) fn put(file: &mut [u8]) {
    let place = place(file).expect("the metadata has a place for the seal");
    assert_eq!(file[place.clone()], BLANK, "a file is sealed once");
    let digest = digest_of(file, &place);
    file[place].copy_from_slice(digest.as_bytes());
}

/// Whether each bit is as it was when the file was sealed. Cost: a digest of it.
pub(super) fn holds(file: &[u8]) -> bool {
    place(file).is_some_and(|place| file[place.clone()] == *digest_of(file, &place).as_bytes())
}

/// Where the seal stands: metadata comes last, and in it this key.
fn place(file: &[u8]) -> Option<Range<usize>> {
    let key = file.windows(KEY.len()).rposition(|bytes| bytes == KEY.as_bytes())?;
    let start = key + KEY.len() + BETWEEN;
    let end = start + BLANK.len();
    (end <= file.len()).then_some(start..end)
}

fn digest_of(file: &[u8], place: &Range<usize>) -> String {
    digest::hash_pieces(&[&file[..place.start], &BLANK, &file[place.end..]])
}
