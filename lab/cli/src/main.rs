//! `freehold`, the laboratory's command: record what a real kernel's page allocator did, look at it,
//! and compare allocator policies on it.
//!
//! This file only says how a process ends. What can be asked, and how it is answered, is the library beside it
//! ([`freehold_cli`]).

mod stdout;

use std::process::ExitCode;

use clap::Parser;
use freehold_cli::{Cli, Command, Error};
use freehold_report::origin;
use freehold_report::terminal::printable;

fn main() -> ExitCode {
    origin::built_from(freehold_cli::COMMIT);
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            // What was given, and what files say, is in these sentences too.
            if !error.is_said() {
                eprintln!("freehold: {}", printable(&error.to_string()));
            }
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(cli: Cli) -> Result<(), Error> {
    // The stdout of a recording or a run is its command's, and manual pages are files.
    if !matches!(cli.command, Some(Command::Record(_) | Command::Run(_) | Command::Man(_))) {
        stdout::check()?;
    }
    freehold_cli::run(cli)
}
