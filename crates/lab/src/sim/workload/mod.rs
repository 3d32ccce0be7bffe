//! Workloads: what CPUs do with memory, as straight-line code that runs once on every CPU.
//!
//! A workload is a struct of parameters, read from a plan, with a function `run` that takes a [`Cpu`]. It asks
//! [`Cpu::is_over`] at the top of its loop, then winds down: it frees what it has. What it draws by chance comes from
//! [`Cpu::rng`] alone, so the same seed gives the same run.

pub mod draw;
pub mod pingpong;
pub mod purge;
pub mod steady;

use serde::{Deserialize, Serialize};

use super::cpu::Cpu;
use super::executor::Executor;

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
}

impl Workload {
    /// What every CPU does.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, X>) {
        match self {
            Workload::Steady(steady) => steady.run(cpu),
            Workload::Purge(purge) => purge.run(cpu),
            Workload::Pingpong(pingpong) => pingpong.run(cpu),
        }
    }

    /// Pages in use at a time on so many CPUs, at most but for bad luck. `list_high` is the limit of a per-CPU list as
    /// the machine comes up, in pages.
    pub fn pages_in_use(&self, cpus: u16, list_high: u32) -> u64 {
        match self {
            Workload::Steady(steady) => steady.pages_in_use(cpus),
            Workload::Purge(purge) => purge.pages_in_use(cpus, list_high),
            Workload::Pingpong(pingpong) => pingpong.pages_in_use(cpus),
        }
    }
}
