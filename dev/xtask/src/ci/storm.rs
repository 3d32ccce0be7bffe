//! Soak of the preloaded malloc: `malloc/preload/tests/soak.c`, which mixes threads, forks, limits and failed system
//! calls. The gate runs it briefly, within the stage `malloc`, and the nightly run for half an hour.
//!
//! The program runs in each way under each set of options. The ways of one set run at the same time, so the processes
//! disturb each other. Before that, the program must notice mistakes that it makes itself.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;

use super::conformance::{self, Limit, OPTIONS, Run};
use super::group::Group;
use super::sandbox::Sandbox;
use super::smoke;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace;

/// Ways to run the program.
const WAYS: [Run; 5] = [
    Run { argument: "soak", limit: Limit::None },
    Run { argument: "faults", limit: Limit::None },
    Run { argument: "starts", limit: Limit::None },
    Run { argument: "soak", limit: Limit::Malloc("64M") },
    Run { argument: "small-group", limit: Limit::Group },
];

/// Mistake that the program must notice.
struct Planted {
    argument: &'static str,
    options: &'static str,
    /// Part of the program's message.
    message: &'static str,
}

const PLANTED: [Planted; 5] = [
    Planted { argument: "overwrite", options: "return=frees", message: "was overwritten" },
    Planted { argument: "leak", options: "return=frees", message: "are in use" },
    Planted { argument: "double-free", options: "return=frees", message: "is already free" },
    Planted { argument: "no-faults", options: "return=frees", message: "no call has failed" },
    Planted { argument: "keep", options: "return=never", message: "are resident" },
];

/// Seconds of each run in the nightly run: half an hour for all sets of options.
const LONG: u32 = 30 * 60 / OPTIONS.len() as u32;
/// Seconds of each run in the gate, beside the least number of rounds.
const SHORT: u32 = 1;
/// Seconds beyond its time after which a run counts as hung.
const PATIENCE: u32 = 200;

/// Runs the soak for half an hour.
///
/// # Errors
/// Returns an error if a build fails, or if the program reports a fault.
pub(crate) fn run() -> Result<Outcome, Error> {
    let scratch = tempfile::tempdir().map_err(on_file("create a folder in", &env::temp_dir()))?;
    let sandbox = Sandbox::new(smoke::freehold()?, scratch.path())?;
    Ok(match soak(&sandbox, LONG)? {
        0 => Outcome::Skipped("`gcc` is not installed".into()),
        _ => Outcome::Passed,
    })
}

/// Runs the soak for a few seconds, and returns the number of programs that were compiled.
///
/// # Errors
/// As for [`run`].
pub(super) fn run_briefly(sandbox: &Sandbox) -> Result<usize, Error> {
    soak(sandbox, SHORT)
}

fn soak(sandbox: &Sandbox, seconds: u32) -> Result<usize, Error> {
    if !sandbox.has("gcc") {
        println!("  skipped: soak.c, because `gcc` is not installed");
        return Ok(0);
    }
    let soak = Soak { sandbox, program: sandbox.scratch.join("soak"), group: Group::new() };
    let source = workspace::root().join("malloc/preload/tests/soak.c");
    command::run(conformance::compile("gcc", &source).arg("-o").arg(&soak.program))?;
    soak.run_together(&PLANTED, |planted| soak.expect_notice(planted))?;
    for options in OPTIONS {
        soak.run_together(&WAYS, |way| soak.run(way, options, seconds))?;
    }
    println!("  soak.c passed under {}", OPTIONS.join(" and "));
    Ok(1)
}

/// The compiled program, and the conditions of its runs.
struct Soak<'s> {
    sandbox: &'s Sandbox,
    program: PathBuf,
    group: Option<Group>,
}

impl Soak<'_> {
    /// Calls a function for each item, for all items at the same time. Returns one of the errors, if any.
    fn run_together<T: Sync>(&self, items: &[T], run: impl Fn(&T) -> Result<(), Error> + Sync) -> Result<(), Error> {
        thread::scope(|scope| {
            let threads: Vec<_> = items.iter().map(|item| scope.spawn(|| run(item))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a run does not panic"))
        })
    }

    /// Runs the program in one way. Prints the number of failed calls, or that the way is left out.
    fn run(&self, way: &Run, options: &str, seconds: u32) -> Result<(), Error> {
        let options = way.options(options);
        let Some(output) = self.output(way, &options, seconds)? else {
            println!("  left out: soak.c in a control group, because none can be created here");
            return Ok(());
        };
        if !output.status.success() {
            return Err(Error::Failed(format!("soak.c {} under {options}: {}", way.argument, describe(&output))));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            println!("  soak.c {} under {options}: {line}", way.argument);
        }
        Ok(())
    }

    /// Checks that the program notices a mistake.
    fn expect_notice(&self, planted: &Planted) -> Result<(), Error> {
        let way = Run { argument: planted.argument, limit: Limit::None };
        let output = self.output(&way, planted.options, 0)?.expect("the run needs no control group");
        let is_left_out = String::from_utf8_lossy(&output.stdout).contains("left out");
        if is_left_out || !output.status.success() && describe(&output).contains(planted.message) {
            return Ok(());
        }
        Err(Error::Failed(format!("soak.c does not notice `{}`: {}", planted.argument, describe(&output))))
    }

    /// Runs the program; returns `None` if the run needs a control group and there is none.
    fn output(&self, way: &Run, options: &str, seconds: u32) -> Result<Option<Output>, Error> {
        let (program, patience) = (self.program.to_string_lossy(), (seconds + PATIENCE).to_string());
        let seconds = seconds.to_string();
        let Some(words) = way.words(&patience, &[&program, &seconds, way.argument], self.group.as_ref()) else {
            return Ok(None);
        };
        let mut command = self.sandbox.command(&words, Some(options))?;
        command.current_dir(&self.sandbox.scratch);
        let output = command.output();
        output.map(Some).map_err(on_file("run", Path::new(words[0])))
    }
}

/// Returns the exit status and the messages of a run.
fn describe(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
}
