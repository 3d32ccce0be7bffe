//! Workloads: the memory operations of CPUs, as straight-line code that runs once on every CPU.
//!
//! A workload is a struct of parameters, read from a plan, with a function `run` that takes a [`Cpu`]. It checks
//! [`Cpu::is_over`] at the top of its loop; when the run is over, it frees its blocks and returns. All its random
//! numbers come from [`Cpu::rng`], so the same seed gives the same run.

pub mod build;
pub mod exit;
pub mod pingpong;
pub mod purge;
pub mod recording;
pub mod steady;
#[cfg(test)]
mod tests;
pub mod webhost;

use freehold::page::MinFree;
use serde::{Deserialize, Serialize};

use super::cpu::Cpu;
use super::executor::Executor;
use super::memory::{Advice, Parameters};
use super::playback::{Play, PlaybackError};
use super::window::Window;

/// A workload with its parameters; `kind` is its name in plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// See [`steady`].
    Steady(steady::Steady),
    /// See [`purge`].
    Purge(purge::Purge),
    /// See [`pingpong`].
    Pingpong(pingpong::Pingpong),
    /// See [`exit`].
    Exit(exit::Exit),
    /// See [`build`].
    Build(build::Build),
    /// See [`webhost`].
    Webhost(Box<webhost::Webhost>),
    /// See [`recording`].
    Recording(recording::Recording),
}

/// Pace of a workload: the factor that determines the amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkPace {
    /// One operation follows the other as fast as possible, so a CPU that waits less does more. Recordings also count
    /// as free, although their steps are due at recorded times.
    Free,
    /// A clock determines the demand, which is equal under every policy.
    Set,
}

impl Workload {
    /// Runs the workload on a CPU.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        match self {
            Workload::Steady(steady) => steady.run(cpu),
            Workload::Purge(purge) => purge.run(cpu),
            Workload::Pingpong(pingpong) => pingpong.run(cpu),
            Workload::Exit(exit) => exit.run(cpu),
            Workload::Build(build) => build.run(cpu),
            Workload::Webhost(webhost) => webhost.run(cpu),
            Workload::Recording(recording) => recording.run(cpu),
        }
    }

    /// Returns a likely upper bound of the pages in use at a time on `cpus` CPUs. `list_high` is the limit of a per-CPU
    /// list right after boot, in pages. Returns 0 for a recording, and for `webhost` only the part that does not depend
    /// on the size of memory.
    pub fn pages_in_use(&self, cpus: u16, list_high: u32) -> u64 {
        match self {
            Workload::Steady(steady) => steady.pages_in_use(cpus),
            Workload::Purge(purge) => purge.pages_in_use(cpus, list_high),
            Workload::Pingpong(pingpong) => pingpong.pages_in_use(cpus),
            Workload::Exit(exit) => exit.pages_in_use(cpus),
            Workload::Build(build) => build.pages_in_use(cpus),
            Workload::Webhost(webhost) => webhost.pages_in_use(cpus),
            // Only the staged play can compute this.
            Workload::Recording(_) => 0,
        }
    }

    /// Returns the pace of the workload.
    pub fn pace(&self) -> WorkPace {
        match self {
            Workload::Webhost(_) => WorkPace::Set,
            _ => WorkPace::Free,
        }
    }

    /// Returns the virtual time in which the workload allocates as many pages as the machine has, in ms; 0 if it has no
    /// such time.
    pub fn filling_ms(&self) -> u64 {
        match self {
            Workload::Webhost(webhost) => u64::from(webhost.turnover_s) * 1000,
            _ => 0,
        }
    }

    /// Returns the rule for the number of pages that the machine keeps free. For `webhost` with huge pages enabled, the
    /// rule is that of khugepaged. linux: mm/khugepaged.c:set_recommended_min_free_kbytes
    pub fn min_free(&self) -> MinFree {
        match self {
            Workload::Webhost(webhost) if webhost.memory.thp.enabled != Advice::Never => MinFree::ForHugePages,
            _ => MinFree::BySize,
        }
    }

    /// Returns the parameters of the memory above the allocator.
    pub fn memory(&self) -> Parameters {
        match self {
            Workload::Webhost(webhost) => webhost.memory.clone(),
            _ => Parameters::default(),
        }
    }

    /// Prepares the state that CPUs share in a run besides the machine: the copies of a recording. Returns `None` for
    /// all other workloads.
    ///
    /// # Errors
    /// Returns an error if the recording cannot be read, has none of the named tasks, or is shorter than the part that
    /// the run plays.
    pub fn stage(&self, cpus: u16, window: Window, seed: u64) -> Result<Option<Play>, PlaybackError> {
        match self {
            Workload::Recording(recording) => recording.stage(cpus, window, seed).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns a sentence on the events that this workload leaves out; `None` if it is not a recording, or before the
    /// recording has been read.
    pub fn left_out(&self) -> Option<String> {
        match self {
            Workload::Recording(recording) => recording.left_out(),
            _ => None,
        }
    }
}
