//! Tests of decoding records in the kernels' layouts, with the kernels' own format files.

use freehold_trace::decode::{DecodedEvent, Decoder, lacking};
use freehold_trace::event::{NO_MIGRATETYPE, NO_PFN};
use freehold_trace::format::{EventFormat, FormatError};
use freehold_trace::gfp::{GfpMap, parse_names};
use freehold_trace::ring::{PageLayout, RawEvent};
use freehold_trace::{Kind, Row};

use crate::common::Numbers;

const HEADER_PAGE: &str = include_str!("../fixtures/linux-6.18/header_page");
const ALLOC: &str = include_str!("../fixtures/linux-6.18/mm_page_alloc.format");
const FREE: &str = include_str!("../fixtures/linux-6.18/mm_page_free.format");
const EXTFRAG: &str = include_str!("../fixtures/linux-6.18/mm_page_alloc_extfrag.format");
const COMPACTION_END: &str = include_str!("../fixtures/linux-6.18/mm_compaction_end.format");
const WAKEUP_KSWAPD: &str = include_str!("../fixtures/linux-6.18/mm_vmscan_wakeup_kswapd.format");
const ISOLATE_FREEPAGES: &str = include_str!("../fixtures/linux-6.18/mm_compaction_isolate_freepages.format");
const SCHED_SWITCH: &str = include_str!("../fixtures/linux-6.18/sched_switch.format");
const OLD_ALLOC: &str = include_str!("../fixtures/linux-5.10/mm_page_alloc.format");

/// Migratetypes of a kernel without CMA: its migratetype 4 is Isolate.
const MIGRATETYPES: [i8; 5] = [0, 1, 2, 3, 5];

fn decoder(formats: &[&str]) -> Decoder {
    let formats: Vec<_> = formats.iter().map(|text| EventFormat::parse(text).unwrap()).collect();
    let names = formats.iter().map(|format| parse_names(format.print_format())).find(|names| !names.is_empty());
    let mut decoder = Decoder::new(GfpMap::new(&names.unwrap_or_default()), MIGRATETYPES.to_vec());
    for format in &formats {
        assert!(decoder.add(format).unwrap().is_some());
    }
    decoder
}

/// Returns a record of `format` with these fields set, in the kernel's layout.
fn record(format: &str, fields: &[(&str, i64)]) -> Vec<u8> {
    let format = EventFormat::parse(format).unwrap();
    let size = format.field_names().map(|name| format.field(name).unwrap().end()).max().unwrap();
    let mut bytes = vec![0; size];
    let id = i64::from(format.id);
    for (name, value) in [("common_type", id), ("common_pid", 77)].iter().chain(fields) {
        let field = format.field(name).unwrap();
        bytes[field.offset..field.end()].copy_from_slice(&value.to_ne_bytes()[..field.size]);
    }
    bytes
}

fn decode(format: &str, fields: &[(&str, i64)]) -> Row {
    let data = record(format, fields);
    let decoded = decoder(&[format]).decode(&RawEvent { time: 5, data: &data }, 3);
    let DecodedEvent { pid, row } = decoded.expect("the decoder knows the event");
    assert_eq!((pid, row.time, row.cpu, row.task), (77, 5, 3, 0));
    row
}

#[test]
fn allocation_event_becomes_a_row() {
    let row = decode(ALLOC, &[("pfn", 0x1234), ("order", 9), ("gfp_flags", 0x140_0cc0), ("migratetype", 4)]);
    // ACCOUNT keeps its number; NO_OBJ_EXT, bit 24 on that kernel, has bit 27 in a recording.
    assert_eq!((row.kind, row.pfn, row.order, row.gfp, row.migratetype), (Kind::Alloc, 0x1234, 9, 0x840_0cc0, 5));
    let failed = decode(ALLOC, &[("pfn", -1), ("order", 0), ("migratetype", 9)]);
    assert_eq!((failed.pfn, failed.migratetype), (NO_PFN, NO_MIGRATETYPE));
}

#[test]
fn older_record_layout_is_decoded() {
    let fields = [("pfn", 7), ("order", 1), ("gfp_flags", 0x40_0ae0), ("migratetype", 1)];
    let row = decode(OLD_ALLOC, &fields);
    assert_eq!((row.pfn, row.order, row.gfp, row.migratetype), (7, 1, 0x40_0ae0, 1));
    let names = parse_names(EventFormat::parse(OLD_ALLOC).unwrap().print_format());
    assert_eq!((names["GFP_KERNEL"], names["GFP_TRANSHUGE_LIGHT"]), (0xcc0, 0x1c_20ca));
}

#[test]
fn flag_names_are_evaluated() {
    let names = parse_names(EventFormat::parse(ALLOC).unwrap().print_format());
    assert_eq!(names.len(), 38);
    for (name, value) in [("GFP_TRANSHUGE", 0x1c_24ca), ("GFP_ATOMIC", 0x820), ("__GFP_NO_OBJ_EXT", 1 << 24)] {
        assert_eq!(names[name], value, "{name}");
    }
}

#[test]
fn fallback_and_compaction_arguments_are_kept() {
    let places = [("pfn", 512), ("alloc_order", 0), ("fallback_order", 10)];
    let types = [("alloc_migratetype", 0), ("fallback_migratetype", 4), ("change_ownership", 1)];
    let row = decode(EXTFRAG, &[&places[..], &types[..]].concat());
    assert_eq!((row.order, row.migratetype, row.args), (0, 0, [10, 5, 1]));
    let fields = [("zone_start", 1), ("migrate_pfn", 2), ("free_pfn", 3), ("zone_end", 4), ("sync", 1), ("status", 8)];
    let row = decode(COMPACTION_END, &fields);
    assert_eq!((row.pfn, row.order, row.migratetype, row.args), (2, 1, 8, [1, 3, 4]));
}

