//! Recordings that no machine could have made. Every command that opens one refuses it with exit status 2, in one
//! sentence that names the impossible property.
//!
//! A small valid recording is damaged in one way at a time, without the checks of the real writer. A further test
//! verifies the harness: for an undamaged recording, it must name every command.

use crate::common::{Sandbox, assert_refused, facts, freehold, raw, rows, stderr};
use freehold_trace::event::class;
use freehold_trace::facts::{TypeFacts, ZoneFacts};
use freehold_trace::{Facts, Kind, Row};

/// Name of a case, the damage, and a part of the sentence that refuses it.
type Case = (&'static str, fn(&mut Vec<Row>, &mut Facts), &'static str);

/// Row of an allocation.
const EVENT: usize = 1000;
/// Frame after the last frame of the machine.
const END: u64 = 32_768;

const CASES: &[Case] = &[
    ("no start state", |rows, _| rows.retain(|row| row.kind as u8 <= 63), "there is no start state"),
    ("no free block", |rows, _| rows.retain(|row| row.kind != Kind::StartFree), "there is no start state"),
    (
        "overlapping free blocks",
        |rows, _| rows.insert(1, free(4096 + 512, 9)),
        "repeats frame 4608 (`pfn`) of an earlier row",
    ),
    (
        "a thousand blocks on a frame",
        |rows, _| rows.splice(1..1, [free(5, 0); 1000]).for_each(drop),
        "repeats frame 5 (`pfn`) of an earlier row",
    ),
    (
        "in use and free",
        |rows, _| rows.insert(1, allocated(4096 + 5, 3)),
        "repeats frame 4101 (`pfn`) of an earlier row",
    ),
    ("a free block between two places", |rows, _| rows[3].pfn += 1, "not a multiple of the size of order 10"),
    ("a type of an event", |rows, _| rows[EVENT].migratetype = 99, "`migratetype` is 99, but must be from -1 to 5"),
    ("a type of a free block", |rows, _| rows[2].migratetype = 6, "`migratetype` is 6, but must be from -1 to 5"),
    ("pageblocks of another size", |_, facts| facts.pageblock_order = 7, "must be 9 or 10 on x86_64 before Linux 6.16"),
    ("pageblocks of one page", |_, facts| facts.pageblock_order = 0, "`pageblock_order` is 0"),
    (
        "pageblocks above blocks",
        |_, facts| facts.pageblock_order = 11,
        "must be from 1 to 10, the highest order of the kernel",
    ),
    ("pageblocks without bounds", |_, facts| facts.pageblock_order = 255, "`pageblock_order` is 255"),
    ("fewer pageblocks than memory", |_, facts| facts.pagetypeinfo_start = vec![pageblocks(3)], "have only 1536 pages"),
    ("five nanoseconds", |_, facts| facts.duration = 5, "`duration` in the facts: 5 ns"),
    ("no time at all", |_, facts| facts.duration = 0, "`duration` is 0 ns"),
    ("no page size", |_, facts| facts.page_size = 0, "`page_size` is 0"),
    ("an odd page size", |_, facts| facts.page_size = 5000, "`page_size` is 5000"),
    ("a huge page size", |_, facts| facts.page_size = 1 << 20, "`page_size` is 1048576"),
    ("no CPU", |_, facts| facts.cpus = 0, "there is no CPU"),
    ("no zone", |_, facts| facts.zones_start.clear(), "there is no zone with memory"),
    ("more present than spanned", |_, facts| facts.zones_start[0].present += 1, "each number must be at most the next"),
    (
        "more managed than present",
        |_, facts| facts.zones_end[0].managed += 9999,
        "each number must be at most the next",
    ),
    ("watermarks that go down", |_, facts| facts.zones_start[0].high = 1, "has the watermarks 128, 160, 1"),
    ("zones with common frames", share_frames, "have frames in common"),
    ("a zone beyond all", |_, facts| facts.zones_start[0].start_pfn = u64::MAX, "ends beyond frame 2^52"),
    ("order 40", |rows, _| rows[EVENT].order = 40, "`order` is 40, but must be from 0 to 10"),
    ("order 11", |rows, _| rows[EVENT].order = 11, "`order` is 11, but must be from 0 to 10"),
    ("order 64 in use", |rows, _| rows[0].order = 64, "`order` is 64, but must be from 0 to 63"),
    ("an event outside of memory", |rows, _| rows[EVENT].pfn = END, "from frame 32768 (`pfn`) on"),
    ("a block half outside", |rows, _| (rows[EVENT].pfn, rows[EVENT].order) = (END - 1, 1), "in no zone and in no RAM"),
    ("a start outside of memory", |rows, _| rows.insert(1, free(1 << 40, 3)), "in no zone and in no RAM"),
    ("a run that leaves memory", |rows, _| rows[0].args[0] = 1 << 40, "in no zone and in no RAM"),
    (
        "no frame at all",
        |rows, _| rows[EVENT].pfn = 1 << 52,
        "`pfn` is 4503599627370496, but must be -1, or a frame below",
    ),
    ("shuffled under sorted times", |rows, _| shuffle(rows), "the rows are not in the order of the events"),
    ("time that goes back", |rows, _| rows[EVENT].time = 7, "its time 7 ns is before"),
    (
        "an event among the state",
        |rows, _| rows.swap(2, EVENT),
        "is out of order: rows of the start state must be first",
    ),
    ("a task of nobody", |rows, _| rows[EVENT].task = 77, "`task` is 77, but must be below 3"),
    ("a CPU that is not there", |rows, _| rows[EVENT].cpu = 77, "`cpu` is 77, but must be below 2"),
];

