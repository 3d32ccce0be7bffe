//! Planted faults: a check must find a fault made on purpose, and for the right reason, before its success means
//! anything.

use std::process::Command;

use crate::command;
use crate::error::Error;

/// Runs a command that has a planted fault. The command must fail with a message that contains `finding`.
///
/// # Errors
/// Returns [`Error::Failed`] with the message `silence` if the command succeeds, or the command's own error if it fails
/// for another reason.
pub(crate) fn find(command: &mut Command, finding: &str, silence: &str) -> Result<(), Error> {
    judge(&command::line(command), command::output(command), finding, silence)
}

fn judge<T>(line: &str, outcome: Result<T, Error>, finding: &str, silence: &str) -> Result<(), Error> {
    match outcome {
        Ok(_) => Err(Error::Failed(format!("`{line}` {silence}"))),
        Err(Error::Command { outcome, .. }) if outcome.contains(finding) => Ok(()),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(outcome: &str) -> Error {
        Error::Command { command: String::new(), outcome: outcome.to_owned() }
    }

    fn judge_outcome(outcome: Result<(), Error>) -> Result<(), Error> {
        judge("check", outcome, "must coincide", "compiles")
    }

    #[test]
    fn only_the_expected_failure_is_accepted() {
        assert!(judge_outcome(Err(failure("evaluation panicked: their values must coincide"))).is_ok());
        assert!(judge_outcome(Err(failure("expected `;`"))).is_err());
        assert!(judge_outcome(Ok(())).is_err_and(|error| error.to_string() == "`check` compiles"));
    }
}
