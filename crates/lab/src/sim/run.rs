//! One run: a workload on a machine with so many CPUs, under one policy, with one seed.

use freehold::Policy;
use freehold::machine::MachineError;

use super::costs::Costs;
use super::machine::Machine;
use super::measure::outcome::Outcome;
use super::workload::Workload;
use super::world::Window;

/// Everything that decides what a run brings.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'s> {
    /// What CPUs do.
    pub workload: &'s Workload,
    /// What they do it on.
    pub machine: &'s Machine,
    /// How many there are, 1 to [`CPUS_MAX`](super::CPUS_MAX).
    pub cpus: u16,
    /// What the allocator decides.
    pub policy: Policy,
    /// What chance decides.
    pub seed: u64,
    /// What steps cost.
    pub costs: &'s Costs,
    /// When the run is measured.
    pub window: Window,
}

/// Why a run brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is no such machine.
    #[error("{0}; correct the plan's `machine`")]
    Machine(#[from] MachineError),
}

/// Simulates a run. The same setup gives the same outcome on every machine.
///
/// # Errors
/// See [`RunError`].
pub fn simulate(setup: &Setup<'_>) -> Result<Outcome, RunError> {
    let _ = setup;
    todo!("the scheduler is on its way")
}
