//! Miri: runs the core's unit tests in an interpreter that detects undefined behaviour, even if it happens to work.
//!
//! Miri is a component of the nightly toolchain only, which this project does not require. Without it, the stage is
//! skipped. Some tests try every set of flags or fill a memory map of tens of thousands of frames. They take minutes in
//! the interpreter, so they are left to the sanitizers.

use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace;

/// Prefixes of the names of the tests that run.
const RUN: [&str; 8] = [
    "base::",
    "page::",
    "platform::",
    "policy::",
    "slab::bitmap::",
    "slab::word::",
    "slab::kmalloc::",
    "slab::debug::track::",
];
/// Tests that take minutes in the interpreter.
const LEFT_OUT: [&str; 4] = [
    "base::list::tests::list_matches_a_deque",
    "base::run::tests::gather_merges",
    "base::stack::tests::concurrent_pushes",
    "policy::flags::",
];

/// Runs the tests, or skips the stage if Miri is missing.
///
/// # Errors
/// Returns an error if a test fails, or if its behaviour is undefined.
pub(crate) fn run() -> Result<Outcome, Error> {
    if command::output(miri().arg("--version")).is_err() {
        let sentence = "Miri is missing; run `rustup component add --toolchain nightly miri rust-src`";
        return Ok(Outcome::Skipped(sentence.to_owned()));
    }
    let mut command = miri();
    command.args(["test", "--package", "freehold", "--lib", "--target-dir"]).arg(workspace::target().join("miri"));
    command.arg("--").args(RUN).args(LEFT_OUT.iter().flat_map(|test| ["--skip", test]));
    command::run(&mut command)?;
    Ok(Outcome::Passed)
}

fn miri() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri"]).current_dir(workspace::root());
    command
}
