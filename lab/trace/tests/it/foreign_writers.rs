//! Tests of recordings by other programs, which were written from `FORMAT.md` alone.

use std::path::Path;

use freehold_trace::event::{NO_PFN, class};
use freehold_trace::{Facts, GFP_BITS, Kind, Row};

use crate::common::read;

fn fixture(name: &str) -> (Facts, Vec<Row>) {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// `write_recording.py` makes `stranger.parquet`.
#[test]
fn recording_written_in_python_is_readable() {
    let (facts, rows) = fixture("stranger.parquet");
    assert_eq!((facts.cpus, facts.page_size, facts.ram), (2, 4096, vec![(0, 1024)]));
    assert_eq!(facts.tasks[1].name, "cc1");
    let kinds: Vec<_> = rows.iter().map(|row| row.kind).collect();
    let (start, end) = ([Kind::StartFree, Kind::StartAllocated, Kind::StartPageblock], [Kind::EndFree]);
    assert_eq!(kinds, [&start[..], &[Kind::Alloc, Kind::Alloc, Kind::Free], &end].concat());
    assert_eq!(rows[1].args, [256, class::RESERVED, 0]);
    let alloc = Row { time: 1000, cpu: 1, task: 1, pfn: 512, gfp: 0x10_0cca, migratetype: 1, ..Row::new(Kind::Alloc) };
    assert_eq!(rows[3], alloc);
    assert_eq!((rows[4].pfn, rows[4].order), (NO_PFN, 10));
}

/// `duckdb.parquet` is a copy of the same recording by DuckDB, with its own encodings and without checksums.
#[test]
fn recording_copied_by_duckdb_is_readable() {
    assert_eq!(fixture("duckdb.parquet"), fixture("stranger.parquet"));
}

/// `FORMAT.md` names every kind, flag and column that the code knows.
#[test]
fn format_document_lists_every_kind_flag_and_member() {
    let text = include_str!("../../FORMAT.md");
    for kind in Kind::ALL {
        let code = kind as u8;
        let (name, number) = (format!("{kind:?}"), code.to_string());
        assert!(text.lines().any(|line| line.contains(&name) && line.contains(&number)), "{kind:?} = {code}");
    }
    for (name, value) in GFP_BITS {
        assert!(text.contains(&format!("| {} | `{name}` |", value.trailing_zeros())), "{name}");
    }
    let facts = serde_json::to_value(Facts::default()).unwrap();
    for member in facts.as_object().unwrap().keys() {
        assert!(text.contains(&format!("`{member}`")), "{member}");
    }
    let example = text.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let example: Facts = serde_json::from_str(example).unwrap();
    assert_eq!((example.format, example.cpus), (1, 2));
}
