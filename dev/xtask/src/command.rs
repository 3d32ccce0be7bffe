//! Runs other programs: [`run`] shows their output, [`output`] and [`text`] return it. All report a failure in one
//! form.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// Runs `command` with the terminal's output, and returns an error unless the command succeeds.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| not_started(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command { command: line(command), outcome: format!("failed ({status})") })
}

/// Runs `command` and returns the bytes that it printed on stdout. If it fails, its stderr becomes part of the error.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Command { command: line(command), outcome: format!("failed ({}): {}", output.status, said.trim()) })
}

/// Runs `command` like [`output`], and returns its stdout as text.
pub(crate) fn text(command: &mut Command) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&output(command)?).into_owned())
}

/// Returns the command line as a person would type it: the program without its folder, and no quoting.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = program.file_name().into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn not_started(command: &Command, error: &std::io::Error) -> Error {
    Error::Command { command: line(command), outcome: format!("cannot be started: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_error_contains_command_and_stderr() {
        let error = output(Command::new("sh").args(["-c", "echo no such luck >&2; exit 3"])).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.contains("sh -c"), "{sentence}");
        assert!(sentence.contains("no such luck"), "{sentence}");
    }

    #[test]
    fn missing_program_is_an_error_without_a_panic() {
        assert!(run(&mut Command::new("freehold-no-such-program")).is_err());
    }
}
