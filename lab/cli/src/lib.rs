//! The laboratory's commands: their definition and their execution.
//!
//! [`Cli`] defines the command line. [`run`] executes a command at a terminal, as the program `freehold` does.
//! [`answer`] returns the answer as a value with several views ([`Views`]), for callers that are programs. Both take
//! the same arguments and return the same [`Error`], so a front end has no options or refusals of its own. Each command
//! has its own file in `cmd`.

mod cli;
mod cmd;
mod error;

use clap::CommandFactory;
pub use cli::{Cli, Command};
pub use error::{Cause, Error};
use freehold_report::formats::Views;
use freehold_report::notes;
use freehold_report::terminal::Style;

/// Commit that this was built from, if it was built in a repository.
pub const COMMIT: Option<&str> = option_env!("FREEHOLD_COMMIT");

/// Executes the command in `cli` and prints its answer to the terminal; prints the help if there is no command.
///
/// # Errors
/// The error of the command.
pub fn run(cli: Cli) -> Result<(), Error> {
    let style = Style::for_stdout(cli.color);
    if cli.quiet {
        notes::suppress();
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
        Some(Command::Load(args)) => freehold_workloads::run(args).map_err(Error::Load),
        Some(Command::Completions(args)) => cmd::completions::run(&args, Cli::command()),
        Some(Command::Man(args)) => cmd::man::run(&args, Cli::command()),
    }
}

/// Executes `advise`, `record`, `age`, `inspect`, `replay`, `compare`, `sim` or `fleet`, and returns its answer. The
/// requested output formats are checked but not written, and `--html` also computes the parts that only a page shows.
/// Other files are written as at a terminal: recordings, snapshots and pictures. Progress is printed to stderr.
///
/// # Errors
/// The error of the command; [`Error::Input`] for a command that runs at a terminal only.
pub fn answer(command: Command) -> Result<Box<dyn Views>, Error> {
    match command {
        Command::Advise(args) => cmd::advise::answer(&args),
        Command::Record(args) => cmd::record::answer(args),
        Command::Age(args) => cmd::age::answer(&args),
        Command::Inspect(args) => cmd::inspect::answer(&args),
        Command::Replay(args) => cmd::replay::answer(&args),
        Command::Compare(args) => cmd::compare::answer(&args),
        Command::Sim(args) => cmd::sim::answer(&args),
        Command::Fleet(args) => cmd::fleet::answer(&args),
        _ => Err(Error::Input("this command runs on the command line only; use the program `freehold`".to_owned())),
    }
}
