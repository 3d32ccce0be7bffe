//! The book in `docs`: it must build, its links must have existing targets, and its instructions must work.
//!
//! The tests of the package `dev/book`, a workspace of its own, build the book and follow its links. Two pages are
//! tried as a reader would try them. The shell commands of the [`tutorial`] are run, and the edits of the page about
//! adding a policy ([`own_policy`]) are made in a copy. The [`commands`] on other pages must at least exist.

mod blocks;
mod commands;
mod own_policy;
mod tutorial;

use std::process::Command;

use super::smoke;
use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Checks the book's links and instructions.
///
/// # Errors
/// Returns [`Error::Failed`] or [`Error::Command`] for the first instruction that does not work.
pub(crate) fn run() -> Result<Outcome, Error> {
    check_builder()?;
    let freehold = smoke::freehold()?;
    commands::run(&freehold)?;
    tutorial::run()?;
    own_policy::run()?;
    Ok(Outcome::Passed)
}

/// Arguments that select the manifest of the package that builds the book.
const BUILDER: [&str; 2] = ["--manifest-path", "dev/book/Cargo.toml"];

/// Checks the package that builds the book, and runs its tests.
fn check_builder() -> Result<(), Error> {
    command::run(cargo().args(["fmt", "--check"]).args(BUILDER))?;
    command::run(builder("clippy").args(["--", "--deny", "warnings"]))?;
    command::run(&mut builder("test"))
}

/// Returns a cargo command for all targets of the builder, which has its own lock file and build folder.
fn builder(task: &str) -> Command {
    let mut command = cargo();
    command.args([task, "--quiet", "--locked", "--all-targets"]).args(BUILDER);
    command.arg("--target-dir").arg(workspace::target().join("book-builder"));
    command
}
