//! The project's habits as a program: `cargo xtask tidy`, `ci`, `nightly`, `mutants`, `boot`, `weigh`, `findings`, `oracle`.
//!
//! What a person could forget is checked here, and what takes ten commands is one. Nothing in the product depends on
//! this package. Start reading at the task you care about: [`tidy`] holds the rules about how the sources look, [`ci`]
//! runs every check that a change must pass and [`nightly`] those that take too long for that, both [`stage`] by stage,
//! [`mutants`] edits the core by mistake and sees whether a test notices, [`baremetal`] boots the kernel in the tree,
//! [`weigh`] says what a kernel pays in code, [`programs`] writes pages that stand on measurements.

mod baremetal;
mod ci;
mod command;
mod error;
mod mutants;
mod nightly;
mod programs;
mod stage;
mod tidy;
mod weigh;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's habits as a program.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check what compilers do not: circles, sizes, openings, unsafe, links, dead files.
    Tidy,
    /// Run every check: format, lints, tidy, tests, documentation, smoke of every command, one boot.
    Ci(stage::Args),
    /// Run what takes too long for that: hundreds of mutants, sanitizers, long soaks.
    Nightly(stage::Args),
    /// Edit the core by mistake, a few hundred times, and say which mistakes no test notices.
    Mutants(mutants::Args),
    /// Boot the small kernel of engine/baremetal in an emulator.
    Boot(baremetal::Args),
    /// Say how much of the engine's code is in a kernel that uses it.
    Weigh,
    /// Write the pages of docs/findings: simulate or time what each stands on.
    Findings(programs::Args),
    /// Hold the engine against real kernels, booted in QEMU: the suite, predictions, and their page.
    Oracle(programs::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Tidy => tidy::run(),
        Task::Ci(args) => stage::run("ci", &ci::STAGES, &args),
        Task::Nightly(args) => stage::run("nightly", &nightly::STAGES, &args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Boot(args) => baremetal::run(&args),
        Task::Weigh => weigh::run(),
        Task::Findings(args) => programs::findings(&args),
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
