//! Tests of invalid rows in otherwise valid files. The reader names the row and the fault.

use freehold_trace::{Error, Facts, Fault, Kind};

use crate::common::plain::{Raw, plain_file};
use crate::common::{facts, read, rows, write};

/// Columns by their number in a [`Raw`] row.
const TIME: usize = 0;
const CPU: usize = 1;
const TASK: usize = 2;
const KIND: usize = 3;
const PFN: usize = 4;
const ORDER: usize = 5;
const MIGRATETYPE: usize = 7;

/// Index of an event. The first four rows are start-state rows.
const EVENT: usize = 150;

/// Returns the reader's error after `spoil` has changed the rows of a good recording.
fn error_after(spoil: impl Fn(&mut Vec<Raw>)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let good = rows(9, 300);
    write(&path, &good, &facts()).unwrap();
    let facts: Facts = read(&path).unwrap().0;
    let mut raw: Vec<Raw> = good.iter().map(Raw::from_row).collect();
    std::fs::write(&path, plain_file(&raw, &facts)).unwrap();
    assert_eq!(read(&path).unwrap().1, good, "the unspoiled file must be readable");
    spoil(&mut raw);
    std::fs::write(&path, plain_file(&raw, &facts)).unwrap();
    read(&path).expect_err("a row is bad")
}

/// Returns the fault for a value in a column of row [`EVENT`].
fn fault_of(column: usize, value: i64) -> Fault {
    match error_after(|rows| rows[EVENT] = rows[EVENT].with(column, value)) {
        Error::Row { row, fault, .. } => {
            assert_eq!(row, EVENT as u64);
            fault
        }
        other => panic!("{other}"),
    }
}

#[test]
fn unknown_kind_is_reported() {
    for code in [0, 50, 63, 99, 127, 128, -1, 1 << 20] {
        assert_eq!(fault_of(KIND, code), Fault::UnknownKind { code: code as i32 });
    }
    let sentence = error_after(|rows| rows[EVENT] = rows[EVENT].with(KIND, 50)).to_string();
    assert!(
        sentence.starts_with("row 150 of /")
            && sentence
                .contains("has the unknown kind 50, which a newer version of freehold may support; the file was")
            && sentence.contains("written by parquet-rs"),
        "{sentence}"
    );
}

#[test]
fn out_of_range_values_are_reported() {
    for (column, value, name) in [
        (TIME, -1, "time"),
        (CPU, 4, "cpu"),
        (CPU, -1, "cpu"),
        (CPU, 1 << 16, "cpu"),
        (TASK, 3, "task"),
        (TASK, -1, "task"),
        (PFN, 1 << 52, "pfn"),
        (PFN, -2, "pfn"),
        (ORDER, 64, "order"),
        (ORDER, 256, "order"),
        (MIGRATETYPE, -2, "migratetype"),
        (MIGRATETYPE, 128, "migratetype"),
    ] {
        match fault_of(column, value) {
            Fault::OutOfRange { column, .. } => assert_eq!(column, name),
            other => panic!("{name} = {value}: {other:?}"),
        }
    }
}

#[test]
fn events_out_of_order_are_reported() {
    assert!(matches!(fault_of(TIME, 0), Fault::OutOfOrder { time: 0, .. }));
    assert_eq!(fault_of(KIND, Kind::EndFree as i64 - 32), Fault::OutOfSection);
    let error = error_after(|rows| rows.swap(2, EVENT));
    assert!(matches!(error, Error::Row { row: 3, fault: Fault::OutOfSection, .. }), "{error}");
}

#[test]
fn null_value_is_an_error() {
    let error = error_after(|rows| rows[EVENT].arg1_level = 0);
    assert!(error.to_string().contains("a column contains nulls"), "{error}");
}

#[test]
fn iterator_ends_after_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let good = rows(9, 300);
    write(&path, &good, &facts()).unwrap();
    let facts = read(&path).unwrap().0;
    let raw: Vec<Raw> = good.iter().map(|row| Raw::from_row(row).with(ORDER, 77)).collect();
    std::fs::write(&path, plain_file(&raw, &facts)).unwrap();
    let reader = freehold_trace::Reader::open(&path).unwrap();
    assert_eq!(reader.rows().filter(Result::is_err).count(), 1);
    assert_eq!(reader.batches().count(), 1);
}
