//! Sanitizer: the core's thread tests in a build that watches every access to memory, by ThreadSanitizer.
//!
//! The runtime comes with the toolchain, its flags are unstable: `RUSTC_BOOTSTRAP` lets the pinned compiler take them. The
//! standard library is the one that is installed, which does not tell the sanitizer of its hand-overs; the two that
//! every test program makes are excused by name, and the tests make none but by the engine's own locks. First a race on
//! purpose must be seen. Where a program with the sanitizer cannot be built or started, the stage is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, planted};
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace::{self, cargo};

/// Watches, and links with a standard library that does not.
const FLAGS: [&str; 2] = ["-Zsanitizer=thread", "-Cunsafe-allow-abi-mismatch=sanitizer"];
/// What the standard library does out of sight: a thread's end, and a test's report.
const EXCUSED: &str = "race:Arc<std::thread\nrace:std::sync::mpmc\n";
/// What the sanitizer says of a race.
const RACE: &str = "ThreadSanitizer: data race";

/// Runs the planted race, then the tests. Those that plant faults of their own end in panics, which the standard
/// library hands over out of sight.
///
/// # Errors
/// If the planted race is not seen, or a test fails, or a race is seen in one.
pub fn run() -> Result<Outcome, Error> {
    let folder = workspace::target().join("sanitizer");
    fs::create_dir_all(&folder).map_err(on_file("create", &folder))?;
    let host = match probe(&folder) {
        Ok(host) => host,
        Err(error) => {
            let error = error.to_string();
            let reason = error.lines().next().unwrap_or_default();
            return Ok(Outcome::Skipped(format!("no program with ThreadSanitizer runs here: {reason}")));
        }
    };
    let excused = folder.join("excused");
    fs::write(&excused, EXCUSED).map_err(on_file("write", &excused))?;
    let test = |tests: &[&str], arguments: &[&str]| {
        let mut command = cargo();
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
        command.env("TSAN_OPTIONS", format!("suppressions={}", excused.display()));
        command.args(["test", "--package", "freehold", "--target", &host]).arg("--target-dir").arg(&folder);
        command.args(tests.iter().flat_map(|test| ["--test", test])).arg("--").args(arguments);
        command
    };
    planted::find(&mut test(&["planted_race"], &["--ignored"]), RACE, "has a race, and the sanitizer does not see it")?;
    command::run(&mut test(&["threads", "preempt"], &["--skip", "planted"]))?;
    Ok(Outcome::Passed)
}

/// Builds and starts a program that does nothing; says for which machine, or why not.
fn probe(folder: &Path) -> Result<String, Error> {
    let about = command::text(rustc().arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Error::Failed("`rustc -vV` names no host".to_owned()))?;
    let (source, program): (PathBuf, PathBuf) = (folder.join("nothing.rs"), folder.join("nothing"));
    fs::write(&source, "fn main() {}\n").map_err(on_file("write", &source))?;
    command::output(rustc().args(FLAGS).args(["--target", host, "-o"]).arg(&program).arg(&source))?;
    command::output(&mut Command::new(&program))?;
    Ok(host.to_owned())
}

fn rustc() -> Command {
    let mut command = Command::new("rustc");
    command.current_dir(workspace::root()).env("RUSTC_BOOTSTRAP", "1");
    command
}