fn free(pfn: u64, order: u8) -> Row {
    Row { pfn, order, ..Row::new(Kind::StartFree) }
}

fn allocated(pfn: u64, pages: i64) -> Row {
    Row { pfn, args: [pages, class::ANON, 0], ..Row::new(Kind::StartAllocated) }
}

fn pageblocks(pageblocks: u64) -> TypeFacts {
    TypeFacts { zone: "Normal".to_owned(), pageblocks, ..TypeFacts::default() }
}

fn share_frames(_: &mut Vec<Row>, facts: &mut Facts) {
    let mut other = facts.zones_start[0].clone();
    (other.name, other.start_pfn) = ("Movable".to_owned(), 512);
    facts.zones_start.push(other);
}

/// Permutes the events, and keeps the times in order.
fn shuffle(rows: &mut [Row]) {
    let first = rows.iter().position(|row| row.kind == Kind::Alloc).expect("the recording must contain events");
    let times: Vec<u64> = rows[first..].iter().map(|row| row.time).collect();
    let mut number = 1_u64;
    rows[first..].sort_by_cached_key(|_| {
        number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        number >> 33
    });
    rows[first..].iter_mut().zip(times).for_each(|(row, time)| row.time = time);
}

/// Returns the arguments of every command that opens a recording, with this recording.
fn commands<'f>(bad: &'f str, good: &'f str) -> [Vec<&'f str>; 6] {
    let quick = ["--quick", "--cpus", "2"];
    [
        vec!["inspect", bad],
        vec!["diff", bad, good],
        vec!["diff", good, bad],
        vec!["replay", bad],
        vec!["compare", bad],
        [&["sim", "recording", bad][..], &quick].concat(),
    ]
}

