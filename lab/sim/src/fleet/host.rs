//! One host of a fleet: the parameters it drew, and its results under a policy.
//!
//! A host has its own seed, derived from its number and the fleet's seed, and draws each key independently. So another
//! host, or another drawn key, does not change the rest. The host is the same under every policy.

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
    /// Number of the host, from 1.
    pub number: u32,
    /// Seed of all random numbers of the host.
    pub seed: u64,
    /// Number of CPUs.
    pub cpus: u16,
    /// Values that the host drew.
    pub drawn: Vec<DrawnValue>,
    /// Workload, machine and duration of the host.
    pub point: Point,
}

/// Result of a host under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostResult {
    /// Length of the measured time, in virtual milliseconds.
    pub duration_ms: u64,
    /// Memory of the host, in pages.
    pub memory_pages: u64,
    /// Whole free pageblocks at the end.
    pub free_pageblocks: u64,
    /// Pages in the reserve for atomic requests in each sample: at the begin of the measured time, and at the end of
    /// each of its equal parts.
    pub reserved_pages: Vec<u64>,
    /// Counters over the measured time, and gauges at its end.
    pub vmstat: Vmstat,
}

impl Host {
    /// Draws the host with this number in the fleet with this seed. `plan` has exactly one number of CPUs.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid with the values that the host drew.
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

    /// Returns the memory and nodes of the host.
    pub fn machine(&self) -> Machine {
        self.point.machine.machine(self.cpus).expect("the machine of a checked plan is valid")
    }

    /// Returns the measured part of the run.
    pub fn window(&self) -> Window {
        Window::after_ms(self.point.warmup_ms, self.point.duration_ms)
    }

    /// Simulates the host under a policy, and reports its progress.
    ///
    /// # Errors
    /// Returns an error if the run fails.
    pub fn run(&self, policy: Policy, costs: &Costs, progress: &Progress) -> Result<HostResult, RunError> {
        self.run_metered(policy, costs, &Meter::new(progress, self.cpus, self.window()))
    }

    /// Simulates the host under a policy, without progress reports.
    ///
    /// # Errors
    /// Returns an error if the run fails.
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
    /// Returns a counter; 0 if the model does not have it.
    pub fn count(&self, name: &str) -> u64 {
        self.vmstat.get(name).unwrap_or(0)
    }

    /// Returns the measured virtual time in minutes.
    pub fn minutes(&self) -> f64 {
        self.duration_ms as f64 / 60_000.0
    }
}
