//! Fuzz tests with thousands of damaged recordings. The reader may refuse them, but must not panic or return wrong
//! rows.
//!
//! A case is a valid file with bits flipped, or pieces cut out, doubled or overwritten. Its number is its seed, so that
//! a failure can be repeated. There are two base files: a file from the writer, in which the checksums must catch every
//! wrong row, and a file without compression and checksums, so that the damage reaches the decoders. The last tests use
//! readers with planted bugs to show that the harness finds them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use freehold_trace::{Facts, Row};

use crate::common::plain::{Raw, plain_file};
use crate::common::{Numbers, facts, read, rows, write};

const CASES: u64 = 2000;

/// Rows that a reader returned for a file; `None` if it refused the file.
type Outcome = Option<Vec<Row>>;

/// Returns a damaged copy of `whole`.
fn damage(whole: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=numbers.below(3) {
        // Half of the damage is in the footer, which is small and contains the structure.
        let length = bytes.len().max(1) as u64;
        let at =
            if numbers.below(2) == 0 { length.saturating_sub(1 + numbers.below(4000)) } else { numbers.below(length) };
        let at = at as usize;
        let end = (at + 1 + numbers.below(16) as usize).min(bytes.len());
        match numbers.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes[at..end].fill(0xff),
            3 => bytes.extend_from_within(at..end),
            4 => bytes[at..end].fill(numbers.next() as u8),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Runs `reader` on damaged copies of `whole`. Returns the number of accepted copies, or the first case in which the
/// reader panicked or `is_lie` returned true.
fn fuzz(whole: &[u8], reader: impl Fn(&[u8]) -> Outcome, is_lie: impl Fn(&[Row]) -> bool) -> Result<u64, String> {
    let mut taken = 0;
    for seed in 0..CASES {
        let bytes = damage(whole, &mut Numbers(seed));
        match catch_unwind(AssertUnwindSafe(|| reader(&bytes))) {
            Err(_) => return Err(format!("case {seed} panics")),
            Ok(Some(rows)) if is_lie(&rows) => return Err(format!("case {seed} gives wrong rows")),
            Ok(outcome) => taken += u64::from(outcome.is_some()),
        }
    }
    Ok(taken)
}

/// Returns the real reader, on a file in `folder`.
fn real_reader(folder: &Path) -> impl Fn(&[u8]) -> Outcome {
    let path = folder.join("damaged.parquet");
    move |bytes| {
        fs::write(&path, bytes).unwrap();
        match read(&path) {
            Ok((_, rows)) => Some(rows),
            Err(error) => {
                let sentence = error.to_string();
                assert!(sentence.contains("damaged.parquet") && !sentence.contains('\n'), "{sentence}");
                None
            }
        }
    }
}

/// Returns a folder, the bytes of a recording from the writer, its rows, and its facts as they were stored.
fn recording() -> (tempfile::TempDir, Vec<u8>, Vec<Row>, Facts) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let rows = rows(1, 300);
    write(&path, &rows, &facts()).unwrap();
    let stored = read(&path).unwrap().0;
    let bytes = fs::read(&path).unwrap();
    (folder, bytes, rows, stored)
}

#[test]
fn damaged_recording_is_refused_or_read_unchanged() {
    let (folder, whole, rows, _) = recording();
    let taken = fuzz(&whole, real_reader(folder.path()), |found| found != rows).unwrap();
    assert!((1..CASES / 2).contains(&taken), "some damaged files must be accepted, but not most: {taken}");
}

#[test]
fn damage_in_the_decoders_never_panics() {
    let (folder, _, rows, stored) = recording();
    let whole = plain_file(&rows.iter().map(Raw::from_row).collect::<Vec<_>>(), &stored);
    let reader = real_reader(folder.path());
    assert_eq!(reader(&whole).as_deref(), Some(&rows[..]), "the undamaged file must be readable");
    let taken = fuzz(&whole, reader, |found| found.len() != rows.len()).unwrap();
    assert!(taken > CASES / 20, "without checksums, some damaged files must be accepted: {taken}");
}

#[test]
fn harness_finds_a_planted_panic() {
    let (_folder, whole, ..) = recording();
    // A reader that trusts the length in the footer.
    let outcome = fuzz(
        &whole,
        |bytes| {
            let tail = bytes.len().checked_sub(8)?;
            let size = u32::from_le_bytes(*bytes[tail..].first_chunk()?) as usize;
            let footer = &bytes[tail - size..tail];
            (footer.len() == usize::MAX).then(Vec::new)
        },
        |_| false,
    );
    let error = outcome.unwrap_err();
    assert!(error.ends_with("panics"), "{error}");
}

#[test]
fn harness_finds_planted_wrong_rows() {
    let (folder, _, rows, stored) = recording();
    // A reader without checksums, which is the case for a file of the plain writer.
    let whole = plain_file(&rows.iter().map(Raw::from_row).collect::<Vec<_>>(), &stored);
    let error = fuzz(&whole, real_reader(folder.path()), |found| found != rows).unwrap_err();
    assert!(error.ends_with("gives wrong rows"), "{error}");
}
