//! Tests of texts in other formats. Each gives the same rows as the plain text, or is refused with its format and a
//! suggested action.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_convert::{Import, ImportSummary, MachineOverrides};
use freehold_trace::{Kind, Row};

use crate::common::{events, import, import_text};

/// Returns the path of a text in the folder `data`.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data").join(name)
}

fn plain() -> String {
    fs::read_to_string(data("plain.txt")).unwrap()
}

/// Imports a file with these facts about its machine.
fn import_file(name: &str, overrides: &MachineOverrides) -> Result<(ImportSummary, Vec<Row>, Vec<String>), String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.parquet");
    let summary = import(&data(name), &out, overrides, None).map_err(|error| error.to_string())?;
    let (rows, facts) = events(&out);
    Ok((summary, rows, facts.tasks.into_iter().map(|task| task.name).collect()))
}

fn counts(summary: &ImportSummary) -> [u64; 2] {
    ["Alloc", "Free"].map(|kind| summary.kinds.get(kind).copied().unwrap_or(0))
}

/// Imports a text. Returns the error's sentence if it is refused, which must leave no file.
fn import_lines(text: &str) -> Result<ImportSummary, String> {
    let folder = tempfile::tempdir().unwrap();
    let imported = import_text(folder.path(), text).map_err(|error| error.to_string());
    if let Err(sentence) = &imported {
        assert!(!sentence.contains('\n') && !folder.path().join("r.parquet").exists(), "{sentence}");
    }
    imported
}

#[test]
fn every_text_form_yields_equal_rows() {
    let none = MachineOverrides::default();
    let (_, expected, _) = import_file("plain.txt", &none).unwrap();
    for name in ["crlf.txt", "latency-report.txt", "ftrace-dump.txt", "syslog.txt", "period.txt", "per-cpu.txt"] {
        let (summary, rows, tasks) = import_file(name, &none).unwrap();
        assert_eq!((counts(&summary), summary.dropped_events), ([40, 40], 0), "{name}");
        let differ = rows.iter().zip(&expected).filter(|(one, other)| !are_alike(one, other)).count();
        assert_eq!((rows.len(), differ), (expected.len(), 0), "{name}");
        assert_eq!(tasks, ["", "load"], "{name}");
    }
}

/// Returns whether rows are equal, except for a microsecond to which some formats round.
fn are_alike(one: &Row, other: &Row) -> bool {
    Row { time: 0, ..*one } == Row { time: 0, ..*other } && one.time.abs_diff(other.time) <= 1000
}

#[test]
fn carriage_returns_are_not_part_of_a_value() {
    let (summary, rows, _) = import_file("crlf-mixed.txt", &MachineOverrides::default()).unwrap();
    assert_eq!(summary.dropped_events, 0);
    let claims = rows.iter().filter(|row| row.kind == Kind::ExtFrag && row.args[2] == 1).count();
    assert_eq!(claims as u64, summary.kinds["ExtFrag"], "only claims may be marked as claims");
}

#[test]
fn unreadable_files_are_refused_with_advice() {
    let none = MachineOverrides::default();
    for (name, what, instead) in [
        ("utf16.txt", "UTF-16", "iconv"),
        ("no-cpu.txt", "40 of its 40 mm_page_alloc", "perf script -F comm,tid,cpu,time,event,trace"),
        ("above-1tib.txt", "40 of its 40 mm_page_alloc", "--memory"),
        ("half-above-1tib.txt", "20 of its 40 mm_page_alloc", "--memory"),
        ("reversed.txt", "in reverse order of time", "tac"),
        ("linux-3.2.txt", "before Linux 3.3", "5.0"),
        ("one-task.txt", "covers only one task, `load` (PID 77)", "record the whole machine"),
        ("kernel-log.txt", "kernel log", "freehold record"),
        ("latency-kernel.txt", "it has 14 mm_page_alloc", "record these two"),
    ] {
        let sentence = import_file(name, &none).unwrap_err();
        assert!(sentence.contains(what) && sentence.contains(instead), "{name}: {sentence}");
    }
}

#[test]
fn frames_above_1_tib_need_a_stated_memory_size() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.parquet");
    let zoneinfo = folder.path().join("zoneinfo");
    fs::write(&zoneinfo, "").unwrap();
    let with = |overrides: &MachineOverrides| import(&data("above-1tib.txt"), &out, overrides, None);
    let empty = with(&MachineOverrides { zoneinfo: Some(zoneinfo), ..MachineOverrides::default() });
    assert!(empty.unwrap_err().to_string().contains("zoneinfo"), "an empty file describes no machine");
    let huge = with(&MachineOverrides { memory: Some(20 << 40), ..MachineOverrides::default() });
    assert!(huge.unwrap_err().to_string().contains("16384 GiB"));
    let stated = Import::read(
        &data("above-1tib.txt"),
        &out,
        &MachineOverrides { memory: Some(1028 << 30), ..MachineOverrides::default() },
        None,
    );
    // The machine has the stated size, and a hole below 4 GiB. The drawn start state does not matter here.
    match stated {
        Ok(import) => assert!((1025 << 9..=1032 << 9).contains(&import.pageblocks()), "{}", import.pageblocks()),
        Err(error) => assert!(error.to_string().contains("larger machine"), "{error}"),
    }
}

