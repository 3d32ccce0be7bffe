//! `cargo xtask readme`: the README's examples must print what the README shows, and its figures must occur in the
//! committed data.
//!
//! Both are tests, which the gate runs with all others. This task runs them alone, and can first update the examples.

use crate::command;
use crate::error::Error;
use crate::workspace::cargo;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check; without this option, the output of the examples is updated first
    #[arg(long)]
    check: bool,
}

/// Checks the README, after updating its examples unless only a check is wanted.
///
/// # Errors
/// Returns [`Error::Command`] if a figure or an example is not up to date.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let examples = ["test", "--quiet", "--package", "freehold-cli", "--test", "it", "--", "readme"];
    let figures = ["test", "--quiet", "--package", "freehold-findings", "--bins", "--", "readme"];
    if !args.check {
        command::run(cargo().env("TRYCMD", "overwrite").args(examples))?;
    }
    [&examples[..], &figures].into_iter().try_for_each(|arguments| command::run(cargo().args(arguments)))
}
