//! Soak tests of the malloc, compiled with the optimisations of releases: the budget of the fast paths, a breakpoint at
//! every instruction of the per-CPU sections, and the stress test. In the gate the stress test runs for half a minute;
//! the stage `tests` runs it briefly, and the nightly run for longer.
//!
//! Without restartable sequences there is no section to interrupt, and all tests of interruptions would pass without
//! testing anything. So the stage runs one test that fails in this case before the tests of interruptions. If it fails,
//! the stage still stresses the heap with locks, but counts as skipped, with the reason. This is also so on processors
//! other than x86-64, for which the test does not exist.

use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::cargo;

/// Test that fails if there are no sections to interrupt.
const ASKED_FIRST: &str = "restartable_sections_are_available";
/// Report of one test's success. On other processors than x86-64 the test does not exist, and no test is reported as
/// passed.
const HAS_PASSED: &str = "1 passed";
/// Prefix of the reason in a failed test's output.
const REASON: &str = "left out: ";
/// Steps of the stress in the gate, which take half a minute.
const STEPS: u64 = 200_000_000;

/// Runs the budget, all tests of the sections that this machine has, and the stress.
///
/// # Errors
/// Returns an error if a build or a test fails.
pub(crate) fn run() -> Result<Outcome, Error> {
    command::run(&mut test("budget"))?;
    command::run(test("injection").arg("--no-run"))?;
    let answer = command::text(test("injection").args(["--", "--exact", ASKED_FIRST, "--include-ignored"]));
    let missing = missing(answer)?;
    if missing.is_none() {
        command::run(test("injection").args(["--", "--include-ignored"]))?;
    }
    stress(STEPS)?;
    Ok(missing.map_or(Outcome::Passed, |reason| {
        Outcome::Skipped(format!("only locks were stressed; no section was interrupted: {reason}"))
    }))
}

/// Stresses the heap for `steps` steps, after the short tests of the same program.
///
/// # Errors
/// Returns an error if the build or a test fails.
pub(crate) fn stress(steps: u64) -> Result<(), Error> {
    command::run(test("stress").env("STEPS", steps.to_string()).args(["--", "--include-ignored"]))
}

fn test(name: &str) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", "dist", "--package", "freehold-malloc", "--test", name]);
    command
}

/// Returns the reason for which no section can be interrupted on this machine, or `None`. A test that fails without
/// such a reason is an error.
fn missing(answer: Result<String, Error>) -> Result<Option<String>, Error> {
    match answer {
        Ok(said) if said.contains(HAS_PASSED) => Ok(None),
        Ok(_) => Ok(Some("the harness sets breakpoints only on Linux on x86-64".to_owned())),
        Err(error) => {
            let said = error.to_string();
            let reason = said.lines().find_map(|line| line.split_once(REASON)).map(|(_, reason)| reason.trim());
            reason.map(|reason| Some(reason.to_owned())).ok_or(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail_with(said: &str) -> Result<String, Error> {
        Err(Error::Command { command: String::new(), outcome: said.to_owned() })
    }

    fn pass_with(tests: u32) -> Result<String, Error> {
        Ok(format!("test result: ok. {tests} passed; 0 failed"))
    }

    #[test]
    fn missing_result_is_not_a_success() {
        assert_eq!(missing(pass_with(1)).unwrap(), None);
        assert!(missing(pass_with(0)).unwrap().unwrap().contains("x86-64"));
        assert_eq!(
            missing(fail_with("failed (101): left out: it is off; allow it\nerror")).unwrap().unwrap(),
            "it is off; allow it"
        );
        assert!(missing(fail_with("failed (101): a panic")).is_err());
    }
}
