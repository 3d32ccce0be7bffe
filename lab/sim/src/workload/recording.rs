//! `recording`: events of recorded tasks, played by any number of CPUs.
//!
//! Each group of as many CPUs as were recorded corresponds to one copy of the recording. Each copy begins at a later
//! moment of the recording than the copy before, so that copies do not run in lockstep; the seed decides the first
//! begin. The tasks of a copy are distributed over all CPUs, also by the seed; purgers play on few CPUs, if the plan
//! names any. Each step is due at its recorded time, scaled by `pace_percent`; a CPU that is late does not wait.
//!
//! Events that do not fit are adapted or omitted, and counted; see [`playback`](crate::playback). Two limits apply to
//! the numbers. First, the load is the recorded one, whatever the allocator does: a slower allocator makes CPUs late,
//! but does not get less work. Second, memory that was neither allocated nor freed during the recording is absent, so
//! the machine should be as large as the copies need, and not as large as the recorded machines together.

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

/// Nanoseconds between two checks of the clock by a CPU that has played its part.
const IDLE_NS: u64 = 100_000;

/// Parameters of `recording`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Path of the recording, or the name of a bundled recording as in the source tree.
    pub file: PathBuf,
    /// Distance in the recording between the begins of two successive copies, in ms.
    #[serde(default = "offset_ms")]
    pub offset_ms: u64,
    /// Speed of the play, in percent of the recorded speed.
    #[serde(default = "pace_percent")]
    pub pace_percent: u64,
    /// Names of the tasks whose blocks are played; empty for all tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Names of the purgers, which return memory for other tasks and play alone on one CPU of each group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purgers: Vec<String>,
    /// CPUs of a group, of which the first is for purgers; at least 2.
    #[serde(default = "cpus_per_purger")]
    pub cpus_per_purger: u16,
    /// Script of the file, once it has been read. Results contain its counts of omitted events.
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
    /// Returns the script, which the first call reads from the file.
    ///
    /// # Errors
    /// Returns an error if the file is not a readable recording, or has none of the named tasks.
    pub(crate) fn script(&self) -> Result<Arc<Script>, PlaybackError> {
        if let Some(script) = self.script.get() {
            return Ok(Arc::clone(script));
        }
        let mut script = Script::read(&open(&self.file)?)?;
        keep_tasks(&mut script, &self.tasks)?;
        set_purgers(&mut script, &self.purgers)?;
        Ok(Arc::clone(self.script.get_or_init(|| Arc::new(script))))
    }

    /// Distributes the script to the CPUs of a run with this window. Blocks from before the recording are allocated
    /// before the window.
    ///
    /// # Errors
    /// Returns an error if the file is not a readable recording, has none of the named tasks, or is shorter than the
    /// part that the run plays.
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

    /// Returns the division of CPUs between purgers and other tasks.
    fn cpu_split(&self) -> CpuSplit {
        match self.purgers.is_empty() {
            true => CpuSplit::Shared,
            false => CpuSplit::Purgers { cpus_per_purger: self.cpus_per_purger },
        }
    }

    /// Returns a sentence on events that are not played as recorded; `None` before the file has been read.
    pub fn left_out(&self) -> Option<String> {
        let script = self.script.get()?;
        let Omissions { allocated_before, silent_frees, freed_in_parts, failed_requests, impossible, of_others } =
            script.omissions;
        let others = if of_others > 0 { format!(", {of_others} steps of other tasks") } else { String::new() };
        Some(format!(
            "Recorded steps of {}: {}. Frees of blocks that are allocated in the prelude: {allocated_before}. Frees \
             without event: {silent_frees}. Blocks freed in parts, here freed whole: {freed_in_parts}. Left out: \
             {failed_requests} failed requests, {impossible} impossible requests{others}, and the events of drains, \
             reclaim and compaction.",
            self.file.display(),
            script.steps.len(),
        ))
    }

    /// Runs the workload on a CPU.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        cpu.play().expect("a recording is staged before it runs").run(cpu);
    }
}

/// Opens the file or, if it does not exist, the bundled recording of this name.
fn open(file: &Path) -> Result<Reader, PlaybackError> {
    // If there is neither, the reader reports the missing file.
    let Some(bundled) = Bundled::find(file).filter(|_| !file.is_file()) else {
        return Ok(Reader::open(file)?.admitted()?);
    };
    let unpacked = bundled.open().map_err(|source| PlaybackError::Unpack { name: bundled.name, source })?;
    Ok(Reader::from_file(unpacked, file)?.admitted()?)
}

impl Play {
    /// Plays this CPU's part, and frees the blocks that remain.
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

    /// Frees the blocks that this CPU allocated and that no step has freed.
    fn clear_up<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let allocated = self.part(cpu.number()).iter().filter(|line| line.action == Action::Alloc);
        let mut left: Vec<Block> = allocated.filter_map(|line| self.leave(line.block)).collect();
        cpu.free_all(&mut left);
    }
}
