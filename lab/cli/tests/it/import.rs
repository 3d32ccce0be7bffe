//! `freehold import` and `freehold export` as programs.
//!
//! The last tests record one run twice, with Freehold and with perf. They need root, tracefs and perf; where these are
//! missing, the tests print a message and pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::recorder::{SmallDisk, can_record};
use crate::common::{Sandbox, assert_refused, freehold, json, stderr, text};
use freehold_trace::{Kind, Reader, Row};

/// Returns the path of a file that a real tool has written.
fn sample(name: &str) -> String {
    format!("{}/../convert/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn imported_perf_data_is_replayed_with_its_guesses() {
    let sandbox = Sandbox::new();
    let out = sandbox.argument("r.parquet");
    let said = text(&["import", &sample("perf.data"), "--memory", "32GiB", "-o", &out]);
    assert!(said.contains("188 events") && said.contains("no event was lost"), "{said}");
    for (command, title) in [(&["inspect", &out, "--all"][..], "Guesses"), (&["replay", &out, "--all"], "Assumptions")]
    {
        let shown = text(command);
        let guesses = shown.rsplit(title).next().unwrap_or_default();
        assert!(guesses.contains("The state of memory at the start is unknown"), "{command:?}: {shown}");
    }
    assert!(text(&["replay", &out]).contains("partly guessed"));
    let comparison = ["compare", &out, "--b", "linux-6.12,pcp=merge"];
    assert!(text(&comparison).contains("partly guessed"));
    assert!(text(&[&comparison[..], &["--all"]].concat()).contains("The state of memory at the start"));
    assert_eq!(sandbox.listing(), ["r.parquet"]);
}

#[test]
fn import_json_reports_taken_and_skipped_events() {
    let sandbox = Sandbox::new();
    let out = sandbox.argument("r.parquet");
    let told = json(&["import", &sample("trace-v7-zstd.dat"), "-o", &out, "--json", "-"]);
    assert_eq!((&told["kinds"]["Alloc"], &told["kinds"]["Free"]), (&47.into(), &49.into()));
    assert_eq!(told["passed_over"]["kmem:mm_page_free_batched"], 45);
    assert_eq!((&told["start"], &told["lost"]), (&"drawn".into(), &0.into()));
    assert!(told["guesses"].as_array().is_some_and(|guesses| guesses.len() > 2));
    let drawn = json(&[
        "import",
        &sample("trace-v7-zstd.dat"),
        "--start",
        &out,
        "-o",
        &sandbox.argument("s.parquet"),
        "--json",
        "-",
    ]);
    assert_eq!(drawn["start"], "snapshot");
}

fn assert_import_refused(words: &[&str], part: &str) {
    assert_refused(&freehold(&[&["import"], words].concat()), part)
}

#[test]
fn invalid_import_is_refused_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let out = sandbox.argument("r.parquet");
    fs::write(sandbox.path("notes"), "hello\n").unwrap();
    let cut = fs::read(sample("perf.data")).unwrap();
    fs::write(sandbox.path("cut"), &cut[..cut.len() / 2]).unwrap();
    assert_import_refused(&[&sandbox.argument("none"), "-o", &out], "cannot read");
    assert_import_refused(&[&sandbox.argument("notes"), "-o", &out], "a text without an event line");
    assert_import_refused(&[&sandbox.argument("cut"), "-o", &out], "as perf.data: ");
    assert_import_refused(&[&sample("perf.data"), "-o", "/nowhere/r.parquet"], "/nowhere");
    assert_import_refused(&[&sample("perf.data"), "-o", &out, "--kernel", "14.1-RELEASE"], "not a known Linux release");
    assert_import_refused(&[&sample("perf.data"), "-o", &out, "--memory", "64MiB"], "--memory is 64 MiB");
    assert_import_refused(&[&sample("perf.data"), "-o", &out, "--cpus", "9"], "--cpus is 9");
    assert_import_refused(&[&sample("trace.txt"), "-o", &out, "--memory", "64MiB"], "give more");
    assert_import_refused(
        &[&sample("perf.data"), "-o", &out, "--start", &sandbox.argument("notes")],
        "has no state of memory",
    );
    assert_import_refused(&[&sandbox.argument("notes"), "-o", &sandbox.argument("notes")], "would be overwritten");
    assert_eq!(sandbox.listing(), ["cut", "notes"]);
}

#[test]
fn full_disk_during_import_leaves_nothing() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(sandbox.path("disk")) else {
        return eprintln!("skipped: this machine does not mount a tmpfs");
    };
    let out = disk.folder.join("r.parquet").display().to_string();
    // The first import has no room for the start state of 32 GiB, the second one none for buffered rows.
    assert_refused(&freehold(&["import", &sample("perf.data"), "--memory", "32GiB", "-o", &out]), "disk is full");
    let event =
        |time: u32, what: &str| format!("sh-7 [000] ..... 1.{time:06}: {what} pfn={:#x} order=0", 0x1000 + time / 2);
    let pair = |number: u32| {
        let alloc = event(2 * number, "mm_page_alloc:") + " migratetype=1 gfp_flags=GFP_KERNEL\n";
        alloc + &event(2 * number + 1, "mm_page_free:") + "\n"
    };
    fs::write(sandbox.path("long.txt"), (0..4000).map(pair).collect::<String>()).unwrap();
    assert_refused(&freehold(&["import", &sandbox.argument("long.txt"), "-o", &out]), "disk");
    assert_eq!(fs::read_dir(&disk.folder).unwrap().count(), 0);
}

