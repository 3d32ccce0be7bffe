//! The study of a plan: the replays or simulations of a sweep.

use std::num::NonZeroU16;

use freehold_policies::NamedPolicy;
use freehold_replay::Setting;
use freehold_sim::plan::Plan as Simulated;

/// Label in plans and datasets for recorded conditions: the kernel's rules, its settings, or its CPUs.
pub(crate) const RECORDED: &str = "recorded";

/// Work of a sweep.
#[derive(Debug)]
pub(crate) enum Study {
    /// Replays of recordings.
    Replays(Replays),
    /// Simulations of runs or hosts.
    Simulations(Simulations),
}

/// Replays of every recording under every policy, at every point of the axes.
#[derive(Debug)]
pub(crate) struct Replays {
    /// Policy A; `None` for the recorded kernel's rules.
    pub a: Option<NamedPolicy>,
    /// Policies B. If there are none, A under other settings is compared with A as recorded.
    pub b: Vec<NamedPolicy>,
    /// Settings of each point; empty for the recorded settings.
    pub settings: Vec<Vec<Setting>>,
    /// CPUs of each point; `None` for the recorded CPUs.
    pub cpus: Vec<Option<NonZeroU16>>,
    /// `true` to replay each combination only once, without varied watermarks.
    pub exact: bool,
}

/// Simulations of every seed, or of every host, under every policy, at every point of the axes.
#[derive(Debug)]
pub(crate) struct Simulations {
    pub kind: Simulation,
    /// Plan of the simulation at each point.
    pub points: Vec<SimulatedPoint>,
    /// Number of seeds; the seeds are 1 to this number.
    pub seeds: u32,
}

/// Kind of simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simulation {
    /// Runs, as by `freehold sim`.
    Runs,
    /// This number of hosts, as by `freehold fleet`.
    Hosts(u32),
}

/// A point of the axes.
#[derive(Debug)]
pub(crate) struct SimulatedPoint {
    /// Number of CPUs.
    pub cpus: u16,
    /// Keys of the plan with their values at this point.
    pub values: Vec<(String, String)>,
    /// Plan of the simulation with these values.
    pub plan: Simulated,
}

impl Replays {
    /// Returns the label of A in the dataset.
    pub(crate) fn a_label(&self) -> &str {
        self.a.as_ref().map_or(RECORDED, |policy| &policy.name)
    }
}

/// Returns the label of settings in the dataset.
pub(crate) fn setting_label(settings: &[Setting]) -> String {
    match settings {
        [] => RECORDED.to_owned(),
        several => several.iter().map(Setting::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the label of a number of CPUs in the dataset.
pub(crate) fn cpus_label(cpus: Option<NonZeroU16>) -> String {
    cpus.map_or_else(|| RECORDED.to_owned(), |cpus| cpus.to_string())
}
