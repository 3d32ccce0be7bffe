//! Miri: the core's unit tests, interpreted, which notices what is undefined and happens to work.
//!
//! It comes with the nightly toolchain only, which this project asks of nobody; so without it the stage is skipped.
//! What tries every set of flags, or fills a map of frames by the ten thousand, takes it minutes each, and is left to
//! the sanitizers.

use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace;

/// What is run, by how the names of tests begin.
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
    "base::list::tests::a_list_is_a_queue",
    "base::run::tests::neighbours",
    "base::stack::tests::nothing_is_lost",
    "policy::flags::",
];

/// Runs the tests.
///
/// # Errors
/// If one fails, or does something undefined.
pub(crate) fn run() -> Result<Outcome, Error> {
    if command::output(miri().arg("--version")).is_err() {
        let sentence = "`rustup component add --toolchain nightly miri rust-src` would make it possible";
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
