//! The laboratory: boots loads, as many at once as there are cores, and keeps their recordings.
//!
//! Each load has a folder, and recordings that exist there are not made again. So an interrupted run continues from its
//! last state.

use std::path::PathBuf;
use std::time::Duration;

use freehold_boot::{Accelerator, Guest, Interrupts, Program, Series, Store, Tools, Workload, prepare};
use freehold_report::parallel::run_all;
use freehold_report::progress::Progress;

use crate::Args;
use crate::cell::Cell;
use crate::error::Error;

/// Time limit of one boot.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Sets of events that the rows by mechanism need.
const MECHANISMS: &str = "reclaim,compaction";

/// Unit of booting: a cell with the kernel's default settings, or with one changed setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Kernel, workload and size.
    pub(crate) cell: Cell,
    /// Changed setting as `NAME=VALUE`.
    pub(crate) setting: Option<String>,
}

impl Load {
    /// Creates a load of this cell with default settings.
    pub(crate) fn new(cell: &Cell) -> Load {
        Load { cell: cell.clone(), setting: None }
    }

    /// Returns the name of the load, which is the name of its folder.
    pub(crate) fn name(&self) -> String {
        self.setting.as_ref().map_or_else(|| self.cell.name(), |setting| format!("{}-{setting}", self.cell.name()))
    }
}

/// Recordings of loads, or the reason for which a load has none.
#[derive(Debug)]
pub(crate) struct Recordings {
    loads: Vec<(Load, Result<Vec<PathBuf>, String>)>,
}

impl Recordings {
    /// Returns the recordings of a load. The load must be one of those that were recorded; otherwise this function
    /// panics.
    pub(crate) fn find(&self, load: &Load) -> Result<&[PathBuf], String> {
        let found = self.loads.iter().find(|(known, _)| known == load);
        let files = &found.expect("each judged load was requested").1;
        files.as_deref().map_err(String::clone)
    }

    /// Returns the recordings of two loads, or the reason for which one of them has none.
    pub(crate) fn find_pair(&self, [before, after]: &[Load; 2]) -> Result<[&[PathBuf]; 2], String> {
        Ok([self.find(before)?, self.find(after)?])
    }
}

/// State shared by all boots.
pub(crate) struct Lab<'a> {
    args: &'a Args,
    tools: Tools,
    interrupts: Interrupts,
    kernels: Store,
}

impl<'a> Lab<'a> {
    /// Finds the tools that boots need.
    ///
    /// # Errors
    /// Returns an error if a tool is missing.
    pub(crate) fn open(args: &'a Args) -> Result<Lab<'a>, Error> {
        let tools = Tools::find(args.freehold.clone(), &Program::TO_FETCH)?;
        Ok(Lab { args, tools, interrupts: Interrupts::listen()?, kernels: Store::for_user()? })
    }

    /// Boots each load as often as `--runs` requires. If a guest fails, only its own load has no recordings. Any other
    /// error ends the recording of all loads.
    ///
    /// # Errors
    /// See [`freehold_boot::Error`].
    pub(crate) fn record(&self, about: &str, wanted: impl IntoIterator<Item = Load>) -> Result<Recordings, Error> {
        let mut loads: Vec<(Load, Guest)> = Vec::new();
        for load in wanted {
            if loads.iter().all(|(known, _)| *known != load) {
                // Guests are prepared one after the other, because concurrent downloads would interfere.
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
        let version =
            cell.kernel.parse().map_err(|()| Error::Input(format!("{} is not a version of Linux", cell.kernel)))?;
        Ok(Guest {
            kernel: self.kernels.get(&version, &mut say)?,
            cpus: cell.cpus,
            memory: cell.mebibytes(),
            workload: Workload::find(cell.workload)?,
            root: None,
            settings: load.setting.iter().map(|text| text.parse().map_err(Error::Input)).collect::<Result<_, _>>()?,
            append: String::new(),
            record: ["--events", MECHANISMS].map(str::to_owned).to_vec(),
            timeout: PATIENCE,
        })
    }

    fn boot(&self, load: &Load, guest: &Guest, progress: &Progress) -> Result<Vec<PathBuf>, freehold_boot::Error> {
        // Guests are always emulated, because their results depend on how their CPUs take turns.
        let accelerator = Accelerator::Emulation;
        let series = Series {
            tools: &self.tools,
            sides: &[("run".to_owned(), guest.clone())],
            runs: self.args.runs,
            // The number of concurrent loads equals the number of cores, and an emulated guest uses one core.
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
