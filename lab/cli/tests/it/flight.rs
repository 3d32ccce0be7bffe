//! The flight recorder on the kernel that the tests run on: recordings on request, its refusals, and its cleanup.
//!
//! Recording needs root and tracefs. Where these are missing, these tests print a message and pass.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command};

use crate::common::recorder::{Recorder, SmallDisk, can_record};
use crate::common::{Sandbox, assert_refused, freehold, json, stderr, text};
use freehold_trace::Reader;
use rustix::process::Signal;

/// The tests of this file run one at a time: a machine has one flight recorder.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A flight recorder in the background, and its stderr.
struct Flight {
    recorder: Recorder,
    said: BufReader<ChildStderr>,
}

impl Flight {
    /// Starts the recorder, and returns when it keeps events.
    fn start(arguments: &[&str]) -> Flight {
        let mut recorder = Recorder::start(&[&["record", "--flight", "20s"], arguments].concat());
        let said = BufReader::new(recorder.child.stderr.take().unwrap());
        let mut flight = Flight { recorder, said };
        flight.hear("keeping the last 20 s");
        flight
    }

    /// Waits for a line with these words, and returns everything that was printed until then.
    fn hear(&mut self, words: &str) -> String {
        let mut said = String::new();
        while !said.contains(words) {
            let read = self.said.read_line(&mut said).unwrap();
            assert!(read > 0, "the recorder ended without printing `{words}`: {said}");
        }
        said
    }

    fn end(mut self, signal: Signal) {
        self.recorder.signal(signal);
        assert!(self.recorder.child.wait().unwrap().success());
        assert!(!self.recorder.instance.exists());
    }
}

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn signal_writes_a_recording_that_every_command_reads() {
    let _alone = ALONE.lock();
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut flight =
        Flight::start(&["--on", "asked", "--tail", "0s", "--keep", "1", "--stacks=16", "--out", &sandbox.argument("")]);
    let refused = freehold(&["record", "--flight", "20s", "--out", &sandbox.argument("")]);
    assert_refused(&refused, "another flight recorder runs");
    for _ in 0..200 {
        Command::new("true").status().unwrap();
    }
    flight.recorder.signal(Signal::USR1);
    assert!(flight.hear("wrote ").contains("asked"));
    flight.recorder.signal(Signal::USR1);
    assert!(flight.hear("removed").contains("asked"));
    flight.end(Signal::INT);

    let [file] = &recordings(&sandbox.path(""))[..] else { panic!("exactly one recording may be left") };
    assert!(file.to_str().unwrap().ends_with("Z-asked.parquet"), "{file:?}");
    let reader = Reader::open(file).unwrap();
    let facts = reader.facts();
    let known = facts.flight.as_ref().expect("the facts must describe the flight");
    assert_eq!((known.triggers[0].what.as_str(), known.asked), ("asked", 20_000_000_000));
    assert!(known.triggers[0].time <= facts.duration && facts.duration < 60_000_000_000);
    assert_eq!(facts.stacks.as_ref().unwrap().period, 16);
    let name = file.display().to_string();
    assert!(text(&["inspect", &name, "--all"]).contains("rebuilt from the state at the end"));
    assert!(json(&["replay", &name, "--json", "-"]).is_object());
    text(&["compare", &name]);
}

/// A recording has no gaps, so the window restarts after tracing was switched off.
#[test]
fn externally_disabled_tracing_is_detected() {
    let _alone = ALONE.lock();
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut flight = Flight::start(&["--on", "asked", "--tail", "0s", "--out", &sandbox.argument("")]);
    let switch = flight.recorder.instance.join("tracing_on");
    fs::write(&switch, "0").unwrap();
    flight.hear("another program had switched tracing off");
    assert_eq!(fs::read_to_string(&switch).unwrap().trim(), "1");
    flight.recorder.signal(Signal::USR1);
    flight.hear("wrote ");
    flight.end(Signal::INT);
    let [file] = &recordings(&sandbox.path(""))[..] else { panic!("one file") };
    let facts = Reader::open(file).unwrap().facts().clone();
    assert!(facts.notes.iter().any(|note| note.contains("found tracing switched off")), "{:?}", facts.notes);
}

#[test]
fn full_disk_does_not_end_the_flight_recorder() {
    let _alone = ALONE.lock();
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(sandbox.path("disk")) else {
        return eprintln!("skipped: this machine does not mount a tmpfs");
    };
    let small = disk.folder.display().to_string();
    let spool = sandbox.argument("");
    let mut flight = Flight::start(&["--on", "asked", "--tail", "0s", "--spool", &spool, "--out", &small]);
    for _ in 0..2 {
        flight.recorder.signal(Signal::USR1);
        assert!(flight.hear("recording continues").contains("disk is"));
        assert_eq!(recordings(&disk.folder), Vec::<PathBuf>::new());
    }
    flight.end(Signal::TERM);
}

#[test]
fn next_flight_removes_leftovers_of_a_killed_recorder() {
    let _alone = ALONE.lock();
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let arguments = ["--on", "asked", "--out", &sandbox.argument("")];
    let mut killed = Flight::start(&arguments);
    killed.recorder.signal(Signal::KILL);
    killed.recorder.child.wait().unwrap();
    assert!(killed.recorder.instance.is_dir(), "a killed recorder leaves its instance");
    let next = Flight::start(&arguments);
    assert!(!killed.recorder.instance.exists());
    next.end(Signal::TERM);
    assert!(recordings(&sandbox.path("")).is_empty());
}

#[test]
fn flight_ends_with_its_command() {
    let _alone = ALONE.lock();
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    // The command requests a recording, and ends before the tail is over.
    let out = sandbox.argument("c-{time}.parquet");
    let output = freehold(&["record", "--flight", "20s", "--out", &out, "--", "sh", "-c", "true; kill -USR1 $PPID"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let [file] = &recordings(&sandbox.path(""))[..] else { panic!("{}", stderr(&output)) };
    assert_eq!(Reader::open(file).unwrap().facts().command.as_deref(), Some("sh"));
}

#[test]
fn invalid_flight_options_are_refused() {
    let _alone = ALONE.lock();
    assert_refused(&freehold(&["record", "--flight", "60s", "--out", "r.parquet"]), "make the folder");
    for (arguments, words) in [
        (["--flight", "60s", "--on", "oom"], "there is no trigger `oom`"),
        (["--flight", "60s", "--on", "psi=200%"], "is not a percentage"),
        (["--flight", "5 weeks", "--keep", "1"], "is not a unit of time"),
        (["--flight", "0s", "--keep", "1"], "give a time above 0"),
        (["--flight", "60s", "--ring", "4096"], "cannot be used with"),
        (["--duration", "1", "--keep", "1"], "--flight"),
        (["--duration", "1", "--stacks=3", "-q"], "is not a power of two"),
    ] {
        let output = freehold(&[&["record"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
    }
}

/// The systemd unit uses existing options.
#[test]
fn systemd_unit_uses_valid_options() {
    let _alone = ALONE.lock();
    if !can_record() {
        return;
    }
    let unit = include_str!("../../../record/systemd/freehold-flight.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/freehold ")).unwrap();
    let line = line.replace("/var/lib/freehold", "/no/such/folder/");
    let words: Vec<&str> = line.split(' ').collect();
    assert_refused(&freehold(&words), "there is no folder /no/such/folder/");
}
