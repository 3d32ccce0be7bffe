//! The oracle: compares the engine with real kernels: `cargo xtask oracle`.
//!
//! The suite draws [`cell`]s of a grid, and the [`lab`] boots each several times. The recordings are replayed under the
//! rules of the kernel that ran ([`judge`]), and [`suite`] makes the tables of errors. A [`prediction`] replays the
//! recordings of one kernel under the rules of another kernel, or under another setting. Their [`table`]s are shown by
//! docs/fidelity.md. Those of the published [`changes`], before and after in real kernels, are shown by
//! docs/findings/kernels.md, and those of the outcomes of [`advice`] by docs/findings/advice.md. Recordings are kept in a
//! folder, so an interrupted run continues from its last state.

mod advice;
mod cell;
mod changes;
mod decisions;
mod error;
mod failures;
mod judge;
mod lab;
mod prediction;
mod suite;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use cell::Half;
use clap::Parser;
use error::Error;
use freehold_report::origin;
use freehold_report::output;
use freehold_report::parallel::run_all;
use freehold_report::progress::Progress;
use freehold_stats::samples::RUNS_MIN;
use judge::AS_RECORDED;
use lab::{Lab, Load};
use prediction::{PredictedRow, Prediction};
use suite::CellResult;
use table::NamedTable;

/// Compares the engine with real kernels.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask oracle", bin_name = "cargo xtask oracle")]
pub(crate) struct Args {
    /// Boot cells of the grid, and report how far the engine is from the kernels' own results
    #[arg(long)]
    suite: bool,

    /// Boot pairs of kernels, and of settings, and report how well recordings of the first predict the second
    #[arg(long)]
    prediction: bool,

    /// Boot the kernels before and after the published changes, and report the effect of each change
    #[arg(long, conflicts_with_all = ["suite", "prediction"])]
    changes: bool,

    /// Boot loads with two values of a setting each, and compare the levels of `freehold advise` with the outcome:
    /// docs/findings/advice.md
    #[arg(long, conflicts_with_all = ["suite", "prediction", "changes"])]
    advice: bool,

    /// Cells of the grid that the suite draws
    #[arg(long, value_name = "N", default_value_t = 20)]
    cells: usize,

    /// Half of the drawn cells that the suite boots; without it, both
    #[arg(long, value_enum, requires = "suite")]
    half: Option<Half>,

    /// Pairs of kernels that predictions draw, and as many of settings
    #[arg(long, value_name = "N", default_value_t = 5)]
    pairs: usize,

    /// Boots of each cell, and of each side of a pair
    #[arg(long, value_name = "N", default_value = "5", value_parser = runs)]
    runs: usize,

    /// Seed with which cells are drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Folder of the recordings; existing ones are not made again
    #[arg(long, value_name = "FOLDER", default_value = "target/oracle")]
    recordings: PathBuf,

    /// Program that records in the guests: `freehold`, built for release
    #[arg(long, value_name = "FILE", default_value = "target/release/freehold")]
    freehold: PathBuf,

    /// Folder for the tables as CSV; without it, they are printed
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,

    /// With --prediction: file for the track record of predictions, which `freehold advise` contains; write it and the
    /// tables in one run
    #[arg(long, value_name = "FILE", requires = "prediction")]
    track_record: Option<PathBuf>,
}

/// Parses a number of runs, which must be enough for a verdict.
fn runs(text: &str) -> Result<usize, String> {
    let runs = text.parse().map_err(|_| "the number of runs must be a whole number".to_owned())?;
    if runs < RUNS_MIN { Err(format!("a verdict needs at least {RUNS_MIN} runs")) } else { Ok(runs) }
}

fn main() -> ExitCode {
    origin::built_from(option_env!("FREEHOLD_COMMIT"));
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oracle: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), Error> {
    if !args.suite && !args.prediction && !args.changes && !args.advice {
        let options = "no task: give --suite, --prediction or both, or --changes, or --advice";
        return Err(Error::Input(options.to_owned()));
    }
    let lab = Lab::open(args)?;
    if args.advice {
        return table::emit(args, &advice::tables(args, &advice::judged(&lab, args)?));
    }
    if args.changes {
        let recorded = lab.record("the changes", changes::loads())?;
        return table::emit(args, &changes::tables(args, &recorded)?);
    }
    let suite = if args.suite { judged_cells(&lab, args)? } else { Vec::new() };
    let predictions = if args.prediction { predicted_pairs(&lab, args)? } else { Vec::new() };
    if let Some(file) = &args.track_record {
        output::write_atomically(file, prediction::track_record(&predictions).to_json().as_bytes())?;
    }
    table::emit(args, &fidelity_tables(args, &suite, &predictions))
}

