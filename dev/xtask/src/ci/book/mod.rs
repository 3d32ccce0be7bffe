//! The book in `docs`: it builds, its links lead somewhere, and what it tells a reader to do works.
//!
//! Tests of the package `dev/book`, a workspace of its own, build it and follow its links. Two of its pages are tried as a reader would: what
//! the [`tutorial`] has for a shell is run, and the edits of the page on one's own policy ([`own_policy`]) are made in
//! a copy. [`commands`] that other pages show must at least exist.

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

/// Follows the book's links, and tries what it tells to do.
///
/// # Errors
/// [`Error::Failed`] or [`Error::Command`] with what does not work.
pub(crate) fn run() -> Result<Outcome, Error> {
    check_builder()?;
    let freehold = smoke::freehold()?;
    commands::run(&freehold)?;
    tutorial::run()?;
    own_policy::run()?;
    Ok(Outcome::Passed)
}

/// Manifest of the package that builds the book.
const BUILDER: [&str; 2] = ["--manifest-path", "dev/book/Cargo.toml"];

/// Checks the package that builds the book, and runs its tests.
fn check_builder() -> Result<(), Error> {
    command::run(cargo().args(["fmt", "--check"]).args(BUILDER))?;
    command::run(builder("clippy").args(["--", "--deny", "warnings"]))?;
    command::run(&mut builder("test"))
}

/// A task of Cargo on all targets of the builder, which has a lock file and a build folder of its own.
fn builder(task: &str) -> Command {
    let mut command = cargo();
    command.args([task, "--quiet", "--locked", "--all-targets"]).args(BUILDER);
    command.arg("--target-dir").arg(workspace::target().join("book-builder"));
    command
}
