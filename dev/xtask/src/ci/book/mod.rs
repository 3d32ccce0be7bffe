//! The book in `docs`: it builds, its links lead somewhere, and what it tells a reader to do works.
//!
//! Tests of the crate `freehold-book` build it and follow its links. Two of its pages are tried as a reader would: what
//! the [`tutorial`] has for a shell is run, and the edits of the page on one's own policy ([`own_policy`]) are made in
//! a copy. [`commands`] that other pages show must at least exist.

mod blocks;
mod commands;
mod own_policy;
mod tutorial;

use super::smoke;
use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::cargo;

/// Follows the book's links, and tries what it tells to do.
///
/// # Errors
/// [`Error::Failed`] or [`Error::Command`] with what does not work.
pub fn run() -> Result<Outcome, Error> {
    // As a part of the whole workspace, it has been built with all tests.
    command::run(cargo().args(["test", "--quiet", "--workspace", "--bin", "freehold-book"]))?;
    let freehold = smoke::freehold()?;
    commands::run(&freehold)?;
    tutorial::run()?;
    own_policy::run()?;
    Ok(Outcome::Passed)
}
