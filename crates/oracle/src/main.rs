//! The oracle: real kernels, asked what they do, and the engine held against them: `cargo xtask oracle`.
//!
//! The suite draws [`cell`]s of a grid, boots each so many times and replays what was recorded under the rules of the
//! kernel that ran ([`judge`]); [`suite`] makes the tables of errors. A [`prediction`] replays one kernel's recordings
//! under the rules of another, or under another setting. All of it makes one [`page`], docs/fidelity.md. Recordings stay
//! in a folder, so a run that was stopped goes on where it was.

mod cell;
mod error;
mod judge;
mod page;
mod prediction;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cell::Cell;
use clap::Parser;
use error::Error;
use freehold_boot::{Accelerator, Guest, Interrupts, Kernel, Series, Setting, Store, Tools, Version, Workload};
use freehold_measure::origin;
use freehold_measure::progress::Progress;
use judge::{AS_RECORDED, Way};
use prediction::{Change, Predicted, Prediction};

/// Time for one boot.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Holds the engine against real kernels.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask oracle", bin_name = "cargo xtask oracle")]
pub struct Args {
    /// Boot cells of the grid, and say how far the engine is from what their kernels did
    #[arg(long)]
    suite: bool,

    /// Boot pairs of kernels, and of settings, and say how well one's recordings predict what the other does
    #[arg(long)]
    prediction: bool,

    /// Cells of the grid that the suite draws; pairs of kernels that predictions draw, and as many of settings
    #[arg(long, value_name = "N", default_value_t = 20)]
    cells: usize,

    /// Boots of each cell
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,

    /// What cells are drawn by
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Where recordings are kept; what is there is not booted again
    #[arg(long, value_name = "FOLDER", default_value = "target/oracle")]
    recordings: PathBuf,

    /// The program that records in the guests: `freehold`, built for release
    #[arg(long, value_name = "FILE", default_value = "target/release/freehold")]
    freehold: PathBuf,

    /// The page to write; without it, the tables are printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
    if !args.suite && !args.prediction {
        return Err(Error::Input("say what to do: --suite, --prediction, or both".to_owned()));
    }
    let lab = Lab::open(args)?;
    let suite = if args.suite { lab.suite()? } else { Vec::new() };
    let predictions = if args.prediction { lab.predictions()? } else { Vec::new() };
    page::emit(args, &suite, &predictions)
}

/// What all boots share.
struct Lab<'a> {
    args: &'a Args,
    tools: Tools,
    accelerator: Accelerator,
    interrupts: Interrupts,
    kernels: Store,
}

impl<'a> Lab<'a> {
    fn open(args: &'a Args) -> Result<Lab<'a>, Error> {
        let tools = Tools::find(args.freehold.clone())?;
        let accelerator = tools.accelerator(Some(Accelerator::Emulation))?;
        Ok(Lab { args, tools, accelerator, interrupts: Interrupts::listen()?, kernels: Store::of_user()? })
    }

    fn kernel(&self, version: &str) -> Result<Kernel, Error> {
        let parsed: Version = version.parse().map_err(|()| Error::Input(format!("{version} is no version")))?;
        Ok(self.kernels.get(&parsed, &mut |sentence| eprintln!("oracle: {sentence}"))?)
    }

    /// Boots the cell as often as it wants, and names its recordings.
    fn record(&self, cell: &Cell) -> Result<Vec<PathBuf>, Error> {
        self.record_in(cell.name(), cell, Vec::new())
    }

    /// The same under a setting.
    fn record_set(&self, cell: &Cell, setting: &str) -> Result<Vec<PathBuf>, Error> {
        let settings = vec![setting.parse().map_err(Error::Input)?];
        self.record_in(format!("{}-{setting}", cell.name()), cell, settings)
    }

    fn record_in(&self, folder: String, cell: &Cell, settings: Vec<Setting>) -> Result<Vec<PathBuf>, Error> {
        let guest = Guest {
            kernel: self.kernel(cell.kernel)?,
            cpus: cell.cpus,
            memory: cell.mebibytes(),
            workload: Workload::find(cell.workload)?,
            root: None,
            settings,
            append: String::new(),
            record: Vec::new(),
            timeout: PATIENCE,
        };
        let series = Series {
            tools: &self.tools,
            sides: &[("run".to_owned(), guest)],
            runs: self.args.runs,
            jobs: self.accelerator.guests_at_once(cell.cpus),
            accelerator: self.accelerator,
            folder: &self.args.recordings.join(folder),
        };
        let mut recordings = series.record(&self.interrupts, &|_| ())?;
        Ok(recordings.pop().unwrap_or_default())
    }

    fn suite(&self) -> Result<Vec<suite::Judged>, Error> {
        let cells = cell::sample(self.args.cells, self.args.seed);
        let progress = Progress::counting("the suite", cells.len() as u64, "cells");
        let judged = cells.into_iter().map(|cell| {
            let runs = kept(self.record(&cell).and_then(|files| judge::replay(&files, [AS_RECORDED])))?;
            progress.advance(1);
            Ok(suite::Judged { cell, runs: runs.map(|[runs]| runs) })
        });
        judged.collect()
    }

    /// Cells of the first kernel, each with what it is to predict: another kernel, and another setting.
    fn predictions(&self) -> Result<Vec<Predicted>, Error> {
        let cells = cell::sample(self.args.cells, self.args.seed).into_iter();
        let cells: Vec<Cell> = cells.map(|cell| Cell { kernel: prediction::FROM, ..cell }).collect();
        let progress = Progress::counting("predictions", 2 * cells.len() as u64, "pairs");
        let kernels = cells.iter().zip(prediction::KERNELS.iter().cycle());
        let kernels = kernels.map(|(cell, to)| (cell.clone(), Change::Kernel(to)));
        let settings = cells.iter().zip(prediction::TRIALS.iter().cycle()).map(|(cell, trial)| {
            let cell = Cell { workload: trial.workload.unwrap_or(cell.workload), ..cell.clone() };
            (cell, Change::Setting(trial.setting))
        });
        let pairs = kernels.chain(settings).map(|(cell, to)| {
            let outcome = kept(self.predict(&cell, to))?;
            progress.advance(1);
            Ok(Predicted { cell, to, outcome })
        });
        pairs.collect()
    }

    fn predict(&self, cell: &Cell, to: Change) -> Result<Prediction, Error> {
        let recorded = self.record(cell)?;
        let ([before, after], truth) = match to {
            Change::Kernel(version) => {
                let truth = self.record(&Cell { kernel: version, ..cell.clone() })?;
                let policy = format!("linux-{version}");
                (judge::replay(&recorded, [AS_RECORDED, Way { policy: Some(&policy), ..AS_RECORDED }])?, truth)
            }
            Change::Setting(setting) => {
                let truth = self.record_set(cell, setting)?;
                let settings = [setting.parse().map_err(Error::Input)?];
                (judge::replay(&recorded, [AS_RECORDED, Way { settings: &settings, ..AS_RECORDED }])?, truth)
            }
        };
        let [truth] = judge::replay(&truth, [AS_RECORDED])?;
        Ok(Prediction { before, after, truth })
    }
}

/// What came of a cell, or the sentence that says why nothing did: a guest that fails does not keep other cells from their
/// table. All else does.
fn kept<T>(outcome: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match outcome {
        Ok(outcome) => Ok(Ok(outcome)),
        Err(Error::Boot(freehold_boot::Error::Guest(sentence))) => Ok(Err(sentence)),
        Err(error) => Err(error),
    }
}
