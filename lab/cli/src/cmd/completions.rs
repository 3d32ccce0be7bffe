//! `freehold completions SHELL`: a completion script on stdout.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use freehold_report::output;

use crate::cli::Cli;
use crate::error::Error;

/// Arguments of `freehold completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold completions bash > /etc/bash_completion.d/freehold")]
pub struct CompletionsArgs {
    /// The shell that is to complete
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "freehold", &mut script);
    Ok(output::print(&script)?)
}
