//! `recording`: what real tasks did, played by as many CPUs as one likes.
//!
//! Every so many CPUs as were recorded play a copy of the recording, each from a later moment on than the copy before,
//! so that not all do the same at once; the seed decides where the first begins. The tasks of a copy are dealt to all
//! CPUs, by the seed as well; purgers to few of them, if the plan says who that is. Each step is due at its recorded
//! time, or earlier by `pace_percent`; a CPU that is late does not wait.
//!
//! What does not fit is smoothed over or left out, and counted ([`playback`](crate::playback) says how). Two things to
//! know before believing the numbers: the load is the recorded one, whatever the allocator does (a slower one is late,
//! and does not get less to do); and memory that nobody touched while the recording ran is not there at all, so the
//! machine is to be as large as the copies need, and not as large as the recorded machines were together.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use freehold_recordings::Bundled;
use freehold_trace::Reader;
use serde::{Deserialize, Serialize, Serializer};

use crate::block::Block;
use crate::cpu::{Cpu, PS_PER_NS};
use crate::executor::Executor;
use crate::playback::{
    Action, CpuSplit, Omissions, Play, PlaySettings, PlaybackError, Script, keep_tasks, set_purgers,
};
use crate::window::Window;

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
    script.get().map(|script| script.omissions).serialize(serializer)
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
    pub(crate) fn script(&self) -> Result<Arc<Script>, PlaybackError> {
        if let Some(script) = self.script.get() {
            return Ok(Arc::clone(script));
        }
        let mut script = Script::read(&open(&self.file)?)?;
        keep_tasks(&mut script, &self.tasks)?;
        set_purgers(&mut script, &self.purgers)?;
        Ok(Arc::clone(self.script.get_or_init(|| Arc::new(script))))
    }

    /// Deals the script to the CPUs of a run that is measured from one time to another. Before, everything is set out.
    ///
    /// # Errors
    /// If the file is no readable recording, or is shorter than the run.
    pub fn stage(&self, cpus: u16, window: Window, seed: u64) -> Result<Play, PlaybackError> {
        let script = self.script()?;
        let settings = PlaySettings {
            cpus,
            prelude_ns: window.begin / PS_PER_NS,
            play_ns: window.picoseconds() / PS_PER_NS,
            offset_ns: self.offset_ms.saturating_mul(1_000_000),
            pace_percent: self.pace_percent.max(1),
            split: self.cpu_split(),
            seed,
        };
        if settings.piece_ns() > script.duration {
            return Err(PlaybackError::TooShort {
                path: self.file.clone(),
                recorded_ms: script.duration / 1_000_000,
                pace_percent: self.pace_percent,
                played_ms: settings.piece_ns() / 1_000_000,
            });
        }
        Ok(Play::new(&script, settings))
    }

    /// Returns which CPUs are for purgers.
    fn cpu_split(&self) -> CpuSplit {
        match self.purgers.is_empty() {
            true => CpuSplit::Shared,
            false => CpuSplit::Purgers { cpus_per_purger: self.cpus_per_purger },
        }
    }

    /// What is not played as it was recorded, in a sentence; nothing before the file has been read.
    pub fn left_out(&self) -> Option<String> {
        let script = self.script.get()?;
        let Omissions { allocated_before, silent_frees, freed_in_parts, failed_requests, impossible, of_others } =
            script.omissions;
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
fn open(file: &Path) -> Result<Reader, PlaybackError> {
    // A file that does not exist anywhere is reported by the reader.
    let Some(bundled) = Bundled::find(file).filter(|_| !file.is_file()) else {
        return Ok(Reader::open(file)?.admitted()?);
    };
    let unpacked = bundled.open().map_err(|source| PlaybackError::Unpack { name: bundled.name, source })?;
    Ok(Reader::from_file(unpacked, file)?.admitted()?)
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
            self.play_step(cpu, line.block, line.action);
        }
        while !cpu.is_over() {
            cpu.work(IDLE_NS);
        }
        self.clear_up(cpu);
    }

    fn play_step<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, number: u32, action: Action) {
        if action == Action::Free {
            if let Some(block) = self.leave(number) {
                cpu.free(block);
            }
            return;
        }
        let request = self.request(number);
        if let Some(block) = cpu.alloc(request.gfp, request.order)
            && !self.enter(number, block.pfn)
        {
            cpu.free(block);
        }
    }

    /// Frees what this CPU allocated and nobody freed.
    fn clear_up<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let allocated = self.part(cpu.number()).iter().filter(|line| line.action == Action::Alloc);
        let mut left: Vec<Block> = allocated.filter_map(|line| self.leave(line.block)).collect();
        cpu.free_all(&mut left);
    }
}
