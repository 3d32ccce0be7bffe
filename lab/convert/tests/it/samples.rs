//! Tests of importing files of real tools.

use std::fs;

use freehold_convert::{ImportSummary, MachineOverrides, StartKind};
use freehold_trace::event::NO_PFN;
use freehold_trace::snapshot::flag;
use freehold_trace::{Facts, Kind, Reader, Row};

use crate::common::{events, import, import_text, sample};

fn imported(name: &str) -> (ImportSummary, Vec<Row>, Facts) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.parquet");
    let imported = import(&sample(name), &out, &MachineOverrides::default(), None).unwrap();
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["r.parquet"], "only the recording may be left");
    let (rows, facts) = events(&out);
    (imported, rows, facts)
}

fn counts(imported: &ImportSummary) -> [u64; 4] {
    ["Alloc", "Free", "ZoneLocked", "PcpuDrain"].map(|kind| imported.kinds.get(kind).copied().unwrap_or(0))
}

/// For each sample, the numbers of allocations, frees, departures from free lists, and drains; and of events that
/// repeat frees.
const COUNTS: [(&str, [u64; 4], u64); 8] = [
    ("perf.data", [155, 33, 0, 0], 18),
    ("perf-zstd.data", [150, 4, 63, 0], 0),
    ("perf-pipe.data", [153, 4, 0, 0], 0),
    ("perf-script.txt", [155, 33, 0, 0], 18),
    ("trace-v6.dat", [48, 51, 0, 0], 46),
    ("trace-v7-zstd.dat", [47, 49, 0, 0], 45),
    ("trace.txt", [90, 44, 0, 0], 13),
    ("trace_pipe.txt", [62, 44, 0, 0], 13),
];

/// The numbers are those of `perf script` and `trace-cmd report`; see tests/samples/README.md for the commands.
#[test]
fn every_event_is_imported_once() {
    for (name, expected, batched) in COUNTS {
        let (imported, rows, facts) = imported(name);
        assert_eq!(counts(&imported), expected, "{name}");
        assert_eq!((imported.lost, imported.dropped_events, imported.outside), (0, 0, 0), "{name}");
        assert_eq!(rows.len() as u64, expected.iter().sum::<u64>(), "{name}");
        let passed: u64 = imported.passed_over.values().sum();
        assert_eq!(passed, batched, "{name}: events that repeat frees must be passed over");
        // The files of trace-cmd have no names of tasks.
        let is_named = facts.tasks.iter().any(|task| task.name == "true");
        assert!(is_named || name.ends_with(".dat"), "{name}: {:?}", facts.tasks);
        assert!(!facts.guesses.is_empty() && imported.start == StartKind::Drawn, "{name}");
    }
}

#[test]
fn perf_script_text_equals_the_perf_file() {
    let (_, binary, of_binary) = imported("perf.data");
    let (_, printed, of_printed) = imported("perf-script.txt");
    assert_eq!(differences(&binary, &printed), 0);
    assert_eq!(of_binary.kernel_release, of_printed.kernel_release);
    assert_eq!((of_binary.cpus, of_binary.machine.as_str()), (of_printed.cpus, "x86_64"));
    // The comparison detects one bit of a flag, one frame, or one order.
    let planted: [fn(&mut Row); 4] =
        [|row| row.gfp ^= 1 << 8, |row| row.pfn += 1, |row| row.order += 1, |row| row.time += 2000];
    for plant in planted {
        let mut wrong = printed.clone();
        plant(&mut wrong[7]);
        assert_eq!(differences(&binary, &wrong), 1);
    }
}

/// Returns the number of rows that differ in more than a text can show: fractions of microseconds, and the indices of
/// tasks.
fn differences(binary: &[Row], printed: &[Row]) -> usize {
    assert_eq!(binary.len(), printed.len());
    binary.iter().zip(printed).filter(|(one, other)| !are_alike(one, other)).count()
}

fn are_alike(one: &Row, other: &Row) -> bool {
    Row { time: 0, task: 0, ..*one } == Row { time: 0, task: 0, ..*other } && one.time.abs_diff(other.time) < 2000
}

#[test]
fn import_without_a_start_state_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.parquet");
    import(&sample("perf.data"), &out, &MachineOverrides::default(), None).unwrap();
    let reader = Reader::open(&out).unwrap().admitted().unwrap();
    let rows: Vec<Row> = reader.rows().map(Result::unwrap).collect();
    let first = rows.iter().find(|row| row.kind == Kind::Alloc).unwrap();
    let start = rows.iter().take_while(|row| (row.kind as u8) >= 64);
    let mut free = start.filter(|row| row.kind == Kind::StartFree);
    let was_listed = free.any(|row| (row.pfn..row.pfn + (1 << row.order)).contains(&first.pfn));
    assert!(!was_listed, "a block allocated without leaving a free list must not be free at the start");
}

