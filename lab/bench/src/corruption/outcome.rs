//! Runs a program that misuses its memory, and classifies its end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use freehold_workloads::corruption::{CORRUPTED, HARMLESS};
use serde::Serialize;

use super::roster::MallocSetup;
use crate::error::Error;
use crate::whole::CHOOSING;

/// End of a program that misused its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// The malloc terminated the program with a message, or with a signal that is not a memory fault.
    Told,
    /// The kernel terminated the program for an invalid access; there was no message.
    Crashed,
    /// The program did not end, and was terminated by its alarm.
    Hung,
    /// The misuse was not noticed and had no effect.
    Harmless,
    /// The misuse was not noticed, and memory is in use twice or was overwritten.
    Corrupted,
}

impl Outcome {
    /// Runs a case under a malloc.
    pub(super) fn run(program: &Path, case: &str, malloc: &MallocSetup) -> Result<Outcome, Error> {
        let mut command = Command::new(program);
        command.args(["load", "corruption", case]);
        CHOOSING.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command.envs(malloc.variables.iter().map(|(name, value)| (name, value)));
        if let Some(library) = &malloc.library {
            command.env("LD_PRELOAD", library);
        }
        let outcome = match command.output() {
            Err(error) => Err(format!("it cannot be run: {error}")),
            Ok(output) => Outcome::read(&output).ok_or_else(|| {
                let message = String::from_utf8_lossy(&output.stderr);
                format!("{}; {}", output.status, message.lines().next().unwrap_or("without a message"))
            }),
        };
        outcome.map_err(|what| Error::Input(format!("the case `{case}` under {}: {what}", malloc.name)))
    }

    fn read(output: &Output) -> Option<Outcome> {
        let printed = String::from_utf8_lossy(&output.stdout);
        Some(match output.status.signal() {
            Some(libc::SIGALRM) => Outcome::Hung,
            Some(libc::SIGSEGV | libc::SIGBUS) if output.stderr.is_empty() => Outcome::Crashed,
            Some(_) => Outcome::Told,
            None if output.status.success() && printed.trim() == HARMLESS => Outcome::Harmless,
            None if output.status.success() && printed.trim() == CORRUPTED => Outcome::Corrupted,
            // Some mallocs end the program by `exit` with a failure status, after a message.
            None if !output.status.success() && !output.stderr.is_empty() => Outcome::Told,
            None => return None,
        })
    }

    /// Returns whether the program was terminated because of the misuse.
    pub(super) fn is_noticed(self) -> bool {
        matches!(self, Outcome::Told | Outcome::Crashed)
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    fn read_ending(status: i32, stdout: &str, stderr: &str) -> Option<Outcome> {
        let output = Output { status: ExitStatus::from_raw(status), stdout: stdout.into(), stderr: stderr.into() };
        Outcome::read(&output)
    }

    #[test]
    fn endings_are_classified() {
        assert_eq!(read_ending(libc::SIGABRT, "", "double free"), Some(Outcome::Told));
        assert_eq!(read_ending(libc::SIGILL, "", ""), Some(Outcome::Told));
        assert_eq!(read_ending(libc::SIGSEGV, "", ""), Some(Outcome::Crashed));
        assert_eq!(read_ending(libc::SIGSEGV, "", "use after free"), Some(Outcome::Told));
        assert_eq!(read_ending(libc::SIGALRM, "", ""), Some(Outcome::Hung));
        assert_eq!(read_ending(0, "harmless\n", "a warning"), Some(Outcome::Harmless));
        assert_eq!(read_ending(0, "corrupted\n", ""), Some(Outcome::Corrupted));
        assert_eq!(read_ending(1 << 8, "", "abort"), Some(Outcome::Told));
        assert_eq!((read_ending(0, "", ""), read_ending(2 << 8, "", "")), (None, None));
    }
}
