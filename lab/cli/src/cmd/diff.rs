//! `freehold diff REC1 REC2`: two recordings of real machines side by side; `freehold diff --kernels A B`: two kernels,
//! each booted and recorded several times, with a verdict.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use freehold_boot::{Error as BootError, Guest, Interrupts, Series, SeriesRun, Setting, Tools, config};
use freehold_inspect::runs::Runs;
use freehold_inspect::{diff, inspect};
use freehold_report::formats::Formats;
use freehold_report::notes;
use freehold_report::progress::Progress;
use freehold_report::terminal::Style;
use freehold_stats::samples::RUNS_MIN;

use super::guest::{GuestArgs, kernel, tools};
use super::margin;
use crate::error::Error;

/// Arguments of `freehold diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold diff before.parquet after.parquet\n  \
                  freehold diff before.parquet after.parquet --markdown diff.md\n  \
                  freehold diff --kernels 6.12 arch/x86/boot/bzImage --workload pressure\n  \
                  freehold diff --kernels 7.3 7.3 --setting-b vm.percpu_pagelist_high_fraction=1000 --runs 6\n\n\
                  The comparison of two recordings has no verdict, because two machines never do the same work. With \
                  --kernels there is a verdict: each kernel runs the workload --runs times, interleaved, and a counter \
                  differs if its difference exceeds its variation from run to run.")]
pub struct DiffArgs {
    /// First recording
    #[arg(value_name = "REC1", required_unless_present = "kernels", conflicts_with = "kernels")]
    first: Option<PathBuf>,

    /// Second recording
    #[arg(value_name = "REC2", required_unless_present = "kernels", conflicts_with = "kernels")]
    second: Option<PathBuf>,

    #[command(flatten)]
    kernels: KernelsArgs,

    #[command(flatten)]
    guest: GuestArgs,

    /// Print all measures, counters and settings
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Options for the comparison of two kernels.
#[derive(Debug, Args)]
#[command(next_help_heading = "Two kernels")]
struct KernelsArgs {
    /// Boot two kernels in QEMU and compare them: images, or versions that Debian packages. The options below describe
    /// both guests
    #[arg(long, value_names = ["A", "B"], num_args = 2)]
    kernels: Vec<String>,

    /// Boots of each kernel; a verdict needs at least three
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,

    /// Change a setting in the guests of A only; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    setting_a: Vec<Setting>,

    /// Change a setting in the guests of B only; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    setting_b: Vec<Setting>,

    /// Folder for the recordings, one for each boot; a boot whose recording exists is not repeated
    #[arg(long, short, value_name = "FOLDER", default_value = "kernels")]
    out: PathBuf,

    /// Concurrent boots [default: as many as this machine has CPUs for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// Margin in percent: relative changes up to the margin are "no change"
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,
}

/// Prints two recordings side by side, or boots two kernels and prints their comparison.
pub(crate) fn run(args: &DiffArgs, style: Style) -> Result<(), Error> {
    let (first, second) = match (args.kernels.kernels.as_slice(), &args.first, &args.second) {
        ([a, b], ..) => return of_kernels(args, [a, b], style),
        (_, Some(first), Some(second)) => (first, second),
        _ => return Err(Error::Input("name two recordings, or two kernels with --kernels".to_owned())),
    };
    args.formats.try_all([first, second].map(PathBuf::as_path))?;
    let first = inspect(first, None)?;
    let second = inspect(second, None)?;
    let mut difference = diff::differ(&first, &second);
    difference.is_whole = args.all;
    Ok(args.formats.emit(&difference, style)?)
}

/// Boots both kernels and prints the differences.
fn of_kernels(args: &DiffArgs, kernels: [&String; 2], style: Style) -> Result<(), Error> {
    let margin = margin(args.kernels.margin)?;
    args.formats.try_all([])?;
    args.guest.check()?;
    if usize::from(args.kernels.runs) < RUNS_MIN {
        notes::print(&format!(
            "there is no verdict, because it needs at least {RUNS_MIN} runs of each kernel; see --runs"
        ));
    }
    let tools = tools(&args.guest, &kernels.map(String::as_str))?;
    let sides = sides(args, kernels)?;
    let names = [0, 1].map(|at: usize| sides[at].1.describe());
    let (recordings, died) = record(args, &tools, &sides)?;
    let mut groups = Vec::new();
    for files in &recordings {
        groups.push(files.iter().map(|file| inspect(file, None)).collect::<Result<Vec<_>, _>>()?);
    }
    let mut runs = Runs::compare(names, [&groups[0], &groups[1]], margin);
    runs.is_whole = args.all;
    if died > 0 {
        runs.caveats.push(format!("Boots repeated after errors of the emulator, not among the runs: {died}."));
    }
    runs.caveats.push(format!("The recordings are in {}.", args.kernels.out.display()));
    Ok(args.formats.emit(&runs, style)?)
}

/// Returns the guests A and B with the names of their files.
fn sides(args: &DiffArgs, kernels: [&String; 2]) -> Result<Vec<(String, Guest)>, Error> {
    let settings = [&args.kernels.setting_a, &args.kernels.setting_b];
    let mut sides = Vec::new();
    for ((name, text), settings) in ["a", "b"].into_iter().zip(kernels).zip(settings) {
        let mut guest = args.guest.guest(kernel(text, &mut notes::print)?)?;
        config::check(&guest.kernel, &mut notes::print)?;
        guest.settings.extend(settings.iter().cloned());
        sides.push((name.to_owned(), guest));
    }
    Ok(sides)
}

/// Boots the missing runs. Returns the recordings of each side, and the number of boots that were repeated because of
/// an error of the emulator.
fn record(args: &DiffArgs, tools: &Tools, sides: &[(String, Guest)]) -> Result<(Vec<Vec<PathBuf>>, u32), Error> {
    let (runs, folder) = (usize::from(args.kernels.runs), args.kernels.out.as_path());
    let accelerator = tools.accelerator(args.guest.accel.chosen(), &[&sides[0].1.kernel, &sides[1].1.kernel])?;
    let jobs = args.kernels.jobs.map_or_else(|| accelerator.guests_at_once(args.guest.cpus), usize::from);
    let series = Series { tools, sides, runs, jobs, accelerator, folder };
    let interrupts = Interrupts::listen()?;
    let progress = Progress::counting("booting", (runs * sides.len()) as u64, "boots");
    let died = AtomicU32::new(0);
    let done = series.record(&interrupts, &|run: SeriesRun<'_>| {
        died.fetch_add(run.boot.map_or(0, |boot| boot.slips), Ordering::Relaxed);
        progress.advance(1);
    });
    let recordings = done.map_err(|error| match error {
        BootError::Interrupted => Error::Halted(folder.to_owned()),
        error => error.into(),
    })?;
    Ok((recordings, died.into_inner()))
}
