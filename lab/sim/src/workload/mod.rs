//! Workloads: what CPUs do with memory, as straight-line code that runs once on every CPU.
//!
//! A workload is a struct of parameters, read from a plan, with a function `run` that takes a [`Cpu`]. It asks
//! [`Cpu::is_over`] at the top of its loop, then winds down: it frees what it has. What it draws by chance comes from
//! [`Cpu::rng`] alone, so the same seed gives the same run.

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

/// A workload with its parameters; `kind` names it in plans.
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

/// What decides how much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkPace {
    /// One operation follows the other as fast as they can: who waits less does more.
    Free,
    /// A clock: as much is asked for under every policy.
    Set,
}

impl Workload {
    /// What every CPU does.
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

    /// Pages in use at a time on so many CPUs, at most but for bad luck. `list_high` is the limit of a per-CPU list as
    /// the machine comes up, in pages.
    pub fn pages_in_use(&self, cpus: u16, list_high: u32) -> u64 {
        match self {
            Workload::Steady(steady) => steady.pages_in_use(cpus),
            Workload::Purge(purge) => purge.pages_in_use(cpus, list_high),
            Workload::Pingpong(pingpong) => pingpong.pages_in_use(cpus),
            Workload::Exit(exit) => exit.pages_in_use(cpus),
            Workload::Build(build) => build.pages_in_use(cpus),
            Workload::Webhost(webhost) => webhost.pages_in_use(cpus),
            // Only the staged play can tell.
            Workload::Recording(_) => 0,
        }
    }

    /// What decides how much it does.
    pub fn pace(&self) -> WorkPace {
        match self {
            Workload::Webhost(_) => WorkPace::Set,
            _ => WorkPace::Free,
        }
    }

    /// Virtual time in which it asks for as many pages as the machine has, in ms; 0 where nothing says so.
    pub fn filling_ms(&self) -> u64 {
        match self {
            Workload::Webhost(webhost) => u64::from(webhost.turnover_s) * 1000,
            _ => 0,
        }
    }

    /// How many pages the machine keeps free. Where huge pages are wanted, khugepaged sees to it that it can.
    /// linux: mm/khugepaged.c:set_recommended_min_free_kbytes
    pub fn min_free(&self) -> MinFree {
        match self {
            Workload::Webhost(webhost) if webhost.memory.thp.enabled != Advice::Never => MinFree::ForHugePages,
            _ => MinFree::BySize,
        }
    }

    /// What the machine's memory is like above the allocator.
    pub fn memory(&self) -> Parameters {
        match self {
            Workload::Webhost(webhost) => webhost.memory.clone(),
            _ => Parameters::default(),
        }
    }

    /// What CPUs share in a run besides the machine: the copies of a recording.
    ///
    /// # Errors
    /// If there is no such recording, or the run is longer.
    pub fn stage(&self, cpus: u16, window: Window, seed: u64) -> Result<Option<Play>, PlaybackError> {
        match self {
            Workload::Recording(recording) => recording.stage(cpus, window, seed).map(Some),
            _ => Ok(None),
        }
    }

    /// What is left out of a run beside what the simulation leaves out of all, in a sentence, once that is known.
    pub fn left_out(&self) -> Option<String> {
        match self {
            Workload::Recording(recording) => recording.left_out(),
            _ => None,
        }
    }
}