/// Returns the commands that do not refuse a recording with this damage, and their output.
fn gaps(sandbox: &Sandbox, spoil: impl Fn(&mut Vec<Row>, &mut Facts), says: &str) -> Vec<String> {
    let (mut rows, mut facts) = (rows(), facts());
    spoil(&mut rows, &mut facts);
    raw::write_unchecked(&sandbox.path("bad.parquet"), &rows, &facts);
    let (bad, good) = (sandbox.argument("bad.parquet"), sandbox.recording("good.parquet"));
    let mut gaps = Vec::new();
    for arguments in commands(&bad, &good) {
        let output = freehold(&arguments);
        let said = stderr(&output);
        let is_one_sentence = said.starts_with("freehold: ") && said.lines().count() == 1;
        let refused = output.status.code() == Some(2) && output.stdout.is_empty() && is_one_sentence;
        if !refused || !said.contains(says) {
            gaps.push(format!("{} {:?}: {said}", arguments[0], output.status.code()));
        }
    }
    gaps
}

#[test]
fn contradictory_recordings_are_refused_by_every_command() {
    let sandbox = Sandbox::new();
    let gaps: Vec<_> = CASES
        .iter()
        .flat_map(|(name, spoil, says)| {
            gaps(&sandbox, spoil, says).into_iter().map(move |gap| format!("{name}: {gap}"))
        })
        .collect();
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn missing_check_is_detected() {
    let sandbox = Sandbox::new();
    let gaps = gaps(&sandbox, |_, facts| facts.duration *= 100, "");
    let names: Vec<_> = gaps.iter().map(|gap| gap.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(names, ["inspect", "diff", "diff", "replay", "compare", "sim"], "{gaps:?}");
    assert!(
        gaps.iter().all(|gap| gap.contains("Some(0)")),
        "every command must accept the unspoiled recording: {gaps:?}"
    );
}

#[test]
fn foreign_writer_is_reported_with_the_format_document() {
    let sandbox = Sandbox::new();
    let (mut rows, facts) = (rows(), facts());
    rows[EVENT].order = 40;
    raw::write_unchecked(&sandbox.path("bad.parquet"), &rows, &facts);
    let output = freehold(&["inspect", &sandbox.argument("bad.parquet")]);
    assert_refused(&output, "row 1000 of ");
    assert_refused(
        &output,
        "; the file was written by parquet-rs version 60.1.0, which must follow Columns in FORMAT.md",
    );
    // This recording is from the real writer.
    let ours = sandbox.recording_with("ours.parquet", &Facts { page_size: 0, ..facts });
    assert_refused(&freehold(&["replay", &ours]), "a power of two; record again");
}

/// Replaces bytes that occur in the recording once with other bytes of equal length.
fn patch(sandbox: &Sandbox, from: &[u8], to: &[u8]) {
    raw::write_unchecked(&sandbox.path("bad.parquet"), &rows(), &facts());
    let mut bytes = std::fs::read(sandbox.path("bad.parquet")).expect("the file was just written");
    let places: Vec<_> = (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert_eq!((places.len(), from.len()), (1, to.len()), "{from:?}");
    bytes[places[0]..places[0] + to.len()].copy_from_slice(to);
    std::fs::write(sandbox.path("bad.parquet"), bytes).expect("the folder can be written");
}

/// Asserts that every command refuses the bad recording, with this part in its sentence.
fn assert_all_refuse(sandbox: &Sandbox, part: &str) {
    let (bad, good) = (sandbox.argument("bad.parquet"), sandbox.recording("good.parquet"));
    for arguments in commands(&bad, &good) {
        assert_refused(&freehold(&arguments), part);
    }
}

#[test]
fn unsupported_codec_or_encoding_is_reported() {
    let sandbox = Sandbox::new();
    // The description of a column: its name, then the codec (0 none, 2 GZIP) as a zigzag number.
    patch(&sandbox, b"\x18\x04time\x15\x00", b"\x18\x04time\x15\x04");
    assert_all_refuse(
        &sandbox,
        "the column `time` has the codec GZIP, which this program does not read; write the file again with ZSTD",
    );
    // The last of the encodings (8 RLE_DICTIONARY, 7 DELTA_BYTE_ARRAY), then the name.
    patch(&sandbox, b"\x10\x19\x18\x03pfn", b"\x0e\x19\x18\x03pfn");
    assert_all_refuse(&sandbox, "the column `pfn` has the encoding DELTA_BYTE_ARRAY, which this program does not read");
}

#[test]
fn invalid_utf8_is_refused() {
    let sandbox = Sandbox::new();
    patch(&sandbox, b"6.12.1-test", b"6.12.1-\xff\xfe\x80t");
    assert_all_refuse(&sandbox, "bad.parquet");
}

/// Text that is hostile to terminals: colours, a cleared screen, a title, new lines, a backspace, right-to-left
/// override.
const HOSTILE: &str = "x\u{1b}[31m\u{1b}[2J\u{1b}]0;title\u{7}\r\n\u{8}\u{9b}2J\u{202e}\0\u{85}";

/// Returns facts with this text in every field whose contents are not checked.
fn spoken(text: &str) -> Facts {
    let text = text.to_owned();
    let mut facts = facts();
    facts.writer.clone_from(&text);
    facts.machine.clone_from(&text);
    facts.command = Some(text.clone());
    facts.kernel_release = format!("6.12.1-{text}");
    facts.tasks.iter_mut().for_each(|task| task.name.clone_from(&text));
    facts.settings.insert(text.clone(), text.clone());
    facts.settings.insert("vm.min_free_kbytes".to_owned(), text.clone());
    facts.gfp_names.insert(text.clone(), 1);
    facts.vmstat_names = vec![text.clone()];
    facts.notes = vec![text.clone()];
    facts.zones_start.push(ZoneFacts { name: text.clone(), node: 1, ..facts.zones_start[0].clone() });
    facts.pagetypeinfo_start = vec![TypeFacts { zone: text, ..TypeFacts::default() }];
    facts
}

fn assert_harmless(bytes: &[u8], arguments: &[&str]) {
    let text = std::str::from_utf8(bytes).expect("the text must be UTF-8");
    let found = text.chars().find(|letter| (letter.is_control() && *letter != '\n') || *letter == '\u{202e}');
    assert_eq!(found, None, "{arguments:?}");
}

#[test]
fn hostile_texts_are_escaped_in_all_output() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording("good.parquet");
    for text in [HOSTILE.to_owned(), "long".repeat(1 << 18), format!("\u{1b}{}", "\n".repeat(1 << 16))] {
        let bad = sandbox.recording_with("hostile.parquet", &spoken(&text));
        for arguments in commands(&bad, &good) {
            let output = freehold(&arguments);
            assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
            assert_harmless(&output.stdout, &arguments);
            assert_harmless(&output.stderr, &arguments);
            assert!(output.stdout.len() < 1 << 20, "{arguments:?}: {} bytes", output.stdout.len());
        }
    }
}

#[test]
fn hostile_names_and_arguments_are_escaped_in_all_output() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording("good.parquet");
    let hostile = sandbox.recording("a\u{1b}[2J\nb.parquet");
    let nowhere = sandbox.argument("no\u{1b}[2J\nwhere.parquet");
    let policy = format!("linux-6.12,{HOSTILE}=1").replace('\0', "");
    let unknown = sandbox.recording_with("unknown.parquet", &Facts { kernel_release: HOSTILE.to_owned(), ..facts() });
    for arguments in commands(&hostile, &good) {
        let output = freehold(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        // A simulation repeats the command as it was typed, so that it can be typed again.
        if arguments[0] != "sim" {
            assert_harmless(&output.stdout, &arguments);
        }
    }
    for arguments in commands(&nowhere, &good) {
        assert_refused(&freehold(&arguments), "where.parquet");
    }
    for arguments in [vec!["replay", &good, "--policy", &policy], vec!["compare", &good, "--b", &policy]] {
        assert_refused(&freehold(&arguments), "policies have no field `x");
        assert_harmless(&freehold(&arguments).stderr, &arguments);
    }
    let output = freehold(&["inspect", &unknown]);
    assert_refused(&output, "which is not a Linux version that this program supports");
    assert_harmless(&output.stderr, &["inspect"]);
}
