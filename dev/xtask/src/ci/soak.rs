//! Soak: the budget of the fast paths, a breakpoint at every instruction of the sections, and half a minute of the
//! stress that the stage `tests` has a glimpse of. Optimised, since that is what users have.
//!
//! Where there are no restartable sequences, there is nothing to interrupt, and all tests of that pass without having
//! tried anything. So one of them is asked first, which fails then; the stage still stresses what there is, with locks,
//! but is skipped, with the reason.

use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::cargo;

/// The test that fails where there is nothing to interrupt.
const ASKED_FIRST: &str = "there_is_something_to_interrupt";
/// How one test's success is reported: where the processor is another one, that test is not there, and none succeeds.
const HAS_PASSED: &str = "1 passed";
/// Where the reason follows in what a test says.
const REASON: &str = "left out: ";
/// Steps of the stress in the gate: half a minute.
const STEPS: u64 = 200_000_000;

/// Runs the budget, and all tests of the sections that there are.
///
/// # Errors
/// The failure of a build or of a test.
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
        Outcome::Skipped(format!("locks were stressed, and no section was interrupted: {reason}"))
    }))
}

/// Stresses the heap for so many steps, after the short tests of that.
///
/// # Errors
/// The failure of the build or of a test.
pub(crate) fn stress(steps: u64) -> Result<(), Error> {
    command::run(test("stress").env("STEPS", steps.to_string()).args(["--", "--include-ignored"]))
}

fn test(name: &str) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", "dist", "--package", "freehold-malloc", "--test", name]);
    command
}

/// Why nothing can be interrupted here, if that is so. A test that fails without saying why has failed.
fn missing(answer: Result<String, Error>) -> Result<Option<String>, Error> {
    match answer {
        Ok(said) if said.contains(HAS_PASSED) => Ok(None),
        Ok(_) => Ok(Some("the harness sets breakpoints on Linux on x86-64 only".to_owned())),
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
    fn silence_is_no_success() {
        assert_eq!(missing(pass_with(1)).unwrap(), None);
        assert!(missing(pass_with(0)).unwrap().unwrap().contains("x86-64"));
        assert_eq!(
            missing(fail_with("failed (101): left out: it is off; allow it\nerror")).unwrap().unwrap(),
            "it is off; allow it"
        );
        assert!(missing(fail_with("failed (101): a panic")).is_err());
    }
}