/// Path of the track record of predictions, which `freehold advise` contains.
const TRACK_RECORD: &str = "lab/replay/src/advice/track-record.json";

/// Returns the tables of the suite, of predictions, or of both.
fn fidelity_tables(args: &Args, judged: &[CellResult], predicted: &[PredictedRow]) -> Vec<NamedTable> {
    let mut tables = Vec::new();
    if !judged.is_empty() {
        let halves = [Half::HeldOut, Half::Open].into_iter().filter(|&half| args.half.is_none_or(|only| only == half));
        tables.extend(halves.map(|half| suite::errors(judged, half)));
        tables.extend([suite::cells(judged), suite::failures(judged), suite::decisions(judged)]);
    }
    if !predicted.is_empty() {
        tables.extend([prediction::scores(predicted), prediction::table(predicted)]);
    }
    let cells = judged.iter().filter_map(|judged| Some((judged.cell.name(), judged.runs.as_ref().err()?.clone())));
    let pairs = predicted.iter().filter_map(|pair| {
        Some((format!("{} as {}", pair.cell.name(), pair.to), pair.outcome.as_ref().err()?.clone()))
    });
    tables.push(NamedTable::failures(cells.chain(pairs)));
    tables.push(NamedTable::recipe(&fidelity_command(args)));
    tables
}

fn fidelity_command(args: &Args) -> String {
    let half = args.half.map(|half| format!(" --half {half}")).unwrap_or_default();
    let suite = if args.suite { format!(" --suite --cells {}{half}", args.cells) } else { String::new() };
    let prediction = if args.prediction { format!(" --prediction --pairs {}", args.pairs) } else { String::new() };
    let track_record = if args.prediction { format!(" --track-record {TRACK_RECORD}") } else { String::new() };
    let (runs, seed) = (args.runs, args.seed);
    format!(
        "cargo xtask oracle{suite}{prediction} --runs {runs} --seed {seed} --out docs/findings/data/fidelity{track_record}"
    )
}

/// Records and replays the cells of the suite.
fn judged_cells(lab: &Lab<'_>, args: &Args) -> Result<Vec<CellResult>, Error> {
    let mut cells = cell::sample(args.cells, args.seed);
    cells.retain(|cell| args.half.is_none_or(|half| half == cell.half()));
    let recorded = lab.record("the suite", cells.iter().map(Load::new))?;
    let progress = Progress::counting("replays of the suite", cells.len() as u64, "cells");
    run_all(cells.len(), |at| {
        let cell = cells[at].clone();
        let runs = match recorded.find(&Load::new(&cell)) {
            Ok(files) => Ok(judge::replay(files, [AS_RECORDED])?).map(|[runs]| runs),
            Err(sentence) => Err(sentence),
        };
        progress.advance(1);
        Ok(CellResult { cell, runs })
    })
}

/// Records and replays the pairs of predictions.
fn predicted_pairs(lab: &Lab<'_>, args: &Args) -> Result<Vec<PredictedRow>, Error> {
    let pairs = prediction::pairs(args.pairs, args.seed);
    let loads: Vec<[Load; 2]> = pairs.iter().map(|(cell, to)| [Load::new(cell), to.applied_to(cell)]).collect();
    let recorded = lab.record("predictions", loads.iter().flatten().cloned())?;
    let progress = Progress::counting("replays of predictions", pairs.len() as u64, "pairs");
    run_all(pairs.len(), |at| {
        let (cell, to) = pairs[at].clone();
        let outcome = match recorded.find_pair(&loads[at]) {
            Ok(files) => Ok(Prediction::measure(to, files)?),
            Err(sentence) => Err(sentence),
        };
        progress.advance(1);
        Ok(PredictedRow { cell, to, outcome })
    })
}
