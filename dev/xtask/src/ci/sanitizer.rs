//! Sanitizers: tests in a build that observes every memory access. ThreadSanitizer reports accesses that no
//! synchronisation orders.
//!
//! The sanitizers' runtime comes with the toolchain, but their flags are unstable. `RUSTC_BOOTSTRAP` makes the pinned
//! compiler accept them. The standard library is the installed one, which is not instrumented, so the sanitizer does
//! not see its synchronisation. Therefore the threads of a test share data only under locks of a library that is
//! compiled here, and are joined one by one. Channels are generic code, so they are compiled here too.
//!
//! The stages for races first check that a planted race is reported. If a program with the sanitizer cannot be built or
//! started, the stage is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::planted;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Suppressed reports, for work inside the standard library: the end of a thread, and the report of a test.
const EXCUSED: [&str; 2] = ["race:Arc<std::thread", "race:std::sync::mpmc"];
/// Text of ThreadSanitizer's report of a race.
const RACE: &str = "ThreadSanitizer: data race";

/// Arguments that select integration tests of the core: parts of names, of which a test must contain one, and parts to
/// skip.
type Filter = &'static [&'static str];

/// Page tests with threads. Tests that plant their own faults end in panics, which the standard library passes on in
/// code that is not instrumented.
const THREADS: Filter = &["threads::", "preempt::", "--skip", "slab::", "--skip", "planted"];
/// Page tests with threads, without the module that interrupts threads, which takes minutes.
const SOME_THREADS: Filter = &["threads::", "--skip", "slab::", "--skip", "planted"];
/// Small part of the tests of races between ranges.
const SOME_RANGES: Filter = &["contig::race::batched_range_with_merge_lists"];
/// All tests of races between ranges, for the nightly run.
const RANGES: Filter = &["contig::race::", "--skip", "planted"];
/// Object test in which all threads run at once. The tests of a kernel's sections are left out, because they destroy a
/// cache after threads that only the standard library waits for.
const SOME_OBJECTS: Filter = &["slab::threads::threads_lose"];
/// All object tests with threads, including caches that are created and destroyed.
const OBJECTS: Filter = &["slab::threads::", "slab::cache_lifetimes::", "--skip", "fault"];
/// Tests that access memory themselves. Pages are only numbers in most tests, but objects are memory.
const ALL: Filter = &["slab::", "slab_debug::", "contig::", "threads::", "--skip", "planted"];
/// Planted race.
const PLANTED: Filter = &["planted_race::", "--ignored"];

/// Runs the tests that fit into the gate.
///
/// # Errors
/// Returns an error if the planted race is not reported, if a test fails, or if a race is reported.
pub(crate) fn sample() -> Result<Outcome, Error> {
    for_races(&[SOME_THREADS, SOME_OBJECTS, SOME_RANGES])
}

/// Runs every test with threads.
///
/// # Errors
/// As [`sample`].
pub(crate) fn full() -> Result<Outcome, Error> {
    for_races(&[THREADS, OBJECTS, RANGES])
}

/// Runs the core's unit tests with AddressSanitizer, and those integration tests that access memory, without the slow
/// ones.
///
/// # Errors
/// Returns an error if a test fails, or makes an invalid memory access.
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
    planted::find(
        planted.env("TSAN_OPTIONS", &options),
        RACE,
        "has a planted race, but the sanitizer does not report it",
    )?;
    for filter in filters {
        command::run(build.test(filter).env("TSAN_OPTIONS", &options))?;
    }
    Ok(Outcome::Passed)
}

/// Settings of a build with a sanitizer.
struct Build {
    /// Folder of the instrumented programs.
    folder: PathBuf,
    /// Target triple of the instrumented programs.
    host: String,
    flags: [String; 2],
}

impl Build {
    /// Checks that programs with this sanitizer run on this machine. Otherwise returns the stage's outcome as the
    /// error.
    fn prepare(sanitizer: &str) -> Result<Build, Result<Outcome, Error>> {
        let name = if sanitizer == "thread" { "sanitizer".to_owned() } else { format!("sanitizer-{sanitizer}") };
        let folder = workspace::target().join(name);
        fs::create_dir_all(&folder).map_err(on_file("create", &folder)).map_err(Err)?;
        // The instrumented code links with a standard library that is not instrumented.
        let abi = "-Cunsafe-allow-abi-mismatch=sanitizer".to_owned();
        let flags = [format!("-Zsanitizer={sanitizer}"), abi];
        let host = probe(&folder, &flags).map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().next().unwrap_or_default();
            Ok(Outcome::Skipped(format!("programs with the {sanitizer} sanitizer do not run here: {reason}")))
        })?;
        Ok(Build { folder, host, flags })
    }

    /// Returns a command that runs the core's unit tests under the sanitizer.
    fn units(&self) -> Command {
        let mut command = self.cargo();
        command.arg("--lib");
        command
    }

    fn cargo(&self) -> Command {
        let mut command = cargo();
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", self.flags.join("\x1f"));
        // Suppressions match by the names of types, which only full debug information contains.
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

/// Builds and starts a program that does nothing. Returns the host's target triple, or the reason for the failure.
fn probe(folder: &Path, flags: &[String]) -> Result<String, Error> {
    let about = command::text(rustc().arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Error::Failed("`rustc -vV` does not name the host".to_owned()))?;
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
