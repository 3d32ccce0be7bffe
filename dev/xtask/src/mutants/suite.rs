//! Tests of the copy: lists them, and measures the time of each and the sites that it executes.
//!
//! Each test runs once by itself, without a mutant. A test that exceeds the time limit is terminated. The sites that it
//! executed until then are recorded, and it is tried last. A test that fails without a mutant cannot detect mutants, so
//! it is left out with a message.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use wait_timeout::ChildExt;

use super::build::Program;
use super::progress::Progress;
use super::{runtime, workers};
use crate::command;
use crate::error::{Error, on_file};

/// Maximum address space of a test in KiB. Without a limit, a mutant that allocates in an endless loop could exhaust
/// the machine.
const MEMORY_KIB: u64 = 12 << 20;

/// One test of one program.
#[derive(Debug)]
pub(crate) struct Test {
    program: Program,
    name: String,
    /// Time of the run, or the time limit if the test did not end.
    pub(crate) time: Duration,
    /// Whether the test ended within the limit.
    pub(crate) has_ended: bool,
    /// Numbers of the sites that the test executed.
    pub(crate) met: BTreeSet<u32>,
}

/// Ending of a run of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The test passed.
    Passed,
    /// The test failed, or crashed.
    Failed,
    /// The test was terminated when its time was over.
    TimedOut,
}

impl Test {
    /// Returns the names of the program and the test, for people.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.program.name, self.name)
    }

    /// Runs the test with a mutant.
    ///
    /// # Errors
    /// Returns an error if the test cannot be started.
    pub(crate) fn with_mutant(&self, id: u32, limit: Duration) -> Result<Ending, Error> {
        self.run(runtime::CHOSEN, id.to_string().as_ref(), limit)
    }

    /// Runs this test alone with one environment variable set. Output is discarded, core dumps are off, and the address
    /// space is limited to [`MEMORY_KIB`].
    fn run(&self, variable: &str, value: &OsStr, limit: Duration) -> Result<Ending, Error> {
        let script = format!("ulimit -c 0; ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(&self.program.path).args(["--exact", &self.name, "--test-threads", "1"]);
        command.current_dir(&self.program.folder).env(variable, value).env_remove("RUST_BACKTRACE");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child
            .and_then(|child| ending(child, limit))
            .map_err(|error| Error::Failed(format!("cannot run the test {}: {error}", self.name())))
    }
}

fn ending(mut child: Child, limit: Duration) -> std::io::Result<Ending> {
    match child.wait_timeout(limit)? {
        Some(status) if status.success() => Ok(Ending::Passed),
        Some(_) => Ok(Ending::Failed),
        None => {
            child.kill()?;
            child.wait()?;
            Ok(Ending::TimedOut)
        }
    }
}

/// Lists the tests of all programs, runs each once, and returns them sorted: fastest first, and those that did not end
/// in time last. `folder` receives the recorded sites.
///
/// # Errors
/// Returns an error if a program cannot list its tests, if a test cannot be started, or if there is no test.
pub(crate) fn watch(programs: &[Program], folder: &Path, patience: Duration, jobs: usize) -> Result<Vec<Test>, Error> {
    let mut listed = Vec::new();
    for program in programs {
        listed.extend(list(program)?);
    }
    if listed.is_empty() {
        return Err(Error::Failed("there is no test".to_owned()));
    }
    fs::create_dir_all(folder).map_err(on_file("create", folder))?;
    let progress = Progress::new("recording the sites of tests", listed.len());
    let watched = Mutex::new(Vec::new());
    workers::share(jobs, listed.into_iter().enumerate(), |(number, test)| {
        let (test, ending) = watch_one(test, &folder.join(number.to_string()), patience)?;
        progress.advance();
        watched.lock().expect("no worker panics").push((test, ending));
        Ok(())
    })?;
    drop(progress);
    let (mut tests, mut useless) = (Vec::new(), Vec::new());
    for (test, ending) in watched.into_inner().expect("no worker panics") {
        if ending == Ending::Failed { useless.push(test.name()) } else { tests.push(test) }
    }
    for name in useless {
        println!("  skipped: {name}, which fails without any mutant");
    }
    tests.sort_by_key(|test| (!test.has_ended, test.time));
    Ok(tests)
}

fn list(program: &Program) -> Result<Vec<Test>, Error> {
    let said =
        command::text(Command::new(&program.path).args(["--list", "--format", "terse"]).current_dir(&program.folder))?;
    let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
    let tests = names.map(|name| Test {
        program: program.clone(),
        name: name.to_owned(),
        time: Duration::ZERO,
        has_ended: false,
        met: BTreeSet::new(),
    });
    Ok(tests.collect())
}

fn watch_one(mut test: Test, notes: &Path, patience: Duration) -> Result<(Test, Ending), Error> {
    // The file may not exist.
    let _ = fs::remove_file(notes);
    let started = Instant::now();
    let ending = test.run(runtime::HITS, notes.as_os_str(), patience)?;
    test.time = started.elapsed();
    test.has_ended = ending == Ending::Passed;
    let bytes = fs::read(notes).unwrap_or_default();
    test.met = bytes.chunks_exact(4).map(|id| u32::from_le_bytes([id[0], id[1], id[2], id[3]])).collect();
    Ok((test, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_program(program: &str, arguments: &[&str], limit: u64) -> Ending {
        let child = Command::new(program).args(arguments).spawn().unwrap();
        ending(child, Duration::from_millis(limit)).unwrap()
    }

    #[test]
    fn suite_endings_are_classified() {
        assert_eq!(run_program("true", &[], 60_000), Ending::Passed);
        assert_eq!(run_program("false", &[], 60_000), Ending::Failed);
        assert_eq!(run_program("tail", &["-f", "/dev/null"], 1), Ending::TimedOut);
    }
}
