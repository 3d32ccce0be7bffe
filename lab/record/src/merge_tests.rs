//! Tests of the merge and the decoder on handmade pages.

use std::collections::BTreeMap;

use freehold_trace::decode::Decoder;
use freehold_trace::event::Kind;
use freehold_trace::format::EventFormat;
use freehold_trace::gfp::GfpMap;
use freehold_trace::ring::PageLayout;

use super::*;
use crate::decode::{TASK_BORN, TASK_RENAMED};

/// Bytes of a small page: 16 bytes of header, 112 of data.
const PAGE_BYTES: usize = 128;
const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:112;\tsigned:0;\n";
/// Bit of a page's header that marks missing events before the page.
const MISSED: u64 = 1 << 31;

const FREE_ID: u16 = 7;
const BORN_ID: u16 = 8;
const RENAMED_ID: u16 = 9;

fn format(name: &str, id: u16, fields: &str) -> EventFormat {
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    EventFormat::parse(&format!("name: {name}\nID: {id}\nformat:\n{common}{fields}\nprint fmt: \"\"\n")).unwrap()
}

fn decoder() -> RingDecoder {
    let rows = Decoder::new(GfpMap::new(&BTreeMap::new()), Vec::new());
    let mut decoder = RingDecoder::new(PageLayout::parse(HEADER).unwrap(), rows);
    let free = "\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n";
    decoder.add("kmem/mm_page_free", &format("mm_page_free", FREE_ID, free)).unwrap();
    for (event, name, id, field) in
        [(TASK_BORN, "task_newtask", BORN_ID, "comm"), (TASK_RENAMED, "task_rename", RENAMED_ID, "newcomm")]
    {
        let fields = format!(
            "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:char {field}[8];\toffset:12;\tsize:8;\tsigned:0;\n"
        );
        decoder.add(event, &format(name, id, &fields)).unwrap();
    }
    decoder
}

/// Returns a record of 20 bytes: the common fields of all events, and 12 bytes of its own.
fn record(id: u16, pid: u32, own: [u8; 12]) -> Vec<u8> {
    [&id.to_ne_bytes()[..], &[0; 2], &pid.to_ne_bytes(), &own].concat()
}

fn free(pfn: u64) -> Vec<u8> {
    let mut own = [0; 12];
    own[..8].copy_from_slice(&pfn.to_ne_bytes());
    record(FREE_ID, 42, own)
}

fn name_record(id: u16, pid: u32, name: &[u8; 8]) -> Vec<u8> {
    let mut own = [0; 12];
    own[..4].copy_from_slice(&pid.to_ne_bytes());
    own[4..].copy_from_slice(name);
    record(id, 42, own)
}

/// Returns a page that starts at `time`. Each event has the time since the previous one.
fn page(time: u64, flags: u64, events: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut data = Vec::new();
    for (delta, record) in events {
        let words = u32::try_from(record.len() / 4).unwrap();
        data.extend((words | delta << 5).to_ne_bytes());
        data.extend(record);
    }
    let mut page = [time.to_ne_bytes(), (flags | data.len() as u64).to_ne_bytes()].concat();
    page.extend(data);
    page.resize(PAGE_BYTES, 0);
    page
}

/// Merges the pages of each CPU, with each page in its own segment.
fn merge(cpus: &[Vec<Vec<u8>>]) -> (Vec<(u64, Item)>, Irregularities) {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::create(folder.path()).unwrap();
    let mut buffer = AlignedBuffer::new(PAGE_BYTES);
    let mut pages = Vec::new();
    for (cpu, cpu_pages) in (0..).zip(cpus) {
        let mut segments = Vec::new();
        for page in cpu_pages {
            buffer.get_mut()[..PAGE_BYTES].copy_from_slice(page);
            segments.push(spool.append(&buffer, PAGE_BYTES).unwrap());
        }
        pages.push(CpuPages { cpu, segments, whole_from: 0 });
    }
    let mut items = Vec::new();
    let irregularities = Merge::new(&spool, &decoder(), &pages, 0)
        .for_each(|time, item| {
            items.push((time, item));
            Ok(())
        })
        .unwrap();
    (items, irregularities)
}

/// Returns time, CPU and frame of each row.
fn rows(items: &[(u64, Item)]) -> Vec<(u64, u16, u64)> {
    items
        .iter()
        .map(|(time, item)| match item {
            Item::Row(42, row) if row.kind == Kind::Free => (*time, row.cpu, row.pfn),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn events_of_all_cpus_are_merged_by_time() {
    let first = vec![page(10, 0, &[(0, free(1)), (30, free(2))]), page(50, 0, &[(0, free(3))])];
    let second = vec![page(20, 0, &[(0, free(4)), (5, free(5)), (40, free(6))])];
    let (items, irregularities) = merge(&[first, second, Vec::new()]);
    let expected = [(10, 0, 1), (20, 1, 4), (25, 1, 5), (40, 0, 2), (50, 0, 3), (65, 1, 6)];
    assert_eq!(rows(&items), expected);
    assert_eq!(irregularities, Irregularities::default());
}

#[test]
fn backward_time_is_clamped_and_counted() {
    let pages = vec![page(100, 0, &[(0, free(1))]), page(90, 0, &[(0, free(2)), (20, free(3))])];
    let (items, irregularities) = merge(&[pages]);
    assert_eq!(rows(&items), [(100, 0, 1), (100, 0, 2), (110, 0, 3)]);
    assert_eq!(irregularities, Irregularities { backward: 1, ..Irregularities::default() });
}

#[test]
fn gaps_and_damaged_pages_are_counted_and_skipped() {
    let mut cut = page(30, 0, &[(0, free(3))]);
    cut[8] = 12;
    let mut impossible = page(40, 0, &[(0, free(4))]);
    impossible[9] = 0xff;
    let pages = vec![page(10, MISSED, &[(0, free(1))]), cut, impossible, page(50, 0, &[(0, free(5))])];
    let (items, irregularities) = merge(&[pages]);
    assert_eq!(rows(&items), [(10, 0, 1), (50, 0, 5)]);
    assert_eq!(irregularities, Irregularities { gaps: 1, damaged: 2, backward: 0 });
}

#[test]
fn births_and_renames_appear_in_the_stream() {
    let other = record(99, 42, [0; 12]);
    let events =
        [(0, name_record(BORN_ID, 77, b"sh\0\0\0\0\0\0")), (1, other), (1, name_record(RENAMED_ID, 77, b"cargo\0xx"))];
    let (items, _) = merge(&[vec![page(5, 0, &events)]]);
    let born = Item::Born { parent: 42, child: 77, name: "sh".to_owned() };
    let renamed = Item::Renamed { pid: 77, name: "cargo".to_owned() };
    assert_eq!(items, [(5, born), (7, renamed)]);
}

#[test]
fn visitor_error_stops_the_merge() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::create(folder.path()).unwrap();
    let mut buffer = AlignedBuffer::new(PAGE_BYTES);
    buffer.get_mut()[..PAGE_BYTES].copy_from_slice(&page(1, 0, &[(0, free(1)), (1, free(2))]));
    let pages = [CpuPages { cpu: 0, segments: vec![spool.append(&buffer, PAGE_BYTES).unwrap()], whole_from: 0 }];
    let mut seen = 0;
    let stopped = Merge::new(&spool, &decoder(), &pages, 0).for_each(|_, _| {
        seen += 1;
        Err(CaptureError::Aborted)
    });
    assert!(matches!(stopped, Err(CaptureError::Aborted)));
    assert_eq!(seen, 1);
}
