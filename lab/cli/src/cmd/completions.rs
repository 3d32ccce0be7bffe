//! `freehold completions SHELL`: a completion script on stdout.

use clap::{Args, Command};
use clap_complete::Shell;
use freehold_report::output;

use crate::error::Error;

/// Arguments of `freehold completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold completions bash > /etc/bash_completion.d/freehold")]
pub struct CompletionsArgs {
    /// Shell of the completion script
    shell: Shell,
}

/// Prints the script for the program's command line.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "freehold", &mut script);
    Ok(output::print(&script)?)
}
