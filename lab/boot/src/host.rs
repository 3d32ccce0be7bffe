//! Programs of this machine: finding them, and running one for its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// Returns the path of `program`.
///
/// # Errors
/// [`Error::Missing`] with the Debian package that contains it.
pub(crate) fn find(program: &str, package: &str) -> Result<PathBuf, Error> {
    locate(program).ok_or_else(|| {
        Error::Missing(format!("booting a kernel needs `{program}`; install the Debian package {package}"))
    })
}

/// Returns the path of `program`: in the folders of PATH, or as known to the compiler, for a program that is part of it.
pub(crate) fn locate(program: &str) -> Option<PathBuf> {
    which::which(program).ok().or_else(|| find_compiler_program(program))
}

/// Finds a program that is part of a compiler. Its path is known only to the compiler.
fn find_compiler_program(name: &str) -> Option<PathBuf> {
    let printed = text(Command::new("gcc").arg(format!("-print-prog-name={name}"))).ok()?;
    Some(PathBuf::from(printed.trim())).filter(|path| path.is_absolute())
}

/// Runs `command` and returns its stdout. Its stderr becomes part of the error.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    let outcome = match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return Ok(output.stdout),
        Ok(output) => format!("failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => format!("could not be started: {error}"),
    };
    Err(Error::Command { command: line(command), outcome })
}

/// Runs `command` like [`output`], and returns its stdout as text.
pub(crate) fn text(command: &mut Command) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&output(command)?).into_owned())
}

/// Formats a command line as a person would type it: the program without its folder, and without quotes.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = program.file_name().into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_error_contains_command_and_stderr() {
        let error = output(Command::new("sh").args(["-c", "echo no such luck >&2; exit 3"])).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.contains("sh -c") && sentence.contains("no such luck"), "{sentence}");
    }

    #[test]
    fn missing_program_error_contains_its_package() {
        let sentence = find("freehold-no-such-program", "some-package").unwrap_err().to_string();
        assert!(sentence.contains("`freehold-no-such-program`") && sentence.contains("some-package"), "{sentence}");
    }
}
