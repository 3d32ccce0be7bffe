//! `freehold`, the laboratory's command: records the work of a real kernel's page allocator, inspects it, and compares
//! allocator policies on it.
//!
//! This file checks that stdout is open, prints the error of a command, and converts the result into an exit status.
//! The command line and its execution are in the library [`freehold_cli`].

mod stdout;

use std::process::ExitCode;

use freehold_cli::{Cli, Command, Error};
use freehold_report::origin;
use freehold_report::terminal::printable;

fn main() -> ExitCode {
    origin::built_from(freehold_cli::COMMIT);
    match run(Cli::parse_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            // These sentences can contain the user's input and the contents of files, so they are escaped.
            if !error.is_said() {
                eprintln!("freehold: {}", printable(&error.to_string()));
            }
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(cli: Cli) -> Result<(), Error> {
    // The stdout of a recording or a run belongs to its command, and manual pages are written to files.
    if !matches!(cli.command, Some(Command::Record(_) | Command::Run(_) | Command::Man(_))) {
        stdout::check()?;
    }
    freehold_cli::run(cli)
}