#[test]
fn numeric_flags_are_classified() {
    let (summary, rows, _) = import_file("gfp-numbers.txt", &MachineOverrides::default()).unwrap();
    assert_eq!(counts(&summary), [11, 6]);
    let flags: Vec<u32> = rows.iter().filter(|row| row.kind == Kind::Alloc).map(|row| row.gfp).collect();
    assert!(flags.iter().all(|flags| flags & 0x800 == 0x800), "{flags:x?}");
    assert!(flags.contains(&0x44_0dc0) && flags.contains(&0x14_0dca), "{flags:x?}");
    assert!(summary.notes.iter().any(|note| note.contains("numbers")));
}

#[test]
fn cut_line_is_reported() {
    let (summary, ..) = import_file("cut-line.txt", &MachineOverrides::default()).unwrap();
    assert!(summary.is_cut && counts(&summary) == [10, 9], "{:?}", summary.kinds);
    // Cuts at the beginning and in the middle. A cut in the middle is refused if it affects more than one event in a
    // hundred.
    let text = plain();
    assert!(import_lines(&text[60..]).unwrap().is_cut);
    let holed = format!("{}\n{}", &text[..5000], &text[5040..]);
    let sentence = import_lines(&holed).unwrap_err();
    assert!(sentence.contains("cannot be used"), "{sentence}");
    assert!(!import_lines(&text).unwrap().is_cut);
    let unended = import_lines(text.trim_end()).unwrap();
    assert!(!unended.is_cut && unended.notes.iter().any(|note| note.contains("no end")), "{:?}", unended.notes);
}

#[test]
fn up_to_1_percent_damaged_lines_are_accepted() {
    // Each copy is later, and of other pages.
    let lines = |copies: usize| -> String {
        let copy = |number: usize| {
            plain()
                .replace(" 1000.", &format!(" {}.", 1000 + number))
                .replace("pfn=0x1", &format!("pfn=0x{}1", number + 1))
        };
        (0..copies).map(copy).collect()
    };
    let many = lines(5).replacen("order=0", "order=x", 1);
    let summary = import_lines(&many).unwrap();
    assert_eq!((summary.dropped_events, counts(&summary)), (1, [199, 200]));
    let row = &summary.dropped[0];
    assert!(
        row.reason.contains("`order`") && row.example.contains("order=x") && row.event == "mm_page_alloc",
        "{row:?}"
    );
    let few = plain().replacen("order=0", "order=x", 1);
    let sentence = import_lines(&few).unwrap_err();
    assert!(sentence.contains("1 of its 40 mm_page_alloc") && sentence.contains("order=x"), "{sentence}");
}

/// Changes of the plain text, and parts of the sentences with which they are refused.
#[test]
fn other_texts_are_read_or_refused_with_a_reason() {
    let text = plain();
    let clean = |text: String| {
        let summary = import_lines(&text).unwrap();
        assert_eq!((counts(&summary), summary.dropped.len()), ([40, 40], 0));
        summary
    };
    clean(format!("\u{feff}{text}"));
    clean(text.replace("load-77", "load-77   (     77)"));
    clean(text.replace("load-77", "<...>-77"));
    clean(text.replace(" ..... ", " "));
    clean(text.replace("load-77", "a b: [c]-77"));
    clean(text.replace(": mm_page", ":  (+12)   mm_page"));
    clean(text.replace("mm_page", "kmem:mm_page"));
    clean(text.replace("order=0", "order=0x0 (0)"));
    clean(
        text.replace(
            "          load-77   [000] ..... 1000.020000: ",
            "CPU:2 buffer started\n          load-77   [000] ..... 1000.020000: ",
        )
        .replace("CPU:2 buffer started", "##### CPU 2 buffer started ####"),
    );
    assert_eq!(clean(format!("CPU:2 [LOST 123 EVENTS]\r\n{text}")).lost, 123);
    assert_eq!(clean(format!("CPU:2 [5 EVENTS DROPPED]\n{text}")).lost, 5);
    assert_eq!(clean(format!("version = 6\ncpus=2\n{text}")).other_lines, 2);
    for (text, reason) in [
        (text.replace(" 1000.", " 1000000"), "ticks"),
        (text.replace(" 1000.", " -1000."), "negative"),
        (text.lines().map(|line| format!("{}\n", &line[line.find("mm_").unwrap()..])).collect(), "nocontext-info"),
        (text.replace("pfn=0x", "pfn=0xfffffffffffffffff"), "`pfn`"),
        (text.replace("pfn=0x", "pfn=0xffffff"), "1 TiB"),
        (text.replace("order=0", "order=99"), "order"),
        (text.replace("order=0 ", "order=-1 "), "order"),
        (text.replace("migratetype=1", "migratetype=77"), "`migratetype`"),
        (text.replace("GFP_HIGHUSER_MOVABLE", "GFP_HIGHUSER_MOVEABLE"), "`gfp_flags`"),
        (text.replace(" order=0", ""), "no value `order`"),
        (text.replace("order=0\n", "order=0 "), "two events"),
        (text.replace("          load-77", "1: host-a.example.org | load-77"), "before the task's name"),
        (format!("{text}{text}"), "twice"),
        (text.replace("[000]", "[99999]").replace("[001]", "[99999]"), "no task, CPU or time"),
        ("hello\n".repeat(50) + &text.replacen("mm_page_alloc", "x\nhello\nmm_page_alloc", 1), "cannot be used"),
        (text.replace("mm_page_free", "mm_page_freed"), "no event kmem:mm_page_free"),
        ("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n".to_owned(), "no event"),
        (" 0)               |  /* mm_page_free: page=0 pfn=0x1 order=0 */\n".to_owned(), "function_graph"),
        ("\0\u{1}\u{2}\0\u{fffd}".repeat(99), "unknown kind"),
    ] {
        let sentence = import_lines(&text).unwrap_err();
        assert!(sentence.contains(reason), "{reason}: {sentence}");
    }
}

