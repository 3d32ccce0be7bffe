//! Tests that a recording returns the rows, their order and the facts that were written, and leaves no other file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use freehold_trace::{Columns, Error, Fault, Kind, Reader, Row, Writer};

use crate::common::{facts, read, rows, write};

#[test]
fn rows_and_facts_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let rows = rows(1, 50_000);
    write(&path, &rows, &facts()).unwrap();
    let (found, back) = read(&path).unwrap();
    assert_eq!(back, rows);
    assert_eq!(found.format, 2);
    assert_eq!(found.tasks, facts().tasks);
    assert_eq!(found.rows.values().sum::<u64>(), rows.len() as u64);
    assert_eq!(found.rows[&(Kind::StartFree as u8)], 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the recording may be left");
}

#[test]
fn batches_cover_several_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let rows = rows(2, (1 << 20) + 5);
    write(&path, &rows, &facts()).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.row_count(), rows.len() as u64);
    let mut next = 0;
    for batch in reader.batches() {
        let batch = batch.unwrap();
        assert!(!batch.is_empty());
        for (index, row) in batch.rows().enumerate() {
            assert_eq!(row, rows[next + index]);
            assert_eq!((batch.pfn()[index], batch.kind()[index]), (row.pfn, row.kind));
            assert_eq!(batch.arg(2)[index], row.args[2]);
        }
        next += batch.len();
    }
    assert_eq!(next, rows.len());
}

#[test]
fn empty_recording_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &[], &facts()).unwrap();
    let (found, rows) = read(&path).unwrap();
    assert_eq!((found.rows, rows), (BTreeMap::new(), Vec::new()));
}

#[test]
fn unfinished_recording_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut writer = Writer::create(&path).unwrap();
    writer.push(&Row::new(Kind::Alloc)).unwrap();
    assert_eq!(writer.rows(), 1);
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn old_recording_is_kept_until_the_new_recording_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &rows(1, 10), &facts()).unwrap();
    let mut writer = Writer::create(&path).unwrap();
    writer.push(&Row::new(Kind::Alloc)).unwrap();
    drop(writer);
    assert_eq!(read(&path).unwrap().1, rows(1, 10));
}

#[test]
fn full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        eprintln!("skipped: this machine does not mount a tmpfs");
        return;
    };
    let path = disk.0.join("a.parquet");
    let error = write(&path, &rows(1, 100_000), &facts()).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("cannot write {}: the disk is full; free some space, or choose another path", path.display())
    );
    assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 0);
}

/// A tmpfs of a few pages, unmounted when dropped.
struct SmallDisk<'f>(&'f Path);

impl SmallDisk<'_> {
    fn mount(folder: &Path) -> Option<SmallDisk<'_>> {
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(folder).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // The folder cannot be removed while it is a mount point. No other state depends on it.
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn unwritable_path_is_an_error_at_creation() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("missing/a.parquet")] {
        let error = Writer::create(&path).err().expect("no file can be made there");
        assert!(matches!(error, Error::Write { .. }), "{error}");
    }
}

#[test]
fn writer_rejects_invalid_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut writer = Writer::create(&path).unwrap();
    writer.push(&Row { time: 5, ..Row::new(Kind::Alloc) }).unwrap();
    let error = writer.push(&Row { time: 4, ..Row::new(Kind::Alloc) }).unwrap_err();
    assert!(matches!(error, Error::Row { row: 1, fault: Fault::OutOfOrder { time: 4, previous: 5 }, .. }), "{error}");
    assert_eq!(writer.rows(), 1, "the refused row was not added");
    writer.push(&Row { time: 6, task: 3, ..Row::new(Kind::Alloc) }).unwrap();
    let error = writer.finish(&facts()).unwrap_err();
    assert!(matches!(error, Error::Row { fault: Fault::OutOfRange { column: "task", value: 3, .. }, .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn compressed_rows_take_few_bytes() {
    for name in ["build", "pressure", "oracle-calm", "oracle-pressure"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../recordings/{name}.parquet"));
        let reader = Reader::open(path).unwrap();
        let mut columns = Columns::default();
        reader.batches().for_each(|batch| columns.push(&batch.unwrap()));
        let bytes = columns.bytes() as f64 / columns.len() as f64;
        println!("{name}: {bytes:.1} bytes a row");
        assert_eq!(columns.len(), reader.row_count());
        assert!((10.0..25.0).contains(&bytes), "{name}: {bytes}");
    }
}
