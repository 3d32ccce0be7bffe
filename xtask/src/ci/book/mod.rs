//! The book in `docs`: it builds, its links lead somewhere, and what it tells a reader to do works.
//!
//! The crate `freehold-book` builds it and follows its links. Two of its pages are tried as a reader would: what the
//! [`tutorial`] has for a shell is run, and the edits of the page on one's own policy ([`own_policy`]) are made in a
//! copy. Other [`commands`] on its pages must be some.

mod blocks;
mod commands;
mod own_policy;
mod tutorial;

use super::smoke;
use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Builds the book, and tries what is in it.
///
/// # Errors
/// [`Error::Failed`] or [`Error::Command`] with what does not work.
pub fn run() -> Result<Outcome, Error> {
    let out = workspace::target().join("book");
    command::run(cargo().args(["run", "--quiet", "--package", "freehold-book", "--", "--out"]).arg(out))?;
    let freehold = smoke::freehold()?;
    commands::run(&freehold)?;
    tutorial::run()?;
    own_policy::run()?;
    Ok(Outcome::Passed)
}
