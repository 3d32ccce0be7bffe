//! A command that runs while a load is held.

use std::io;
use std::process::Command;

/// Runs `command` and waits for it. An empty command does nothing.
pub(crate) fn run(command: &[String]) -> io::Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let status = Command::new(program).args(arguments).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} failed ({status})"))) }
}