#[test]
fn export_writes_chrome_and_pprof_files() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let (chrome, pprof) = (sandbox.argument("r.json"), sandbox.argument("r.pb.gz"));
    let said = text(&["export", &recording, "--chrome", &chrome, "--pprof", &pprof]);
    assert_eq!(said.lines().count(), 2, "{said}");
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(&chrome).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["ph"] == "C" && event["name"] == "pages allocated"));
    assert_eq!(fs::read(&pprof).unwrap()[..2], [0x1f, 0x8b]);
    assert_refused(&freehold(&["export", &recording, "--chrome", "/nowhere/x"]), "/nowhere/x");
    assert_refused(&freehold(&["export", &recording, "--chrome", &recording]), "would be overwritten");
    assert_refused(&freehold(&["export", &recording, "--chrome", &chrome, "--pprof", &chrome]), "the same target");
    assert_refused(&freehold(&["export", &sample("perf.data"), "--chrome", &chrome]), "perf.data");
    assert_eq!(freehold(&["export", &recording]).status.code(), Some(2), "a call without an output must be refused");
}

/// Events that both tools record.
const KINDS: [Kind; 5] = [Kind::Alloc, Kind::Free, Kind::ZoneLocked, Kind::PcpuDrain, Kind::ExtFrag];

/// Rows of the tasks with one name, by process ID. Such a task marks a run that both recordings contain from beginning
/// to end.
type Lives = BTreeMap<u32, Vec<Row>>;

fn lives(path: &Path, name: &str) -> Lives {
    let reader = Reader::open(path).unwrap().admitted().unwrap();
    assert_eq!(reader.facts().lost, 0, "{} has no gaps", path.display());
    let tasks = &reader.facts().tasks;
    let mut lives = Lives::new();
    for row in reader.rows().map(Result::unwrap) {
        let task = &tasks[row.task as usize];
        if KINDS.contains(&row.kind) && task.name == name {
            lives.entry(task.pid).or_default().push(row);
        }
    }
    lives
}

/// Returns the counts by kind and order that differ between two recordings, and the tasks whose events differ. The
/// order of events is ignored: an interrupt between the two tools' probes of one event puts its own events before that
/// event in one of the recordings only.
fn disagreements(one: &Lives, other: &Lives) -> Vec<String> {
    let (ours, theirs) = (count_by_kind(one), count_by_kind(other));
    let kinds = ours.keys().chain(theirs.keys()).filter(|key| ours.get(key) != theirs.get(key));
    let mut found: Vec<String> =
        kinds.map(|key| format!("{key:?}: {:?} and {:?}", ours.get(key), theirs.get(key))).collect();
    for (pid, rows) in one {
        let theirs = other.get(pid).map(Vec::as_slice).unwrap_or_default();
        if sort_events(rows) != sort_events(theirs) {
            found.push(format!("task {pid}: {} events and {}", rows.len(), theirs.len()));
        }
    }
    found
}

/// Compared fields of an event: kind, frame, order, flags, migrate type, CPU and arguments.
type Event = (Kind, u64, u8, u32, i8, u16, [i64; 3]);

/// Returns the events of a task without their times, in a canonical order.
fn sort_events(rows: &[Row]) -> Vec<Event> {
    let events = rows.iter().map(|row| (row.kind, row.pfn, row.order, row.gfp, row.migratetype, row.cpu, row.args));
    let mut sorted: Vec<Event> = events.collect();
    sorted.sort_unstable();
    sorted
}

/// Counts events by kind and order.
fn count_by_kind(lives: &Lives) -> BTreeMap<(Kind, u8), i32> {
    let mut counts = BTreeMap::new();
    lives.values().flatten().for_each(|row| *counts.entry((row.kind, row.order)).or_insert(0) += 1);
    counts
}

#[test]
fn freehold_and_perf_recordings_agree_in_every_count() {
    if !can_record() || !Command::new("perf").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: needs root, tracefs and perf");
        return;
    }
    let sandbox = Sandbox::new();
    let (ours, theirs) = (sandbox.argument("ours.parquet"), sandbox.argument("perf.data"));
    let program = assert_cmd::cargo::cargo_bin("freehold");
    // Everything that runs between the first `/bin/true` and the last one is in both recordings.
    let load = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done";
    let output = Command::new("perf")
        .args(["record", "-q", "-a", "-k", "CLOCK_MONOTONIC", "-m", "16M", "-e", "kmem:mm_page*", "-o", &theirs, "--"])
        .arg(program)
        .args(["record", "--quiet", "--out", &ours, "--", "sh", "-c", load])
        .output()
        .expect("perf runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let imported = sandbox.argument("theirs.parquet");
    let told = json(&["import", &theirs, "--start", &ours, "-o", &imported, "--json", "-"]);
    assert_eq!(
        (&told["lost"], &told["dropped_events"], &told["backward"]),
        (&0.into(), &0.into(), &0.into()),
        "{told}"
    );
    let (ours, theirs) = (lives(Path::new(&ours), "true"), lives(Path::new(&imported), "true"));
    let events: usize = ours.values().map(Vec::len).sum();
    assert!(ours.len() == 100 && events > 5_000, "{} tasks with {events} events", ours.len());
    assert_eq!(disagreements(&ours, &theirs), Vec::<String>::new());

    // Verifies that the comparison detects errors: a frame that is off by one, a wrong order, a missing event, and a
    // free that was counted twice.
    let pid = *theirs.keys().next().unwrap();
    let planted: [fn(&mut Vec<Row>); 4] = [
        |rows| rows[3].pfn += 1,
        |rows| rows[3].order += 1,
        |rows| _ = rows.remove(3),
        |rows| {
            let free = *rows.iter().find(|row| row.kind == Kind::Free).unwrap();
            rows.push(free);
        },
    ];
    for plant in planted {
        let mut wrong = theirs.clone();
        plant(wrong.get_mut(&pid).unwrap());
        assert!(!disagreements(&ours, &wrong).is_empty());
    }
}
