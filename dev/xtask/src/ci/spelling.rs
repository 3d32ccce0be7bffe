//! Spelling, checked by the program `typos` with the settings in `typos.toml`. The script `.ci/run` installs the
//! program; without it, the stage is skipped.
//!
//! The stage first checks that `typos` reports a planted misspelling.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace;

const PROGRAM: &str = "typos";
/// Misspelled text, in two parts so that the check does not find it in this file.
const MISSPELLED: &str = concat!("te", "h allocator\n");

/// Checks every file that git does not ignore.
///
/// # Errors
/// Returns [`Error::Failed`] if a word is misspelled, or if the planted word is not reported.
pub(crate) fn run() -> Result<Outcome, Error> {
    let version = Command::new(PROGRAM).arg("--version").output();
    if version.is_err() {
        return Ok(Outcome::Skipped(format!("`{PROGRAM}` is not installed; run `pip install {PROGRAM}`")));
    }
    if accepts(MISSPELLED)? {
        return Err(Error::Failed(format!("`{PROGRAM}` does not report a planted misspelling")));
    }
    command::run(Command::new(PROGRAM).args(["--format", "brief"]).current_dir(workspace::root()))?;
    Ok(Outcome::Passed)
}

/// Returns whether `typos` finds no misspelled word in a text.
fn accepts(text: &str) -> Result<bool, Error> {
    let mut command = Command::new(PROGRAM);
    command.arg("-").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(not_run)?;
    child.stdin.take().expect("stdin is piped").write_all(text.as_bytes()).map_err(not_run)?;
    Ok(child.wait().map_err(not_run)?.success())
}

fn not_run(error: std::io::Error) -> Error {
    Error::Failed(format!("cannot run `{PROGRAM} -`: {error}"))
}
