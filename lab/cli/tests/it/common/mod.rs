//! Shared code of the command-line tests: running the program, and small recordings to run it on.

#![allow(dead_code, reason = "each test file uses its own part of this module")]

pub(crate) mod browser;
pub(crate) mod raw;
pub(crate) mod recorder;
pub(crate) mod sweep;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Once;

use assert_cmd::Command;
use freehold_trace::event::{NO_PFN, class, migratetype};
use freehold_trace::facts::{Sample, Task, ZoneFacts};
use freehold_trace::{Facts, Kind, Row, Writer};
use serde_json::Value;
use tempfile::TempDir;

/// Pages of the machine in the recordings.
const PAGES: u64 = 32_768;

/// Commands that need the malloc's library beside the program.
const NEED_LIBRARY: [&str; 3] = ["bench", "heap", "run"];

/// Runs `freehold` with these arguments. The current folder does not contain the bundled recordings.
pub(crate) fn freehold(arguments: &[&str]) -> Output {
    if arguments.first().is_some_and(|command| NEED_LIBRARY.contains(command)) {
        build_library();
    }
    let mut command = Command::cargo_bin("freehold").expect("the binary is built with the tests");
    command.env_remove("NO_COLOR").env_remove("COLUMNS").args(arguments).output().expect("the binary runs")
}

/// Builds the malloc's library with the profile for distribution, and puts it beside the program under test, once for
/// all tests.
pub(crate) fn build_library() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let program = assert_cmd::cargo::cargo_bin("freehold");
        let folder = program.parent().expect("the program is in the profile's folder");
        let target = folder.parent().expect("the profile's folder is in the target folder");
        let mut build = std::process::Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "freehold-preload", "--profile", "preload", "--target-dir"]);
        let status = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
        assert!(status.success(), "the library is built");
        let (made, place) = (folder.join("libfreehold.so.new"), folder.join("libfreehold.so"));
        fs::copy(target.join("preload/libfreehold_preload.so"), &made).expect("the library can be copied");
        fs::rename(made, place).expect("the library can be renamed");
    });
}

/// Returns the stdout of a run, which must succeed, as JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = freehold(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("stdout is JSON and nothing else")
}

/// Returns the stdout of a run, which must succeed, as text.
pub(crate) fn text(arguments: &[&str]) -> String {
    let output = freehold(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("stdout is UTF-8")
}

/// Returns the stderr of a run.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that a run was refused: exit status 2, nothing on stdout, and one sentence on stderr that contains `part`.
/// On a busy machine, progress lines precede the sentence if the run takes more than ten seconds.
pub(crate) fn assert_refused(output: &Output, part: &str) {
    assert_refused_with(2, output, part);
}

/// Asserts what [`assert_refused`] asserts, with another exit status.
pub(crate) fn assert_refused_with(code: i32, output: &Output, part: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(output.stdout.is_empty(), "partial output: {}", String::from_utf8_lossy(&output.stdout));
    let sentences: Vec<&str> = said.lines().filter(|line| !line.contains(" %, ")).collect();
    assert!(said.ends_with('\n') && sentences.len() == 1 && sentences[0].starts_with("freehold: "), "{said}");
    assert!(sentences[0].contains(part), "no {part:?} in {said:?}");
}

/// A temporary folder for recordings.
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// Creates an empty folder.
    pub(crate) fn new() -> Sandbox {
        Sandbox { folder: TempDir::new().expect("a temporary folder can be made") }
    }

    /// Returns the path of `name` in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of `name` in the folder, as an argument.
    pub(crate) fn argument(&self, name: &str) -> String {
        self.path(name).to_str().expect("the temporary folder's name is UTF-8").to_owned()
    }

    /// Writes the small recording, and returns its path as an argument.
    pub(crate) fn recording(&self, name: &str) -> String {
        self.recording_with(name, &facts())
    }

    /// Writes the small recording with other facts.
    pub(crate) fn recording_with(&self, name: &str, facts: &Facts) -> String {
        write(&self.path(name), &rows(), facts);
        self.argument(name)
    }

    /// Returns the names of everything in the folder, sorted.
    pub(crate) fn listing(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder is there");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Writes a recording.
pub(crate) fn write(path: &Path, rows: &[Row], facts: &Facts) {
    let mut writer = Writer::create(path).expect("the folder can be written");
    for row in rows {
        writer.push(row).expect("the rows are valid");
    }
    writer.finish(facts).expect("the disk has room");
}

/// Returns the facts of a machine with two CPUs and 128 MiB in one zone.
pub(crate) fn facts() -> Facts {
    let zone = ZoneFacts {
        name: "Normal".to_owned(),
        spanned: PAGES,
        present: PAGES,
        managed: PAGES - 1024,
        free: PAGES - 2048,
        min: 128,
        low: 160,
        high: 192,
        protection: vec![0; 4],
        ..ZoneFacts::default()
    };
    Facts {
        writer: "test".to_owned(),
        kernel_release: "6.12.1-test".to_owned(),
        machine: "x86_64".to_owned(),
        page_size: 4096,
        pageblock_order: 9,
        cpus: 2,
        duration: 1_000_000_000,
        tasks: ["", "cc1", "ld"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec(),
        ram: vec![(0, PAGES)],
        zones_start: vec![zone.clone()],
        zones_end: vec![zone],
        vmstat_names: vec!["pgfree".to_owned()],
        samples: vec![sample_at(0, 10), sample_at(1_000_000_000, 4010)],
        ..Facts::default()
    }
}

/// Returns the counters at a moment.
fn sample_at(time: u64, pgfree: u64) -> Sample {
    Sample { time, vmstat: vec![pgfree], buddyinfo: vec![vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30]], ..Sample::default() }
}

/// Returns a few thousand allocations and frees on a machine whose first 2048 pages are allocated at the start.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![Row { pfn: 0, args: [2048, class::LRU | class::ANON, 0], ..Row::new(Kind::StartAllocated) }];
    rows.extend((2..PAGES / 1024).map(|block| Row {
        pfn: block * 1024,
        order: 10,
        migratetype: migratetype::MOVABLE,
        ..Row::new(Kind::StartFree)
    }));
    rows.push(Row {
        pfn: 0,
        migratetype: migratetype::MOVABLE,
        args: [2, (PAGES / 512) as i64, 0],
        ..Row::new(Kind::StartPageblock)
    });
    let mut time = 0;
    for round in 0..2000 {
        time += 1000;
        let pfn = 2048 + round % 500;
        rows.push(Row { gfp: 0x10_0cca, migratetype: migratetype::MOVABLE, ..event_at(time, Kind::Alloc, pfn) });
        rows.push(event_at(time + 500, Kind::Free, pfn));
    }
    rows.push(Row { gfp: 0xcc0, order: 9, migratetype: 0, ..event_at(time + 600, Kind::Alloc, NO_PFN) });
    rows.push(event_at(time + 700, Kind::Free, 5));
    rows
}

/// Returns an event on one of the two CPUs.
fn event_at(time: u64, kind: Kind, pfn: u64) -> Row {
    Row { time, pfn, cpu: (time / 7 % 2) as u16, task: 1, ..Row::new(kind) }
}
