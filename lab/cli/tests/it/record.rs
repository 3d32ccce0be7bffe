//! The recorder on the kernel that the tests run on: a short command is recorded, read back and checked for
//! consistency.
//!
//! Recording needs root and tracefs. Where these are missing, these tests print a message and pass.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::recorder::{Recorder, SmallDisk, can_record};
use crate::common::{Sandbox, assert_refused, assert_refused_with, freehold, stderr};
use freehold_trace::event::NO_PFN;
use freehold_trace::{Kind, Reader, Row};
use rustix::process::Signal;

/// Script that starts two hundred processes, which causes a few ten thousand events.
const PROCESS_STARTS: &str = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";

/// Returns the ftrace instances whose recorder no longer exists.
fn orphans() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.strip_prefix("freehold-").is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        })
        .collect()
}

fn rows(reader: &Reader) -> Vec<Row> {
    reader
        .batches()
        .flat_map(|batch| {
            let batch = batch.expect("a fresh recording is whole");
            (0..batch.len()).map(|index| batch.row(index)).collect::<Vec<_>>()
        })
        .collect()
}

/// State of a frame according to the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Unknown,
    Free,
    Allocated,
}

/// The frames of a machine, and the number of events that contradicted them.
struct World {
    frames: Vec<Frame>,
    contradictions: u64,
}

impl World {
    fn set(&mut self, row: &Row, pages: u64, frame: Frame) {
        let end = (row.pfn + pages) as usize;
        if self.frames.len() < end {
            self.frames.resize(end, Frame::Unknown);
        }
        self.frames[row.pfn as usize..end].fill(frame);
    }

    /// Applies a row, after counting whether the block is in another state than the row implies.
    fn apply(&mut self, row: &Row) {
        let size = 1 << row.order;
        let before = self.frames.get(row.pfn as usize).copied();
        match row.kind {
            Kind::StartFree => self.set(row, size, Frame::Free),
            Kind::StartAllocated => self.set(row, (row.args[0] as u64) << row.order, Frame::Allocated),
            Kind::Alloc if row.pfn != NO_PFN => {
                self.contradictions += u64::from(before == Some(Frame::Allocated));
                self.set(row, size, Frame::Allocated);
            }
            Kind::ZoneLocked => {
                self.contradictions += u64::from(before == Some(Frame::Allocated));
                self.set(row, size, Frame::Unknown);
            }
            Kind::Free => {
                self.contradictions += u64::from(before == Some(Frame::Free));
                self.set(row, size, Frame::Unknown);
            }
            Kind::PcpuDrain => {
                self.contradictions += u64::from(matches!(before, Some(Frame::Free | Frame::Allocated)));
                self.set(row, size, Frame::Free);
            }
            _ => {}
        }
    }
}

#[test]
fn recorded_events_balance() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    let output = freehold(&["record", "--out", &file, "--", "sh", "-c", PROCESS_STARTS]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("sh: exit status: 0"), "{}", stderr(&output));
    let reader = Reader::open(sandbox.path("r.parquet")).unwrap();
    let rows = rows(&reader);
    let facts = reader.facts();
    assert_eq!((facts.command.as_deref(), facts.lost), (Some("sh"), 0));
    assert!(facts.zones_start.iter().any(|zone| zone.managed > 0 && !zone.pcp.is_empty()));
    assert!(facts.samples.len() >= 2 && facts.samples[0].vmstat.len() == facts.vmstat_names.len());

    let events = rows.iter().filter(|row| (row.kind as u8) < 64).count() as u64;
    assert!(events > 5_000, "{events} events of 200 process starts");
    let mut world = World { frames: Vec::new(), contradictions: 0 };
    rows.iter().for_each(|row| world.apply(row));
    // Other programs may meanwhile use bulk allocation and compaction, which make no events.
    assert!(world.contradictions * 100 <= events, "{} contradictions in {events} events", world.contradictions);
    assert!(orphans().is_empty(), "{:?}", orphans());
    assert_eq!(sandbox.listing(), ["r.parquet"], "only the recording may be left");
}

fn record_process_starts(sandbox: &Sandbox, name: &str, words: &[&str]) -> Reader {
    let file = sandbox.argument(name);
    let output = freehold(&[&["record", "--out", &file], words, &["--", "sh", "-c", PROCESS_STARTS]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    Reader::open(sandbox.path(name)).unwrap()
}

#[test]
fn only_requested_event_sets_are_recorded() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let usual = record_process_starts(&sandbox, "usual.parquet", &[]);
    assert!(rows(&usual).iter().all(|row| !row.kind.names_task()));
    let reader = record_process_starts(&sandbox, "all.parquet", &["--events", "reclaim,sched"]);
    let switches = rows(&reader).iter().filter(|row| row.kind == Kind::SchedSwitch).count();
    assert!(switches > 200, "{switches} switches of 200 process starts");
    let facts = reader.facts();
    let sample = facts.samples.last().expect("the recording must contain samples");
    assert_eq!(sample.pressure.len(), facts.pressure_names.len());
    assert_eq!(sample.zones.len(), facts.zones_start.len());
    assert!(sample.zones.iter().all(|zone| zone.len() == facts.zone_counter_names.len() && zone.len() > 9));
}

#[test]
fn only_names_of_the_commands_tasks_are_kept() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    let output = freehold(&["record", "--quiet", "--out", &file, "--", "sh", "-c", PROCESS_STARTS]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let reader = Reader::open(sandbox.path("r.parquet")).unwrap();
    let tasks = &reader.facts().tasks;
    let names: BTreeSet<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert!(["freehold", "other", "sh", "true"].into_iter().all(|name| names.contains(name)));
    let own = std::process::id();
    assert!(
        tasks.iter().filter(|task| task.pid == own).all(|task| task.name == "other"),
        "this process must be recorded as `other`"
    );
}

#[test]
fn ctrl_c_keeps_the_recording() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    // The command interrupts its recorder, and would then run for ever.
    let output = freehold(&["record", "--out", &file, "--", "sh", "-c", "kill -INT $PPID; exec tail -f /dev/null"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("signal: 15"), "the command must get SIGTERM: {}", stderr(&output));
    Reader::open(sandbox.path("r.parquet")).unwrap();
    assert!(orphans().is_empty(), "{:?}", orphans());
}

#[test]
fn ctrl_c_during_the_first_scan_keeps_nothing() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let (file, ran) = (sandbox.argument("r.parquet"), sandbox.argument("ran"));
    let recorder = Recorder::start(&["record", "--out", &file, "--", "touch", &ran]);
    recorder.signal(Signal::INT);
    let output = recorder.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing was kept"), "{}", stderr(&output));
    assert!(!recorder.instance.exists());
    assert!(sandbox.listing().is_empty(), "{:?}", sandbox.listing());
}