#[test]
fn start_may_be_page_flags_page_owner_or_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let event = |pfn: u64, what: &str| format!("sh-7 [000] d..2. 1.{pfn:06}: {what} pfn={pfn:#x} order=0");
    let text = [
        event(1, "mm_page_alloc_zone_locked: page=0 migratetype=1 percpu_refill=1"),
        event(1, "mm_page_alloc: page=0 migratetype=1 gfp_flags=GFP_USER"),
        event(600, "mm_page_free: page=0"),
    ]
    .join("\n");
    fs::write(path("events.txt"), text).unwrap();
    let mut words = vec![flag::BUDDY; 2048];
    words[600..700].fill(flag::LRU | flag::ANON);
    fs::write(path("flags"), words.iter().flat_map(|&word| u64::from(word).to_le_bytes()).collect::<Vec<u8>>())
        .unwrap();
    let owner: String = (600..700)
        .map(|pfn| {
            format!(
                "Page allocated via order 0, mask 0xcc0(GFP_USER), pid 1, tgid 1 (init), ts 1 ns\n\
                 PFN {pfn:#x} type Movable Block 1 type Movable Flags 0x8(lru|uptodate)\n post_alloc_hook+0x1\n\n"
            )
        })
        .collect();
    fs::write(path("owner"), owner).unwrap();
    let overrides = MachineOverrides { memory: Some(8 << 20), ..MachineOverrides::default() };
    let used = |start: &str, kind: StartKind| {
        let out = path("r.parquet");
        let imported = import(&path("events.txt"), &out, &overrides, Some(&path(start))).unwrap();
        assert_eq!((imported.start, imported.unpaired.freed_from_before), (kind, 1), "{start}");
        let reader = Reader::open(&out).unwrap().admitted().unwrap();
        let rows = reader.rows().map(Result::unwrap).filter(|row| row.kind == Kind::StartAllocated);
        rows.map(|row| row.args[0]).sum::<i64>()
    };
    assert_eq!(used("flags", StartKind::PageFlags), 100);
    assert_eq!(used("owner", StartKind::PageOwner), 100);
    fs::rename(path("r.parquet"), path("before.parquet")).unwrap();
    assert_eq!(used("before.parquet", StartKind::Snapshot), 100);
    for bad in ["events.txt", "."] {
        let error =
            import(&path("events.txt"), &path("r.parquet"), &overrides, Some(&path(bad))).unwrap_err().to_string();
        assert!(error.contains(&path(bad).display().to_string()) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn missing_last_byte_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (cut, out) = (folder.path().join("cut"), folder.path().join("r.parquet"));
    // A text that ends after a complete line is not recognised as cut.
    for (name, ..) in COUNTS.iter().filter(|(name, ..)| !name.ends_with(".txt")) {
        let bytes = fs::read(sample(name)).unwrap();
        for (length, expected) in [(bytes.len(), false), (bytes.len() - 1, true)] {
            fs::write(&cut, &bytes[..length]).unwrap();
            let imported = import(&cut, &out, &MachineOverrides::default(), None);
            assert_eq!(imported.map_or(true, |imported| imported.is_cut), expected, "{name}");
        }
    }
}

#[test]
fn lost_events_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let event = |time: u64, what: &str| format!("sh-7 [000] d..2. 1.{time:06}: {what} pfn=0x1 order=0\n");
    let alloc = "mm_page_alloc: migratetype=1 gfp_flags=GFP_USER";
    let text =
        [event(1, alloc), "CPU:0 [LOST 12 EVENTS]\n".into(), event(2, alloc), event(3, "mm_page_free:")].concat();
    let imported = import_text(folder.path(), &text).unwrap();
    assert_eq!((imported.lost, imported.unpaired.allocated_twice, imported.unpaired.paired), (12, 1, 1));
    assert_eq!(events(&folder.path().join("r.parquet")).1.lost, 12);
}

#[test]
fn hostile_names_are_preserved() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["<script>", "\u{1b}[2Jx", "a\" b\\", "[1] 2.0: x:", "'; DROP"];
    let event =
        |name: &str, what: &str, time: usize| format!("{name}-{} [000] d..2. 1.{time:06}: {what} order=0\n", time + 10);
    let lines = names.iter().enumerate().flat_map(|(time, name)| {
        let pfn = time + 1;
        [
            event(name, &format!("mm_page_alloc: pfn={pfn:#x} migratetype=1 gfp_flags=GFP_USER"), time),
            event(name, &format!("mm_page_free: pfn={pfn:#x}"), time),
        ]
    });
    import_text(folder.path(), &lines.collect::<String>()).unwrap();
    let (rows, facts) = events(&folder.path().join("r.parquet"));
    let found: Vec<&str> = rows.iter().step_by(2).map(|row| facts.task_name(row.task)).collect();
    assert_eq!(found, names);
}

