//! `freehold age --apply` as a program: its refusals, the memory it holds, and the cleanup after every kind of end.
//!
//! Fragmenting memory needs root, a kernel that shows frame numbers, and free memory. Elsewhere these tests print a
//! message and pass. They fragment little memory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::{assert_refused, assert_refused_with, freehold, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Free memory that these tests require, in MiB.
const FREE_MIB: u64 = 1024;

/// Returns whether this machine's memory can be fragmented; prints a message if not.
fn can_apply() -> bool {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free =
        memory.lines().find_map(|line| line.strip_prefix("MemFree:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let can = rustix::process::geteuid().is_root()
        && File::open("/proc/kpageflags").is_ok()
        && free.is_some_and(|free| free / 1024 > FREE_MIB);
    if !can {
        eprintln!("left out: needs root, /proc/kpageflags, and {FREE_MIB} MiB of free memory");
    }
    can
}

fn apply(arguments: &[&str]) -> Output {
    freehold(&[&["age", "--apply"], arguments].concat())
}

fn found(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// A program in the background that holds memory, from the moment at which the requested state is reached.
struct Holder {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Holder {
    fn start(arguments: &[&str]) -> Holder {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
        command.args(["age", "--apply", "--memory", "64MiB", "--with", "pins"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut said = BufReader::new(child.stderr.take().expect("stderr must be a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("the program must print a line");
        assert!(line.contains("pageblocks with held pages"), "{line}");
        Holder { child, said }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the program has a child, and returns the child's process ID.
    fn command(&self) -> String {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        loop {
            let children = fs::read_to_string(&path).expect("it runs");
            if let Some(child) = children.split_whitespace().next() {
                return child.to_owned();
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn impossible_apply_options_are_refused() {
    for (arguments, why) in [
        (&["age", "--memory", "50%"][..], "give --apply, or a size"),
        (&["age", "--apply", "--with", "pins,pins", "--memory", "64MiB"], "the same kind is given twice"),
        (&["age", "--apply", "--sustain", "--with", "slab", "--memory", "64MiB"], "name pins in --with"),
        (&["age", "--apply", "--fixed", "90", "--memory", "64MiB"], "these shares add up to more than the whole"),
        (&["age", "--apply", "--memory", "1MiB"], "are too little; give a --memory"),
        (&["age", "--apply", "--memory", "900000GiB"], "free beyond the machine's reserve"),
    ] {
        match rustix::process::geteuid().is_root() || !arguments.contains(&"--apply") {
            true => assert_refused(&freehold(arguments), why),
            false => assert_refused(&freehold(arguments), "only root may"),
        }
    }
    if rustix::process::geteuid().is_root() {
        let output = freehold(&["age", "--apply", "--memory", "64MiB", "--", "no-such-program"]);
        assert_refused_with(127, &output, "no program `no-such-program`");
    }
    for (arguments, why) in [
        (&["age", "--with", "pins"][..], "--apply"),
        (&["age", "--for", "1"], "--apply"),
        (&["age", "--sustain"], "--apply"),
        (&["age", "--apply", "--sustain=0"], "1..=640"),
        (&["age", "--apply", "--for", "0"], "above 0"),
        (&["age", "--apply", "--with", "ping"], "page-tables"),
        (&["age", "--apply", "--memory", "101%"], "from 0 to 100"),
        (&["age", "--apply", "--out", "x.parquet"], "cannot be used with"),
    ] {
        let output = freehold(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn apply_without_root_is_refused() {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
    command.args(["age", "--apply"]);
    if rustix::process::geteuid().is_root() {
        command.uid(65534);
    }
    match command.output() {
        Ok(output) => assert_refused(&output, "only root may fragment a running machine's memory"),
        Err(_) => eprintln!("left out: nobody else may run the binary here"),
    }
}

#[test]
fn obstructing_resource_limit_is_reported() {
    if !can_apply() {
        return;
    }
    let binary = assert_cmd::cargo::cargo_bin("freehold");
    for (limit, why) in [("-n 30", "ulimit -n"), ("-d 20000", "ulimit -d"), ("-v 900000", "ulimit -v")] {
        let script = format!("ulimit {limit}; exec {} age --apply --memory 256MiB", binary.display());
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_refused(&output, why);
    }
}

#[test]
fn pins_hold_the_planned_pages_and_pass_on_the_exit_status() {
    if !can_apply() {
        return;
    }
    let shares = ["--fixed-blocks", "50", "--fixed", "5", "--memory", "64MiB", "--with", "pins", "--json", "-"];
    let output = apply(&[&shares[..], &["--", "sh", "-c", "exit 7"]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let pins = &found(&output)["kinds"][0];
    assert_eq!((&pins["kind"], &pins["pageblocks"]), (&"pins".into(), &32.into()));
    assert_eq!((&pins["wanted_pageblocks"], &pins["held_pageblocks"]), (&16.into(), &16.into()));
    assert_eq!((&pins["wanted_pages"], &pins["held_pages"]), (&819.into(), &819.into()));
}

fn holds_memory(kind: &Value) -> bool {
    kind["held_pages"].as_u64() > Some(0) && kind["held_pageblocks"].as_u64() > Some(0)
}

#[test]
fn every_apply_kind_holds_memory() {
    if !can_apply() {
        return;
    }
    // Pages that other programs free meanwhile are taken before whole pageblocks are, so a kind may get none in one
    // attempt.
    let mut lacking: Vec<Value> = Vec::new();
    for _ in 0..4 {
        let output = apply(&["--memory", "256MiB", "--json", "-", "--", "true"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let found = found(&output);
        let kinds = found["kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 5);
        lacking = kinds.iter().filter(|kind| !holds_memory(kind)).cloned().collect();
        if lacking.is_empty() {
            break;
        }
    }
    assert!(lacking.is_empty(), "{lacking:?}");
}

#[test]
fn sigterm_ends_apply_with_a_report() {
    if !can_apply() {
        return;
    }
    let mut holder = Holder::start(&["--json", "-"]);
    holder.signal(Signal::TERM);
    let mut told = String::new();
    holder.child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(holder.child.wait().unwrap().success());
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["free"]["undone"]["pages"].as_u64() > Some(0), "{told}");
}

#[test]
fn sustain_renews_pins_and_keeps_their_number() {
    if !can_apply() {
        return;
    }
    let output = apply(&["--memory", "64MiB", "--with", "pins", "--sustain=100", "--for", "0.5", "--json", "-"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = found(&output);
    let is_short = found["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("skipped"));
    assert!(is_short || found["renewed_pageblocks"].as_u64() > Some(0), "{found}");
    let [wanted, held] = ["wanted_pages", "held_pages"].map(|member| found["kinds"][0][member].as_u64().unwrap());
    // The pages of a pipe are held together, so up to that many may be held beyond the requested number.
    assert!((wanted..wanted + 256).contains(&held), "{found}");
}

#[test]
fn killed_apply_ends_its_command() {
    if !can_apply() {
        return;
    }
    let mut holder = Holder::start(&["--", "tail", "-f", "/dev/null"]);
    let command = holder.command();
    holder.signal(Signal::KILL);
    holder.child.wait().unwrap();
    // The command holds the other end of this pipe until it ends.
    let mut rest = String::new();
    holder.said.read_to_string(&mut rest).unwrap();
    while is_alive(&command) {
        std::thread::yield_now();
    }
}

/// Returns whether the process has not ended.
fn is_alive(process: &str) -> bool {
    let state = fs::read_to_string(Path::new("/proc").join(process).join("stat")).unwrap_or_default();
    !(state.is_empty() || state.contains(") Z ") || state.contains(") X "))
}

/// Runs a check and returns its result; `None` if compaction does not reach the fragmented memory.
fn checked(kind: &str) -> Option<(Output, Value)> {
    let output = apply(&["--memory", "64MiB", "--with", kind, "--check", "--json", "-"]);
    if stderr(&output).contains("the check is inconclusive") {
        eprintln!("left out: compaction of this machine gives up before it comes to the memory that was made");
        return None;
    }
    let proof = found(&output)["proof"].clone();
    Some((output, proof))
}

#[test]
fn compaction_does_not_undo_pins() {
    if can_apply()
        && let Some((output, proof)) = checked("pins")
    {
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(proof["lost_pageblocks"].as_u64() > Some(0), "{proof}");
    }
}

#[test]
fn check_fails_without_pins() {
    if can_apply()
        && let Some((output, proof)) = checked("movable")
    {
        assert_eq!(output.status.code(), Some(1), "{proof}");
        assert!(stderr(&output).contains("the check permits at most a tenth"), "{}", stderr(&output));
    }
}
