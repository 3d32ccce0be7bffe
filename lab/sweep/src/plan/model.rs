//! Studies as data: what a sweep replays or simulates.

use std::num::NonZeroU16;

use freehold_policies::NamedPolicy;
use freehold_replay::Setting;
use freehold_sim::plan::Plan as Simulated;

/// What stands in a plan and in a dataset for what was recorded: the kernel's rules, its settings, its CPUs.
pub(crate) const RECORDED: &str = "recorded";

/// What is done.
#[derive(Debug)]
pub(crate) enum Study {
    /// Recordings are replayed.
    Replays(Replays),
    /// Runs or hosts are simulated.
    Simulations(Simulations),
}

/// Every recording under every policy, at every point of the axes.
#[derive(Debug)]
pub(crate) struct Replays {
    /// Policy A; none where it is the recorded kernel's rules.
    pub a: Option<NamedPolicy>,
    /// Policies B. Without any, A under other settings is held against A as recorded.
    pub b: Vec<NamedPolicy>,
    /// Settings of each point; none for those that were recorded.
    pub settings: Vec<Vec<Setting>>,
    /// CPUs of each point; none for those that were recorded.
    pub cpus: Vec<Option<NonZeroU16>>,
    /// Whether a replay is made once also where memory was short.
    pub exact: bool,
}

/// Every seed, or every host, under every policy, at every point of the axes.
#[derive(Debug)]
pub(crate) struct Simulations {
    pub kind: Simulation,
    /// The plan of the simulation at each point.
    pub points: Vec<SimulatedPoint>,
    /// Each of the seeds 1 to this one is run.
    pub seeds: u32,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simulation {
    /// Runs, as by `freehold sim`.
    Runs,
    /// So many hosts, as by `freehold fleet`.
    Hosts(u32),
}

/// A point of the axes.
#[derive(Debug)]
pub(crate) struct SimulatedPoint {
    /// Number of CPUs.
    pub cpus: u16,
    /// Keys of the plan, and the values that they have here.
    pub values: Vec<(String, String)>,
    /// The plan with these.
    pub plan: Simulated,
}

impl Replays {
    /// What A is called in the dataset.
    pub(crate) fn a_label(&self) -> &str {
        self.a.as_ref().map_or(RECORDED, |policy| &policy.name)
    }
}

/// What settings are called in the dataset.
pub(crate) fn setting_label(settings: &[Setting]) -> String {
    match settings {
        [] => RECORDED.to_owned(),
        several => several.iter().map(Setting::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// What a number of CPUs is called in the dataset.
pub(crate) fn cpus_label(cpus: Option<NonZeroU16>) -> String {
    cpus.map_or_else(|| RECORDED.to_owned(), |cpus| cpus.to_string())
}
