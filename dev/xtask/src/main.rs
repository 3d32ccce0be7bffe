//! Tasks of the project's developers: `cargo xtask tidy`, `ci`, `nightly`, `mutants`, `boot`, `weigh`, `package`,
//! `findings`, `readme`, `oracle`.
//!
//! The tasks automate checks that a person could forget and sequences of many commands. Nothing in the product depends
//! on this package. Start reading at the task of interest:
//!
//! - [`tidy`] checks rules about the form of the sources.
//! - [`ci`] runs every check that a change must pass, and [`nightly`] runs the checks that take too long for [`ci`].
//!   Both are lists of stages, which [`stage`] runs in order.
//! - [`mutants`] makes deliberate mistakes in the core and reports those that no test notices.
//! - [`baremetal`] boots the kernel in the tree.
//! - [`weigh`] measures how much of the engine's code a kernel contains.
//! - [`readme`] checks the README.
//! - [`package`] builds the packages that users install.
//! - [`programs`] runs the programs that write pages from measurements.

mod baremetal;
mod ci;
mod command;
mod error;
mod mutants;
mod nightly;
mod package;
mod programs;
mod readme;
mod stage;
mod tidy;
mod weigh;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the project's developers.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check rules that the compiler does not check: circles, sizes, openings, unsafe, links, dead files.
    Tidy,
    /// Run every check: format, lints, tidy, tests, documentation, a smoke test of every command, one boot.
    Ci(stage::Args),
    /// Run checks that take too long for `ci`: hundreds of mutants, sanitizers, long soaks.
    Nightly(stage::Args),
    /// Make a few hundred mistakes in the core, and report those that no test notices.
    Mutants(mutants::Args),
    /// Boot the small kernel of engine/baremetal in an emulator.
    Boot(baremetal::Args),
    /// Measure how much of the engine is in a kernel that uses it.
    Weigh(weigh::Args),
    /// Build packages: published libraries, a static command, a Debian package, a Python wheel.
    Package(package::Args),
    /// Write the pages of docs/findings from simulations and timings.
    Findings(programs::Args),
    /// Check the README: its figures against the committed data, and its examples against the program.
    Readme(readme::Args),
    /// Compare the engine with real kernels, booted in QEMU: the suite, predictions, and their page.
    Oracle(programs::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Tidy => tidy::run(),
        Task::Ci(args) => stage::run(&ci::RUN, &args),
        Task::Nightly(args) => stage::run(&nightly::RUN, &args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Boot(args) => baremetal::run(&args),
        Task::Weigh(args) => weigh::run(&args),
        Task::Package(args) => package::run(&args),
        Task::Findings(args) => programs::findings(&args),
        Task::Readme(args) => readme::run(&args),
        Task::Oracle(args) => programs::oracle(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            error.exit_code()
        }
    }
}
