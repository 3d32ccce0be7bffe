//! The definition of the command line, without its execution.
//!
//! The arguments of each command are defined beside its code in [`crate::cmd`]. This file lists the commands and the
//! options that all of them share.

use std::env;
use std::ffi::OsString;
use std::io;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use freehold_report::output::OutputError;
use freehold_report::terminal::ColorChoice;

use crate::cmd;
use crate::error::Error;

/// Laboratory for Linux's page allocator and slab allocator, which the engine of Freehold implements.
///
/// Records the events of a real Linux machine's page allocator, replays them in the engine under policy A
/// and policy B, and compares the results. Start with `freehold compare`, which uses bundled recordings.
#[derive(Debug, Parser)]
#[command(name = "freehold", version = env!("FREEHOLD_VERSION"), max_term_width = 100)]
#[command(after_help = "Exit status:\n  \
                        0    The command was carried out.\n  \
                        2    The command could not be carried out; a line on stderr names the cause and the fix.\n  \
                        1    `bench`: the harness gave a wrong verdict on a known difference.\n       \
                             `calibrate --check`: simulation and threads do not agree.\n       \
                             `boot`, `diff --kernels`: a guest or its workload failed.\n       \
                             `sweep`: some inputs were left out because of errors; the others were processed.\n       \
                             `age --apply --check`: compaction recovered too much, or the check is inconclusive.\n  \
                        130  The command was interrupted.\n\n\
                        `record`, `run` and `age --apply` pass on the exit status of the program that they run: its \
                        own, or 128 and the number of the signal that killed it. 127: there is no such program. 126: \
                        it cannot be started.")]
pub struct Cli {
    /// Command to run; without a command, this help is printed.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// When to colour tables and help
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,

    /// Print no progress and no notes on stderr; results and errors are printed
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Cli {
    /// Parses the arguments of this process, or prints help, the version or an error and ends the process.
    pub fn parse_process() -> Cli {
        let mut matches = Cli::command().color(help_color(env::args_os())).get_matches();
        Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
    }
}

/// Returns the colour choice for help and errors of usage, which are printed before `--color` is parsed.
fn help_color(arguments: impl Iterator<Item = OsString>) -> clap::ColorChoice {
    let words: Vec<OsString> = arguments.take_while(|word| word != "--").collect();
    let given = words.iter().enumerate().find_map(|(index, word)| match word.to_str()? {
        "--color" => words.get(index + 1)?.to_str(),
        word => word.strip_prefix("--color="),
    });
    match given.and_then(|text| ColorChoice::from_str(text, false).ok()) {
        Some(ColorChoice::Always) => clap::ColorChoice::Always,
        Some(ColorChoice::Never) => clap::ColorChoice::Never,
        Some(ColorChoice::Auto) | None => clap::ColorChoice::Auto,
    }
}

/// The commands, in the order in which a newcomer meets them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay recordings under policy A and policy B, and compare the results
    Compare(cmd::compare::CompareArgs),
    /// Recommend settings to change on a recorded machine, with their predicted effects
    Advise(cmd::advise::AdviseArgs),
    /// Record this machine's page events while a command runs (Linux, as root)
    Record(cmd::record::RecordArgs),
    /// Record the state of this machine's memory now, without events (Linux, as root)
    Snapshot(cmd::snapshot::SnapshotArgs),
    /// Generate fragmented memory, as workloads leave it, or fragment this machine's memory
    Age(cmd::age::AgeArgs),
    /// Boot a kernel in QEMU and record a workload in the guest
    Boot(cmd::boot::BootArgs),
    /// Convert a trace of perf or trace-cmd into a recording
    Import(cmd::import::ImportArgs),
    /// Convert a recording into files for viewers of traces and profiles
    Export(cmd::export::ExportArgs),
    /// Summarize the contents of a recording
    Inspect(cmd::inspect::InspectArgs),
    /// Replay a recording under one policy
    Replay(cmd::replay::ReplayArgs),
    /// Print a map of memory under a policy, pageblock by pageblock, or the frames of one pageblock
    Map(cmd::map::MapArgs),
    /// Compare two recordings of real machines, or boot two kernels and compare them
    Diff(cmd::diff::DiffArgs),
    /// Simulate policies on one to hundreds of CPUs
    Sim(cmd::sim::SimArgs),
    /// Simulate many hosts with different parameters, and compare policies over all of them
    Fleet(cmd::fleet::FleetArgs),
    /// Run the replays or simulations of a plan, write one dataset, and print a report on it
    Sweep(cmd::sweep::SweepArgs),
    /// Measure the cost of each step on this machine, and check the simulation against real threads
    Calibrate(cmd::calibrate::CalibrateArgs),
    /// Measure the speed of policies against each other until there is a verdict
    Bench(cmd::bench::BenchArgs),
    /// Compare the machine code of functions before and after a change
    #[cfg(feature = "disasm")]
    Disasm(cmd::disasm::DisasmArgs),
    /// List the policies and the choices that they consist of
    Policies(cmd::policies::PoliciesArgs),
    /// Run a program with Freehold as its malloc
    Run(cmd::run::RunArgs),
    /// Show the heap of a live process whose malloc is Freehold
    Heap(cmd::heap::HeapArgs),
    /// Allocate and free pages, as the workloads of `boot` do
    #[command(hide = true)]
    Load(freehold_workloads::LoadArgs),
    /// Print a completion script for a shell
    Completions(cmd::completions::CompletionsArgs),
    /// Write the manual pages into a directory
    Man(cmd::man::ManArgs),
}

/// Prints the long help to stdout.
pub(crate) fn print_help() -> Result<(), Error> {
    Cli::command().write_long_help(&mut io::stdout().lock()).map_err(|error| OutputError::Stdout(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn color(words: &[&str]) -> clap::ColorChoice {
        help_color(words.iter().map(OsString::from))
    }

    #[test]
    fn help_follows_the_color_option() {
        assert_eq!(color(&["freehold", "--color", "never", "--help"]), clap::ColorChoice::Never);
        assert_eq!(color(&["freehold", "compare", "--color=always", "-h"]), clap::ColorChoice::Always);
        for unset in [&["freehold"][..], &["freehold", "--color"], &["freehold", "run", "--", "ls", "--color=never"]] {
            assert_eq!(color(unset), clap::ColorChoice::Auto);
        }
    }

    #[test]
    fn quiet_is_given_before_or_after_the_command() {
        for words in [["freehold", "-q", "record"], ["freehold", "record", "--quiet"], ["freehold", "compare", "-q"]] {
            assert!(Cli::try_parse_from(words).unwrap().quiet, "{words:?}");
        }
    }
}
