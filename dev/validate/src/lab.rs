//! The laboratory: boots loads, as many at a time as there are cores, and keeps their recordings.
//!
//! Loads have a folder each, and what lies there is not booted again; so a run that was stopped goes on where it was.

use std::path::PathBuf;
use std::time::Duration;

use freehold_boot::{Accelerator, Guest, Interrupts, Series, Store, Tools, Workload, prepare};
use freehold_report::parallel::run_all;
use freehold_report::progress::Progress;

use crate::Args;
use crate::cell::Cell;
use crate::error::Error;

/// Time for one boot.
const PATIENCE: Duration = Duration::from_secs(1200);

/// What is booted: a cell, as its kernel is or under one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Kernel, workload, and size.
    pub(crate) cell: Cell,
    /// `NAME=VALUE`.
    pub(crate) setting: Option<String>,
}

impl Load {
    /// This cell as its kernel is.
    pub(crate) fn new(cell: &Cell) -> Load {
        Load { cell: cell.clone(), setting: None }
    }

    /// What its folder is called.
    pub(crate) fn name(&self) -> String {
        self.setting.as_ref().map_or_else(|| self.cell.name(), |setting| format!("{}-{setting}", self.cell.name()))
    }
}

/// The recordings of loads; or the sentence that says why a load has none.
#[derive(Debug)]
pub(crate) struct Recordings {
    loads: Vec<(Load, Result<Vec<PathBuf>, String>)>,
}

impl Recordings {
    /// The recordings of a load that was asked for.
    pub(crate) fn find(&self, load: &Load) -> Result<&[PathBuf], String> {
        let found = self.loads.iter().find(|(known, _)| known == load);
        let files = &found.expect("what is judged was asked for").1;
        files.as_deref().map_err(String::clone)
    }

    /// The recordings of two loads; or why one of them has none.
    pub(crate) fn find_pair(&self, [before, after]: &[Load; 2]) -> Result<[&[PathBuf]; 2], String> {
        Ok([self.find(before)?, self.find(after)?])
    }
}

/// What all boots share.
pub(crate) struct Lab<'a> {
    args: &'a Args,
    tools: Tools,
    interrupts: Interrupts,
    kernels: Store,
}

impl<'a> Lab<'a> {
    /// Finds the tools.
    ///
    /// # Errors
    /// If one is missing.
    pub(crate) fn open(args: &'a Args) -> Result<Lab<'a>, Error> {
        let tools = Tools::find(args.freehold.clone())?;
        Ok(Lab { args, tools, interrupts: Interrupts::listen()?, kernels: Store::for_user()? })
    }

    /// Boots each load as often as it wants. A guest that fails does not keep other loads from theirs; all else does.
    ///
    /// # Errors
    /// See [`freehold_boot::Error`].
    pub(crate) fn record(&self, about: &str, wanted: impl IntoIterator<Item = Load>) -> Result<Recordings, Error> {
        let mut loads: Vec<(Load, Guest)> = Vec::new();
        for load in wanted {
            if loads.iter().all(|(known, _)| *known != load) {
                // One after the other: two that fetch would be in each other's way.
                let guest = self.guest(&load)?;
                prepare(&guest, &mut say)?;
                loads.push((load, guest));
            }
        }
        let progress = Progress::counting(about, (loads.len() * self.args.runs) as u64, "boots");
        let files = run_all(loads.len(), |at| {
            let (load, guest) = &loads[at];
            match self.boot(load, guest, &progress) {
                Err(freehold_boot::Error::Guest(sentence)) => Ok(Err(sentence)),
                outcome => outcome.map(Ok),
            }
        })?;
        Ok(Recordings { loads: loads.into_iter().map(|(load, _)| load).zip(files).collect() })
    }

    fn guest(&self, load: &Load) -> Result<Guest, Error> {
        let cell = &load.cell;
        let version = cell.kernel.parse().map_err(|()| Error::Input(format!("{} is no version", cell.kernel)))?;
        Ok(Guest {
            kernel: self.kernels.get(&version, &mut say)?,
            cpus: cell.cpus,
            memory: cell.mebibytes(),
            workload: Workload::find(cell.workload)?,
            root: None,
            settings: load.setting.iter().map(|text| text.parse().map_err(Error::Input)).collect::<Result<_, _>>()?,
            append: String::new(),
            record: Vec::new(),
            timeout: PATIENCE,
        })
    }

    fn boot(&self, load: &Load, guest: &Guest, progress: &Progress) -> Result<Vec<PathBuf>, freehold_boot::Error> {
        // Guests are emulated wherever this runs: what they do depends on how their CPUs take turns.
        let accelerator = Accelerator::Emulation;
        let series = Series {
            tools: &self.tools,
            sides: &[("run".to_owned(), guest.clone())],
            runs: self.args.runs,
            // As many loads are under way as there are cores, and an emulated guest takes one.
            jobs: 1,
            accelerator,
            folder: &self.args.recordings.join(load.name()),
        };
        let mut recordings = series.record(&self.interrupts, &|_| progress.advance(1))?;
        Ok(recordings.pop().unwrap_or_default())
    }
}

fn say(sentence: &str) {
    eprintln!("oracle: {sentence}");
}
