//! `recording`: what real tasks did, played by as many CPUs as one likes.
//!
//! ```text
//! script   one pass over the file: who allocates and frees which block when
//! cast     who of its tasks plays, and on which CPUs
//! play     copies of it, dealt to the CPUs of one run
//! ```
//!
//! Every so many CPUs as were recorded play a copy of the recording, each from a later moment on than the copy before,
//! so that not all do the same at once; the seed decides where the first begins. The tasks of a copy are dealt to all
//! CPUs, by the seed as well; purgers to few of them, if the plan says who that is. Each step is due at its recorded
//! time, or earlier by `pace_percent`; a CPU that is late does not wait.
//!
//! What does not fit is smoothed over or left out, and counted ([`script`] says how). Two things to know before
//! believing the numbers: the load is the recorded one, whatever the allocator does (a slower one is late, and does not
//! get less to do); and memory that nobody touched while the recording ran is not there at all, so the machine is to be
//! as large as the copies need, and not as large as the recorded machines were together.

mod cast;
mod play;
mod script;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use freehold_recordings::Bundled;
use freehold_trace::Reader;
use serde::{Deserialize, Serialize, Serializer};

pub use cast::Stage;
pub use play::{Play, Staging};
pub use script::{Deed, LeftOut, Script};

use crate::cpu::{Block, Cpu, PS_PER_NS};
use crate::error::Error;
use crate::executor::Executor;
use crate::world::Window;

/// How long a CPU whose part is over sleeps before it looks at the clock.
const IDLE_NS: u64 = 100_000;

/// What `recording` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The recording: a file, or one of the bundled ones as it is named in the source tree.
    pub file: PathBuf,
    /// How much later than the copy before it a copy begins in the recording, in ms.
    #[serde(default = "offset_ms")]
    pub offset_ms: u64,
    /// Time runs by so many percent of the recorded pace.
    #[serde(default = "pace_percent")]
    pub pace_percent: u64,
    /// Names of the tasks whose blocks are played; all tasks if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Names of those that give memory back for others: they have one of every so many CPUs for themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purgers: Vec<String>,
    /// CPUs of which the first is the purgers', so at least 2.
    #[serde(default = "cpus_per_purger")]
    pub cpus_per_purger: u16,
    /// The file's contents, once it has been read; of them, results tell what is left out.
    #[serde(skip_deserializing, rename = "left_out", serialize_with = "left_out")]
    script: OnceLock<Arc<Script>>,
}

fn left_out<S: Serializer>(script: &OnceLock<Arc<Script>>, serializer: S) -> Result<S::Ok, S::Error> {
    script.get().map(|script| script.left_out).serialize(serializer)
}

fn offset_ms() -> u64 {
    97
}

fn pace_percent() -> u64 {
    100
}

fn cpus_per_purger() -> u16 {
    8
}

impl Recording {
    /// The script, read from the file at the first call.
    ///
    /// # Errors
    /// If the file is no readable recording, or has none of the tasks.
    pub fn script(&self) -> Result<Arc<Script>, Error> {
        if let Some(script) = self.script.get() {
            return Ok(Arc::clone(script));
        }
        let mut script = Script::of(&open(&self.file)?)?;
        cast::choose(&mut script, &self.tasks)?;
        cast::set_purgers(&mut script, &self.purgers)?;
        Ok(Arc::clone(self.script.get_or_init(|| Arc::new(script))))
    }

    /// Deals the script to the CPUs of a run that is measured from one time to another. Before, everything is set out.
    ///
    /// # Errors
    /// If the file is no readable recording, or is shorter than the run.
    pub fn stage(&self, cpus: u16, window: Window, seed: u64) -> Result<Play, Error> {
        let script = self.script()?;
        let staging = Staging {
            cpus,
            prelude_ns: window.begin / PS_PER_NS,
            play_ns: window.picoseconds() / PS_PER_NS,
            offset_ns: self.offset_ms.saturating_mul(1_000_000),
            pace_percent: self.pace_percent.max(1),
            stage: self.parted(),
            seed,
        };
        if staging.piece_ns() > script.duration {
            return Err(Error::Input(format!(
                "{} lasts {} ms, and a run at {} % of its pace would play {} ms of it; make the run shorter, or its pace \
                 slower",
                self.file.display(),
                script.duration / 1_000_000,
                self.pace_percent,
                staging.piece_ns() / 1_000_000,
            )));
        }
        Ok(Play::stage(&script, staging))
    }

    /// Whose CPUs are whose.
    fn parted(&self) -> Stage {
        match self.purgers.is_empty() {
            true => Stage::Open,
            false => Stage::Parted { cpus_per_purger: self.cpus_per_purger },
        }
    }

    /// What is not played as it was recorded, in a sentence; nothing before the file has been read.
    pub fn left_out(&self) -> Option<String> {
        let script = self.script.get()?;
        let LeftOut { allocated_before, silent_frees, freed_in_parts, failed_requests, impossible, of_others } =
            script.left_out;
        let others =
            if of_others > 0 { format!(" Of other tasks, {of_others} steps are left out.") } else { String::new() };
        Some(format!(
            "Of {} recorded steps of {}, {allocated_before} free what was there before and is set out first, {silent_frees} \
             frees had no event, {freed_in_parts} blocks were freed in parts and are freed whole; {failed_requests} \
             requests that failed and {impossible} impossible ones are left out, and so are drains, reclaim and \
             compaction as events.{others}",
            script.steps.len(),
            self.file.display(),
        ))
    }

    /// What every CPU does.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        cpu.play().expect("whoever runs a recording stages it first").run(cpu);
    }
}

/// Opens the file as it was named or, if it is not there, the bundled recording of this name.
fn open(file: &Path) -> Result<Reader, Error> {
    // A file that is nowhere is for the reader to complain about.
    let Some(bundled) = Bundled::named(file).filter(|_| !file.is_file()) else {
        return Ok(Reader::open(file)?.admitted()?);
    };
    let unpacked = bundled.open();
    let unpacked =
        unpacked.map_err(|error| Error::Input(format!("there is no memory for {}: {error}", bundled.name)))?;
    Ok(Reader::of(unpacked, file)?.admitted()?)
}

impl Play {
    /// Plays this CPU's part, and clears up what is left.
    fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        for line in self.part(cpu.number()) {
            let now_ns = cpu.now() / PS_PER_NS;
            if now_ns < line.due_ns {
                cpu.work(line.due_ns - now_ns);
            }
            if cpu.is_over() {
                break;
            }
            self.play(cpu, line.block, line.deed);
        }
        while !cpu.is_over() {
            cpu.work(IDLE_NS);
        }
        self.clear_up(cpu);
    }

    fn play<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, number: u32, deed: Deed) {
        if deed == Deed::Free {
            if let Some(block) = self.leave(number) {
                cpu.free(block);
            }
            return;
        }
        let wanted = self.wanted(number);
        if let Some(block) = cpu.alloc(wanted.gfp, wanted.order)
            && !self.enter(number, block.pfn)
        {
            cpu.free(block);
        }
    }

    /// Frees what this CPU allocated and nobody freed.
    fn clear_up<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let allocated = self.part(cpu.number()).iter().filter(|line| line.deed == Deed::Alloc);
        let mut left: Vec<Block> = allocated.filter_map(|line| self.leave(line.block)).collect();
        cpu.free_all(&mut left);
    }
}