#[test]
fn observation_arguments_are_kept() {
    let row = decode(WAKEUP_KSWAPD, &[("nid", 1), ("zid", 2), ("order", 3), ("gfp_flags", 0xcc0)]);
    assert_eq!((row.kind, row.order, row.gfp, row.args), (Kind::WakeupKswapd, 3, 0xcc0, [1, 2, 0]));
    let range = [("start_pfn", 512), ("end_pfn", 1024), ("nr_scanned", 400), ("nr_taken", 32)];
    let row = decode(ISOLATE_FREEPAGES, &range);
    assert_eq!((row.pfn, row.args, row.kind.is_observation()), (512, [1024, 400, 32], true));
    // The next thread has the kernel's thread id; the writer of a recording converts it to a task.
    let row = decode(SCHED_SWITCH, &[("prev_pid", 77), ("next_pid", 78), ("prev_state", 1), ("next_prio", 120)]);
    assert_eq!((row.kind, row.args, row.kind.names_task()), (Kind::SchedSwitch, [78, 1, 120], true));
}

/// Returns the format of an allocation without the lines that contain `name`.
fn alloc_without(name: &str) -> String {
    ALLOC.lines().filter(|line| !line.contains(name)).collect::<Vec<_>>().join("\n")
}

#[test]
fn missing_optional_field_is_listed() {
    assert_eq!(lacking(&EventFormat::parse(ALLOC).unwrap()).count(), 0);
    let format = EventFormat::parse(&alloc_without("gfp_flags;")).unwrap();
    assert_eq!(lacking(&format).collect::<Vec<_>>(), ["gfp_flags"]);
}

#[test]
fn missing_field_is_default_or_an_error() {
    let row = decode(&alloc_without("int migratetype;"), &[("pfn", 7), ("order", 1)]);
    assert_eq!((row.pfn, row.migratetype), (7, NO_MIGRATETYPE));
    let format = EventFormat::parse(&alloc_without("long pfn;")).unwrap();
    let error = decoder(&[FREE]).add(&format).unwrap_err();
    assert!(matches!(error, FormatError::MissingField { .. }), "{error}");
    let other = EventFormat::parse(&ALLOC.replace("mm_page_alloc", "sched_wakeup")).unwrap();
    assert_eq!(decoder(&[FREE]).add(&other), Ok(None));
}

#[test]
fn short_and_unknown_records_are_skipped() {
    let decoder = decoder(&[ALLOC, FREE]);
    let data = record(FREE, &[("pfn", 1)]);
    assert!(decoder.decode(&RawEvent { time: 0, data: &data }, 0).is_some());
    assert!((0..20).all(|length| decoder.decode(&RawEvent { time: 0, data: &data[..length] }, 0).is_none()));
    assert!(decoder.decode(&RawEvent { time: 0, data: &record(EXTFRAG, &[]) }, 0).is_none());
}

/// Returns a page that contains `records`, one nanosecond apart.
fn page(layout: &PageLayout, records: &[Vec<u8>]) -> Vec<u8> {
    let mut page = vec![0; 16];
    for record in records {
        let words = record.len().div_ceil(4);
        page.extend((words as u32 | 1 << 5).to_ne_bytes());
        page.extend(record);
        page.resize(page.len() + 4 * words - record.len(), 0);
    }
    let committed = page.len() as u64 - 16;
    page[8..16].copy_from_slice(&committed.to_ne_bytes());
    page.resize(layout.page_bytes(), 0);
    page
}

#[test]
fn random_ring_pages_never_panic() {
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let decoder = decoder(&[ALLOC, FREE, EXTFRAG, COMPACTION_END]);
    let records: Vec<_> = [ALLOC, FREE, EXTFRAG, COMPACTION_END].map(|format| record(format, &[])).into();
    let whole = page(&layout, &records);
    let mut numbers = Numbers(3);
    let (mut rows, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=numbers.below(6) {
            let at = numbers.below(200) as usize;
            bytes[at] ^= 1 << numbers.below(8);
        }
        bytes.truncate(numbers.below(8192) as usize);
        let Ok(page) = layout.page(&bytes) else {
            refused += 1;
            continue;
        };
        for event in page.events() {
            match event {
                Ok(event) => rows += u64::from(decoder.decode(&event, 0).is_some()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(rows > 1000 && refused > 1000, "{rows} rows, {refused} refused");
}

/// Mangled format files and print formats.
#[test]
fn random_event_formats_never_panic() {
    let mut numbers = Numbers(4);
    let mut refused = 0;
    for _ in 0..3000 {
        let mut bytes = if numbers.below(2) == 0 { ALLOC } else { OLD_ALLOC }.as_bytes().to_vec();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(bytes.len() as u64) as usize;
            let end = (at + numbers.below(30) as usize).min(bytes.len());
            match numbers.below(3) {
                0 => drop(bytes.drain(at..end)),
                1 => bytes[at..end].fill(b"({9; \"-"[numbers.below(7) as usize]),
                _ => bytes[at] ^= 1 << numbers.below(7),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match EventFormat::parse(&text) {
            Ok(format) => {
                let mut decoder = Decoder::new(GfpMap::new(&parse_names(format.print_format())), Vec::new());
                refused += u32::from(decoder.add(&format).is_err());
            }
            Err(_) => refused += 1,
        }
    }
    assert!((100..2900).contains(&refused), "{refused}");
}