#[test]
fn invalid_import_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let event = |what: &str| format!("sh-7 [000] d..2. 1.000001: {what}\n");
    let alloc = event("mm_page_alloc: pfn=0x1 order=0 migratetype=1 gfp_flags=GFP_USER");
    let free = event("mm_page_free: pfn=0x1 order=0");
    let cases = [
        (String::new(), "is empty"),
        ("hello\n".to_owned(), "without an event line"),
        ("PAR1".to_owned(), "freehold inspect"),
        ("PERFILE2".to_owned(), "as perf.data: "),
        ("PERFFILE".to_owned(), "first version"),
        ("\u{17}\u{8}Dtracing8\0\0\u{8}\0\u{10}\0\0".to_owned(), "versions 6 and 7"),
        ("\u{17}\u{8}Dtracing6\0\0".to_owned(), "in the middle"),
        (event("sched_switch: a=1"), "kmem:mm_page_alloc"),
        (alloc.clone(), "no event kmem:mm_page_free"),
        (free.clone(), "no event kmem:mm_page_alloc"),
        (
            event("mm_page_alloc: pfn=0x1 order=99 migratetype=1 gfp_flags=none") + &free,
            "1 of its 1 mm_page_alloc cannot be used",
        ),
    ];
    for (text, expected) in cases {
        let error = import_text(folder.path(), &text).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("events.txt") && !error.contains('\n'), "{error}");
        assert!(!folder.path().join("r.parquet").exists());
    }
    let both = alloc + &free;
    assert!(import_text(folder.path(), &both).is_ok(), "both events together can be imported");
    let failed_only = event("mm_page_alloc: pfn=0x0 order=9 migratetype=1 gfp_flags=0") + &free;
    let imported = import_text(folder.path(), &failed_only).unwrap();
    assert_eq!(imported.events, 2);
    let (rows, _) = events(&folder.path().join("r.parquet"));
    assert_eq!(rows[0].pfn, NO_PFN);
}

/// Changes the sampling of an event of `perf.data` in all its descriptions. linux:
/// include/uapi/linux/perf_event.h:perf_event_attr
fn resampled(event: u64, period: u64, is_frequency: bool) -> Vec<u8> {
    let mut bytes = fs::read(sample("perf.data")).unwrap();
    let attr = |period: u64| -> Vec<u8> {
        [2_u32.to_ne_bytes(), 128_u32.to_ne_bytes()]
            .concat()
            .into_iter()
            .chain(event.to_ne_bytes())
            .chain(period.to_ne_bytes())
            .collect()
    };
    let wanted = attr(1);
    let places: Vec<usize> = (0..bytes.len() - 64).filter(|at| bytes[*at..].starts_with(&wanted)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + 24].copy_from_slice(&attr(period));
        // The flags are the sixth word, and `freq` is their bit 10.
        bytes[at + 41] |= u8::from(is_frequency) << 2;
    }
    bytes
}

#[test]
fn sampled_perf_events_are_refused_with_their_option() {
    const FREE: u64 = 0x28f;
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("perf.data"), folder.path().join("r.parquet"));
    for (period, is_frequency, part) in [(3, false, "`-c 3`"), (99, true, "`-F 99`"), (0, false, "`:S`")] {
        fs::write(&file, resampled(FREE, period, is_frequency)).unwrap();
        let error = import(&file, &out, &MachineOverrides::default(), None).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("mm_page_free") && error.contains("perf record -a"), "{error}");
    }
    fs::write(&file, resampled(FREE, 1, false)).unwrap();
    assert!(import(&file, &out, &MachineOverrides::default(), None).is_ok());
}

#[test]
fn recording_of_a_single_command_is_marked_partial() {
    for name in ["perf.data", "perf-zstd.data", "perf-script.txt"] {
        let (imported, _, facts) = imported(name);
        let partial = imported.partial.unwrap_or_default();
        assert!(partial.contains("only one command and its children"), "{name}: {partial}");
        assert!(facts.guesses.contains(&partial), "{name}");
        assert!(facts.tasks.iter().skip(1).all(|task| !task.name.is_empty()), "{name}: {:?}", facts.tasks);
    }
}

#[test]
fn events_missing_from_the_file_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("trace.dat"), folder.path().join("r.parquet"));
    let mut bytes = fs::read(sample("trace-v6.dat")).unwrap();
    let counted = b"read events: 145";
    let at = bytes.windows(counted.len()).position(|window| window == counted).unwrap();
    bytes[at..at + counted.len()].copy_from_slice(b"read events: 945");
    fs::write(&file, bytes).unwrap();
    let error = import(&file, &out, &MachineOverrides::default(), None).unwrap_err().to_string();
    assert!(error.contains("800 events that the kernel counted are missing in the file"), "{error}");
}
