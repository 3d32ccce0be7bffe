//! Sanitizers: tests in a build that watches every access to memory. ThreadSanitizer finds those that nothing orders.
//!
//! The runtime comes with the toolchain, its flags are unstable: `RUSTC_BOOTSTRAP` lets the pinned compiler take them.
//! The standard library is the one that is installed, which does not tell the sanitizer of its hand-overs. So what
//! threads of a test share lies under locks of a library that is compiled here, and threads are joined one by one.
//! Channels are generic, and so compiled here too. First a race on purpose must be seen. Where a program with the
//! sanitizer cannot be built or started, the stage is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::planted;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// What the standard library does out of sight: a thread's end, and a test's report.
const EXCUSED: [&str; 2] = ["race:Arc<std::thread", "race:std::sync::mpmc"];
/// What the sanitizer says of a race.
const RACE: &str = "ThreadSanitizer: data race";

/// Arguments that choose among the core's integration tests: parts of names, one of which a test has to have, and what
/// is skipped.
type Filter = &'static [&'static str];

/// Tests of pages with threads. Tests that plant faults of their own end in panics, which the standard library hands
/// over out of sight.
const THREADS: Filter = &["threads::", "preempt::", "--skip", "slab::", "--skip", "planted"];
/// Tests of pages with threads, without the module that interrupts threads, which takes minutes.
const SOME_THREADS: Filter = &["threads::", "--skip", "slab::", "--skip", "planted"];
/// A glimpse of the races of ranges.
const SOME_RANGES: Filter = &["contig::race::in_batches_with_lists_that_merge"];
/// Every race of ranges, for the night.
const RANGES: Filter = &["contig::race::", "--skip", "planted"];
/// Objects: everybody at once. Sections of a kernel are left out, whose test ends a cache after threads that only the
/// standard library waits for.
const SOME_OBJECTS: Filter = &["slab::threads::everybody"];
/// The same, and caches that come and go.
const OBJECTS: Filter = &["slab::threads::", "slab::comings::", "--skip", "fault"];
/// All that touch memory by themselves: pages are numbers, and objects are memory.
const ALL: Filter = &["slab::", "slab_debug::", "contig::", "threads::", "--skip", "planted"];
/// The race on purpose.
const PLANTED: Filter = &["planted_race::", "--ignored"];

/// What fits into the gate.
///
/// # Errors
/// If the planted race is not seen, or a test fails, or a race is seen in one.
pub(crate) fn sample() -> Result<Outcome, Error> {
    for_races(&[SOME_THREADS, SOME_OBJECTS, SOME_RANGES])
}

/// Every test with threads.
///
/// # Errors
/// As [`sample`].
pub(crate) fn full() -> Result<Outcome, Error> {
    for_races(&[THREADS, OBJECTS, RANGES])
}

/// The core's unit tests, and those of its tests that no loop without end makes slow, with AddressSanitizer.
///
/// # Errors
/// If a test fails, or touches memory that is not its own.
pub(crate) fn address() -> Result<Outcome, Error> {
    let build = match Build::prepare("address") {
        Ok(build) => build,
        Err(outcome) => return outcome,
    };
    command::run(&mut build.units())?;
    command::run(&mut build.test(ALL))?;
    Ok(Outcome::Passed)
}

fn for_races(filters: &[Filter]) -> Result<Outcome, Error> {
    let build = match Build::prepare("thread") {
        Ok(build) => build,
        Err(outcome) => return outcome,
    };
    let excused = build.folder.join("excused");
    fs::write(&excused, EXCUSED.join("\n") + "\n").map_err(on_file("write", &excused))?;
    let options = format!("suppressions={}", excused.display());
    let mut planted = build.test(PLANTED);
    planted::find(planted.env("TSAN_OPTIONS", &options), RACE, "has a race, and the sanitizer does not see it")?;
    for filter in filters {
        command::run(build.test(filter).env("TSAN_OPTIONS", &options))?;
    }
    Ok(Outcome::Passed)
}

/// How programs with a sanitizer are built here.
struct Build {
    /// Folder that the instrumented programs lie in.
    folder: PathBuf,
    /// Target triple that they are built for.
    host: String,
    flags: [String; 2],
}

impl Build {
    /// Finds out whether programs with this sanitizer run here; otherwise says how the stage ends.
    fn prepare(sanitizer: &str) -> Result<Build, Result<Outcome, Error>> {
        let name = if sanitizer == "thread" { "sanitizer".to_owned() } else { format!("sanitizer-{sanitizer}") };
        let folder = workspace::target().join(name);
        fs::create_dir_all(&folder).map_err(on_file("create", &folder)).map_err(Err)?;
        // It links with a standard library that does not watch.
        let abi = "-Cunsafe-allow-abi-mismatch=sanitizer".to_owned();
        let flags = [format!("-Zsanitizer={sanitizer}"), abi];
        let host = probe(&folder, &flags).map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().next().unwrap_or_default();
            Ok(Outcome::Skipped(format!("no program with the {sanitizer} sanitizer runs here: {reason}")))
        })?;
        Ok(Build { folder, host, flags })
    }

    /// Runs the core's unit tests so.
    fn units(&self) -> Command {
        let mut command = self.cargo();
        command.arg("--lib");
        command
    }

    fn cargo(&self) -> Command {
        let mut command = cargo();
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", self.flags.join("\x1f"));
        // What is excused is known by its type, which only whole debug information names.
        command.env("CARGO_PROFILE_DEV_DEBUG", "full");
        command.args(["test", "--package", "freehold", "--target", &self.host]).arg("--target-dir").arg(&self.folder);
        command
    }

    /// Returns a command that runs integration tests of the core under the sanitizer.
    fn test(&self, filter: Filter) -> Command {
        let mut command = self.cargo();
        command.args(["--test", "it", "--"]).args(filter);
        command
    }
}

/// Builds and starts a program that does nothing; says for which machine, or why not.
fn probe(folder: &Path, flags: &[String]) -> Result<String, Error> {
    let about = command::text(rustc().arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Error::Failed("`rustc -vV` names no host".to_owned()))?;
    let (source, program): (PathBuf, PathBuf) = (folder.join("nothing.rs"), folder.join("nothing"));
    fs::write(&source, "fn main() {}\n").map_err(on_file("write", &source))?;
    command::output(rustc().args(flags).args(["--target", host, "-o"]).arg(&program).arg(&source))?;
    command::output(&mut Command::new(&program))?;
    Ok(host.to_owned())
}

fn rustc() -> Command {
    let mut command = Command::new("rustc");
    command.current_dir(workspace::root()).env("RUSTC_BOOTSTRAP", "1");
    command
}