#[test]
fn sampled_texts_are_refused() {
    let printed = plain().replace("mm_page", "7 kmem:mm_page");
    let sentence = import_lines(&printed).unwrap_err();
    assert!(sentence.contains("one event in 7") && sentence.contains("perf record -a"), "{sentence}");
    let heading = "# event : name = kmem:mm_page_free, , id = { 5 }, { sample_period, sample_freq } = 99, freq = 1\n";
    let sentence = import_lines(&format!("{heading}{}", plain())).unwrap_err();
    assert!(sentence.contains("99 events per second"), "{sentence}");
    let other = heading.replace("kmem:mm_page_free", "cycles");
    assert!(import_lines(&format!("{other}{}", plain())).is_ok(), "events that are not used may be sampled");
}

#[test]
fn orders_above_ten_are_accepted() {
    let event = |what: &str, time: usize| format!("load-77 [000] ..... 1000.{time:06}: {what}\n");
    let flags = "migratetype=1 gfp_flags=GFP_KERNEL";
    let text = event(&format!("mm_page_alloc: page=0 pfn=0x4000 order=13 {flags}"), 1)
        + &event("mm_page_free: page=0 pfn=0x4000 order=13", 2)
        + &event("mm_page_free: page=0 pfn=0x40000 order=18", 3);
    let folder = tempfile::tempdir().unwrap();
    let summary = import_text(folder.path(), &text).unwrap();
    assert_eq!((counts(&summary), summary.dropped_events), ([1, 2], 0));
    let (rows, _) = events(&folder.path().join("r.parquet"));
    let orders: Vec<u8> = rows.iter().map(|row| row.order).collect();
    assert_eq!(orders, [vec![13; 2], vec![13; 32]].concat(), "a huge page of 1 GiB is several blocks");
    assert_eq!(rows.last().map(|row| row.pfn), Some(0x80000 - (1 << 13)));
}

#[test]
fn user_options_must_not_contradict_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("events.txt"), folder.path().join("r.parquet"));
    let heading = "# os release : 6.18.4\n# arch : x86_64\n# nrcpus online : 4\n# total memory : 8000000 kB\n";
    let with = |heading: &str, overrides: MachineOverrides| {
        fs::write(&file, format!("{heading}{}", plain())).unwrap();
        import(&file, &out, &overrides, None).map(|summary| summary.cpus).map_err(|error| error.to_string())
    };
    let none = MachineOverrides::default;
    for (heading, overrides, option) in [
        ("", MachineOverrides { cpus: Some(1), ..none() }, "--cpus"),
        (heading, MachineOverrides { cpus: Some(8), ..none() }, "--cpus"),
        (heading, MachineOverrides { memory: Some(1 << 30), ..none() }, "--memory"),
        (heading, MachineOverrides { memory: Some(64 << 30), ..none() }, "--memory"),
        ("", MachineOverrides { memory: Some(1 << 20), ..none() }, "--memory"),
        (heading, MachineOverrides { kernel: Some("6.12.1".to_owned()), ..none() }, "--kernel"),
    ] {
        let sentence = with(heading, overrides).unwrap_err();
        assert!(sentence.contains(option) && !sentence.contains('\n'), "{option}: {sentence}");
    }
    let right = MachineOverrides { cpus: Some(4), memory: Some(8 << 30), kernel: Some("6.18.9".to_owned()), ..none() };
    assert_eq!(with(heading, right), Ok(4));
    assert_eq!(
        with("", MachineOverrides { cpus: Some(3), ..none() }),
        Ok(3),
        "the option must be used if the file lacks the number"
    );
}
