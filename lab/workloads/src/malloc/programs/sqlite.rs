//! SQLite on a database in memory: inserts, indexes, joins and deletions.

use std::fs::{self, File};
use std::io;

use super::limit::Limit;
use super::subject::{measure, under_malloc};
use crate::malloc::cost::Cost;

pub(super) const SQLITE: &str = "sqlite3";
/// Rows of the larger table.
pub(super) const ROWS: usize = 150_000;
/// Statements, with a placeholder for the number of rows.
const SCRIPT: &str = include_str!("scripts/load.sql");
const PLACEHOLDER: &str = "{rows}";

/// Runs the script with `rows` rows.
pub(super) fn sqlite(rows: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("load.sql");
    fs::write(&script, SCRIPT.replace(PLACEHOLDER, &rows.to_string()))?;
    let mut command = under_malloc(SQLITE, limit)?;
    command.args(["-batch", "-bail", ":memory:"]).stdin(File::open(&script)?);
    measure(command, rows)
}