#[test]
fn second_ctrl_c_discards_the_recording() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    // The command interrupts its recorder, and once more when it receives SIGTERM.
    let script = "trap 'kill -INT $PPID; kill $!; exit' TERM; tail -f /dev/null & kill -INT $PPID; wait";
    let recorder = Recorder::start(&["record", "--out", &file, "--", "sh", "-c", script]);
    let output = recorder.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(sandbox.listing().is_empty(), "{:?}", sandbox.listing());
    assert!(!recorder.instance.exists());
}

#[test]
fn tracefs_is_unmounted_after_the_recording() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let program = assert_cmd::cargo::cargo_bin("freehold");
    let script = format!(
        "umount /sys/kernel/tracing || exit 9; {} record --quiet --duration 0.01 --out {} || exit 8; \
         grep -q ' /sys/kernel/tracing ' /proc/mounts && exit 7; exit 0",
        program.display(),
        sandbox.argument("r.parquet")
    );
    let status = Command::new("unshare").args(["--mount", "sh", "-c", &script]).status();
    match status.ok().and_then(|status| status.code()) {
        None | Some(1 | 9) => eprintln!("skipped: tracefs cannot be unmounted in a namespace of ours"),
        code => assert_eq!(code, Some(0)),
    }
}

#[test]
fn recording_ends_after_its_duration() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    let output = freehold(&["record", "--duration", "0.01", "--out", &file]);
    assert!(output.status.success(), "{}", stderr(&output));
    let reader = Reader::open(sandbox.path("r.parquet")).unwrap();
    assert_eq!(reader.facts().command, None);
    assert!(reader.facts().duration >= 10_000_000);
}

#[test]
fn exit_status_of_the_command_is_passed_on() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    for (number, (script, code, ending)) in
        [("exit 7", 7, "sh: exit status: 7"), ("kill -KILL $$", 137, "sh: signal: 9")].into_iter().enumerate()
    {
        let name = format!("{number}.parquet");
        let output = freehold(&["record", "--out", &sandbox.argument(&name), "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(ending) && stderr(&output).contains(&name), "{}", stderr(&output));
        Reader::open(sandbox.path(&name)).unwrap();
    }
}

#[test]
fn command_that_the_time_limit_ends_is_no_failure() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    let output = freehold(&["record", "--duration", "0.01", "--out", &file, "--", "tail", "-f", "/dev/null"]);
    assert!(output.status.success() && stderr(&output).contains("tail: signal: 15"), "{}", stderr(&output));
}

#[test]
fn failed_recording_leaves_nothing() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    assert_refused_with(127, &freehold(&["record", "--out", &file, "--", "no-such-program"]), "`no-such-program`");
    assert_refused(&freehold(&["record", "--out", &sandbox.argument("no/such/folder/r")]), "no/such/folder");
    fs::write(sandbox.path("script"), "not a program").unwrap();
    let script = sandbox.argument("script");
    assert!(Command::new("chmod").args(["+x", &script]).status().unwrap().success());
    assert_refused_with(126, &freehold(&["record", "--out", &file, "--", "/etc/passwd"]), "`/etc/passwd`");
    assert_refused_with(126, &freehold(&["record", "--out", &file, "--", &script]), "cannot start the program");
    assert_eq!(sandbox.listing(), ["script"]);
    assert!(orphans().is_empty(), "{:?}", orphans());
}

#[test]
fn full_disk_during_recording_leaves_nothing() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(sandbox.path("disk")) else {
        eprintln!("skipped: this machine does not mount a tmpfs");
        return;
    };
    let small = disk.folder.display().to_string();
    let output = freehold(&["record", "--spool", &small, "--out", &sandbox.argument("r.parquet"), "--", "true"]);
    assert_refused(&output, "--spool");
    let output =
        freehold(&["record", "--spool", &sandbox.argument(""), "--out", &format!("{small}/r.parquet"), "--", "true"]);
    assert_refused(&output, "disk is full");
    assert_eq!(fs::read_dir(&disk.folder).unwrap().count(), 0);
    assert!(orphans().is_empty(), "{:?}", orphans());
}
