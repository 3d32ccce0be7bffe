//! The definition of the command line, without its execution.
//!
//! The arguments of each command are defined beside its code in [`crate::cmd`]. This file lists the commands and the
//! options that all of them share.

use std::io;

use clap::{CommandFactory, Parser, Subcommand};
use freehold_report::output::OutputError;
use freehold_report::terminal::ColorChoice;

use crate::cmd;
use crate::error::Error;

/// The laboratory of Freehold, Linux's page allocator and slab as software that a person can hold.
///
/// Record what a real Linux machine's page allocator did, replay it through the engine under one policy
/// and another, and see what changed. Start with `freehold compare`, which needs no recording of yours.
#[derive(Debug, Parser)]
#[command(name = "freehold", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 when done; 2 when the command could not be carried out, and then one sentence on \
                        stderr says what to do; 1 only from `bench`, when its harness was wrong about a known \
                        difference, from `calibrate --check`, when simulation and threads do not agree, from \
                        `boot` and `diff --kernels`, when a guest or its workload fails, and from `sweep`, when some \
                        recordings could not be done and the rest was."
)]
pub struct Cli {
    /// What to do; without it, this help is printed.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// When to colour tables; `auto` looks at the terminal and at NO_COLOR.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
}

/// The commands, in the order in which a newcomer meets them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay recordings under policy A and policy B, and say what changed
    Compare(cmd::compare::CompareArgs),
    /// Say which settings of a recorded machine to change, and what that would do
    Advise(cmd::advise::AdviseArgs),
    /// Record this machine's page events while a command runs (Linux, as root)
    Record(cmd::record::RecordArgs),
    /// Write down what this machine's memory looks like now (Linux, as root)
    Snapshot(cmd::snapshot::SnapshotArgs),
    /// Draw a machine's memory as workloads leave it, from pristine to hopeless
    Age(cmd::age::AgeArgs),
    /// Boot a kernel in QEMU, and record a workload in it
    Boot(cmd::boot::BootArgs),
    /// Make a recording of what perf or trace-cmd recorded
    Import(cmd::import::ImportArgs),
    /// Make files of a recording that viewers of traces and profiles open
    Export(cmd::export::ExportArgs),
    /// Show what a recording contains
    Inspect(cmd::inspect::InspectArgs),
    /// Replay a recording under one policy
    Replay(cmd::replay::ReplayArgs),
    /// Show memory under a policy, pageblock by pageblock, or the frames of one pageblock
    Map(cmd::map::MapArgs),
    /// Set two recordings of real machines side by side
    Diff(cmd::diff::DiffArgs),
    /// Simulate policies on one to hundreds of CPUs
    Sim(cmd::sim::SimArgs),
    /// Simulate many hosts that differ, and say what policies change on all of them
    Fleet(cmd::fleet::FleetArgs),
    /// Do many replays or simulations by a plan, into one dataset, and say what they show together
    Sweep(cmd::sweep::SweepArgs),
    /// Measure what steps cost on this machine, and hold the simulation against real threads
    Calibrate(cmd::calibrate::CalibrateArgs),
    /// Time rival policies against each other until there is a verdict
    Bench(cmd::bench::BenchArgs),
    /// Show the machine code of rival functions side by side
    #[cfg(feature = "disasm")]
    Disasm(cmd::disasm::DisasmArgs),
    /// List the policies, and how to change one
    Policies(cmd::policies::PoliciesArgs),
    /// Run a program whose malloc is Freehold
    Run(cmd::run::RunArgs),
    /// Show what a live process has in its heap, whose malloc is Freehold
    Heap(cmd::heap::HeapArgs),
    /// Make page traffic, as workloads of `boot` do
    #[command(hide = true)]
    Load(freehold_workloads::LoadArgs),
    /// Print a completion script for a shell
    Completions(cmd::completions::CompletionsArgs),
    /// Write the manual pages into a folder
    Man(cmd::man::ManArgs),
}

/// Prints the long help to stdout.
pub(crate) fn print_help() -> Result<(), Error> {
    Cli::command().write_long_help(&mut io::stdout().lock()).map_err(|error| OutputError::Stdout(error).into())
}
