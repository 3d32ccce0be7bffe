//! One host of a fleet: what it drew, and what it brought under a policy.
//!
//! A host draws from a seed of its own, which its number and the fleet's seed give, and each key by itself: another
//! host, or another drawn key, changes nothing about the rest. It is the same host under every policy.

use fastrand::Rng;
use freehold::Policy;
use freehold_report::progress::Progress;
use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::meter::Meter;
use crate::outcome::vmstat::Vmstat;
use crate::plan::draws::DrawnValue;
use crate::plan::error::OpenError;
use crate::plan::{Plan, Point};
use crate::run::{self, RunError, Setup};
use crate::window::Window;

/// A host, ready to be run.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its number, from 1.
    pub number: u32,
    /// What chance decides on it.
    pub seed: u64,
    /// Number of CPUs.
    pub cpus: u16,
    /// What it drew.
    pub drawn: Vec<DrawnValue>,
    /// What happens on it, and for how long.
    pub point: Point,
}

/// What a host brought under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostResult {
    /// How long it was measured, in virtual milliseconds.
    pub duration_ms: u64,
    /// How much memory it has, in pages.
    pub memory_pages: u64,
    /// Whole free pageblocks at the end.
    pub free_pageblocks: u64,
    /// Pages in the reserve for atomic requests at each look: as the measured time began, and at the end of each of its
    /// parts, which are of the same length.
    pub reserved_pages: Vec<u64>,
    /// What was counted within the measured time, and what was there at its end.
    pub vmstat: Vmstat,
}

impl Host {
    /// The host of this number in the fleet with this seed. `plan` runs on one number of CPUs.
    ///
    /// # Errors
    /// When the plan makes no sense with what the host drew.
    pub fn draw(plan: &Plan, fleet_seed: u64, number: u32) -> Result<Host, OpenError> {
        let base = Fingerprint::default().with(fleet_seed.to_le_bytes()).with(number.to_le_bytes());
        let mut drawn = Vec::with_capacity(plan.draws.len());
        for draw in &plan.draws {
            let mut rng = Rng::with_seed(base.with(&draw.key).get());
            drawn.push(DrawnValue { key: draw.key.clone(), value: rng.u64(draw.least..=draw.most) });
        }
        let point = plan.on_host(&drawn)?;
        let cpus = plan.cpus[0];
        Ok(Host { number, seed: base.get(), cpus, drawn, point })
    }

    /// Its memory and nodes.
    pub fn machine(&self) -> Machine {
        self.point.machine.machine(self.cpus).expect("the plan was checked")
    }

    /// When it is measured.
    pub fn window(&self) -> Window {
        Window::after_ms(self.point.warmup_ms, self.point.duration_ms)
    }

    /// Simulates the host under a policy, and tells how far it is.
    ///
    /// # Errors
    /// When the run breaks down.
    pub fn run(&self, policy: Policy, costs: &Costs, progress: &Progress) -> Result<HostResult, RunError> {
        self.run_metered(policy, costs, &Meter::new(progress, self.cpus, self.window()))
    }

    /// The same, of which nobody hears how far it is.
    ///
    /// # Errors
    /// When the run breaks down.
    pub fn run_without_progress(&self, policy: Policy, costs: &Costs) -> Result<HostResult, RunError> {
        self.run_metered(policy, costs, &Meter::without_progress(self.cpus, self.window()))
    }

    fn run_metered(&self, policy: Policy, costs: &Costs, meter: &Meter<'_>) -> Result<HostResult, RunError> {
        let (point, machine, window) = (&self.point, self.machine(), self.window());
        let (workload, cpus, seed) = (&point.workload, self.cpus, self.seed);
        let start = point.machine.start(cpus, seed)?;
        let setup = Setup { workload, machine: &machine, start: start.as_ref(), cpus, policy, seed, costs, window };
        let outcome = run::simulate_metered(&setup, meter)?;
        let reserved = outcome.looks.iter().filter_map(|look| look.get("nr_reserved_highatomic"));
        Ok(HostResult {
            duration_ms: point.duration_ms,
            memory_pages: machine.pages.into(),
            free_pageblocks: outcome.end.free_pageblocks,
            reserved_pages: reserved.collect(),
            vmstat: outcome.vmstat,
        })
    }
}

impl HostResult {
    /// A counter; 0 if the model does not have it.
    pub fn count(&self, name: &str) -> u64 {
        self.vmstat.get(name).unwrap_or(0)
    }

    /// Measured virtual time in minutes.
    pub fn minutes(&self) -> f64 {
        self.duration_ms as f64 / 60_000.0
    }
}
