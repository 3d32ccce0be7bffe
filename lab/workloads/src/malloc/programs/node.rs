//! Node.js with worker threads that allocate.

use std::fs;
use std::io;

use super::limit::Limit;
use super::subject::{measure, under_malloc};
use crate::malloc::cost::Cost;

pub(super) const NODE: &str = "node";
/// Rounds of each worker.
pub(super) const ROUNDS: usize = 30;
const SCRIPT: &str = include_str!("scripts/workers.js");

/// Runs the workers for `rounds` rounds.
pub(super) fn node(rounds: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("workers.js");
    fs::write(&script, SCRIPT)?;
    let mut command = under_malloc(NODE, limit)?;
    command.arg(&script).arg(rounds.to_string());
    measure(command, rounds)
}
