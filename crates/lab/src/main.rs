//! `freehold`, the laboratory's command: record what a real kernel's page allocator did, look at it,
//! and compare allocator policies on it.
//!
//! This file only dispatches. What can be asked stands in [`cli`], each answer in its own file of
//! [`cmd`], and every way to fail in [`error`]. An answer is a value with two views, a table for
//! people and JSON for programs ([`freehold_measure::output`]).

mod cli;
mod cmd;
mod error;
mod stdout;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};
use error::Error;
use freehold_measure::origin;
use freehold_measure::terminal::{Style, printable};

fn main() -> ExitCode {
    origin::built_from(option_env!("FREEHOLD_COMMIT"));
    let cli = Cli::parse();
    match run(cli) {
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

/// Answers the command that `cli` asks for; without one, prints the help.
fn run(cli: Cli) -> Result<(), Error> {
    let style = Style::of_stdout(cli.color);
    // The stdout of a recording or a run is its command's, and manual pages are files.
    if !matches!(cli.command, Some(Command::Record(_) | Command::Run(_) | Command::Man(_))) {
        stdout::check()?;
    }
    match cli.command {
        None => cli::print_help(),
        Some(Command::Advise(args)) => cmd::advise::run(&args, style),
        Some(Command::Record(args)) => cmd::record::run(args),
        Some(Command::Snapshot(args)) => cmd::snapshot::run(&args),
        Some(Command::Age(args)) => cmd::age::run(&args, style),
        Some(Command::Boot(args)) => cmd::boot::run(args),
        Some(Command::Import(args)) => cmd::import::run(&args, style),
        Some(Command::Export(args)) => cmd::export::run(&args),
        Some(Command::Inspect(args)) => cmd::inspect::run(&args, style),
        Some(Command::Replay(args)) => cmd::replay::run(&args, style),
        Some(Command::Compare(args)) => cmd::compare::run(&args, style),
        Some(Command::Map(args)) => cmd::map::run(&args, style),
        Some(Command::Diff(args)) => cmd::diff::run(&args, style),
        Some(Command::Sim(args)) => cmd::sim::run(&args, style),
        Some(Command::Fleet(args)) => cmd::fleet::run(&args, style),
        Some(Command::Sweep(args)) => cmd::sweep::run(&args, style),
        Some(Command::Calibrate(args)) => cmd::calibrate::run(&args, style),
        Some(Command::Bench(args)) => cmd::bench::run(&args, style),
        #[cfg(feature = "disasm")]
        Some(Command::Disasm(args)) => cmd::disasm::run(&args, style),
        Some(Command::Policies(args)) => cmd::policies::run(&args, style),
        Some(Command::Run(args)) => cmd::run::run(&args),
        Some(Command::Heap(args)) => cmd::heap::run(&args, style),
        Some(Command::Load(args)) => freehold_load::run(args).map_err(Error::Load),
        Some(Command::Completions(args)) => cmd::completions::run(&args),
        Some(Command::Man(args)) => cmd::man::run(&args),
    }
}
