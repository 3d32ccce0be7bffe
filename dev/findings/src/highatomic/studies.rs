//! Simulations for the document about the high-atomic reserve.
//!
//! There are two fleets under every policy and switch, and fleets by age of memory and share of waiting tasks, which
//! show the region in which the reserve may matter. One fleet runs out of memory, and one has as much memory as the
//! published hosts. Small fleets differ from the first fleet in one parameter each.
//!
//! Hosts are those of the plan `webhost`. Most have less memory than in the plan, so that the simulation ends in a
//! reasonable time. A parameter that is set is not drawn. All other parameters are drawn, and a host with the same
//! number draws the same values in every fleet.

use std::fmt;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::fleet::Fleet;
use freehold_sim::fleet::report::FleetReport;
use freehold_sim::fleet::state::{Place, State};
use freehold_sim::plan::{Changes, Plan};

/// Plan of all simulations.
pub(crate) const PLAN: &str = "webhost";
/// Policy of the proposal.
pub(crate) const SKIP: &str = "highatomic=skip-costly";
/// Policy of later kernels.
pub(crate) const REUSE: &str = "highatomic=reuse-first";
/// Policy of this project, which has not been proposed for Linux.
pub(crate) const BACK: &str = "highatomic=give-back";
/// Mechanisms by which the reserve affects other requests, each switched to its alternative, and all of them together.
pub(crate) const SWITCHES: [&str; 6] = [
    "reserve.watermark=counted",
    "reserve.index=apart",
    "reserve.list=open",
    "reserve.leaving=unmovable",
    "compaction.deferral=none",
    "reserve.watermark=counted,reserve.index=apart,reserve.list=open,reserve.leaving=unmovable,compaction.deferral=none",
];
/// Policies that are compared with Linux.
pub(crate) const RIVALS: [&str; 3] = [SKIP, REUSE, BACK];
/// Settings of all hosts unless a fleet overrides them. All memory of tasks prefers huge pages, and no task waits for
/// one. Atomic requests arrive at the maximum rate of the plan's fleets. Counting starts after ten minutes.
const COMMON: [&str; 6] = [
    "workload.memory.thp.enabled=always",
    "workload.memory.thp.defrag=madvise",
    "workload.memory.thp.madvised_percent=0",
    "workload.network.per_10000_pages=100",
    "workload.filesystem.per_10000_pages=100",
    "warmup_ms=600000",
];
/// Size of the fleets in which these mechanisms are examined separately.
const MAIN: Size = Size { hosts: 12, memory: "2GiB" };
/// Size of each small fleet.
const SMALL: Size = Size { hosts: 6, memory: "2GiB" };
/// Size of each fleet of the region.
const REGION: Size = Size { hosts: 10, memory: "2GiB" };
/// Size of the fleet with as much memory as the published hosts.
const LARGE: Size = Size { hosts: 6, memory: "64GiB" };
/// Size of the fleet that runs out of memory.
const EXHAUSTED: Size = Size { hosts: 12, memory: "1GiB" };

/// Ages of memory at the start, for fleets of the region.
pub(crate) const AGES: [u8; 4] = [0, 30, 60, 90];
/// Memory of tasks that may wait for huge pages, in percent, for fleets of the region.
pub(crate) const WAITING: [u8; 3] = [0, 10, 100];

/// Cell of the second fleet under every policy and switch: memory as old as the median of servers, and all tasks wait
/// for huge pages.
const ALL_WAIT: Cell = Cell { age: 60, waiting: 100 };

/// Settings of hosts on which requests of order 1 to 3 fail. There are many of these requests, and memory is as old as
/// the median of servers. Huge pages are off, because Linux would keep five times as much memory free for them.
const SHORT: [&str; 6] = [
    "machine.age=60",
    "workload.memory.thp.enabled=never",
    "workload.network.per_10000_pages=500",
    "workload.network.order1_percent=1",
    "workload.network.order3_percent=97",
    "warmup_ms=75000",
];

/// Size of a fleet.
#[derive(Clone, Copy, Debug)]
struct Size {
    hosts: u32,
    memory: &'static str,
}

/// Small fleet: the parameter in which it differs from the first fleet, its value, and the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Parameter that differs.
    pub(crate) parameter: &'static str,
    /// Value of the parameter, for the table.
    pub(crate) value: &'static str,
    /// Settings of the plan.
    set: &'static [&'static str],
    size: Size,
}

const fn point(parameter: &'static str, value: &'static str, set: &'static [&'static str]) -> Point {
    Point { parameter, value, set, size: SMALL }
}

/// All small fleets, grouped by parameter.
pub(crate) const POINTS: [Point; 12] = [
    point("like the main fleet", "-", &[]),
    point("atomic rate", "low", &["workload.network.per_10000_pages=5", "workload.filesystem.per_10000_pages=5"]),
    point(
        "order mix",
        "nearly all network requests of order 3",
        &["workload.network.order1_percent=1", "workload.network.order3_percent=97"],
    ),
    point("THP demand", "72 % of tasks' memory", &["workload.memory.thp.enabled=madvise", MADVISED]),
    point("THP faults", "faults wake kswapd", &["workload.memory.thp.defrag=defer"]),
    point("THP faults", "all tasks wait", &["workload.memory.thp.defrag=always"]),
    point("kernel objects", "none reclaimable", &["workload.kernel.reclaimable_per_10000_pages=0"]),
    point("pressure", "turned over half as fast", &["workload.turnover_s=150"]),
    point("pressure", "turned over twice as fast", &["workload.turnover_s=37"]),
    point("pressure", "tasks hold 60 % of memory", &["workload.anon_percent=60"]),
    point(
        "pinned pages",
        "2 % of pages, for a minute",
        &["workload.memory.pinned_permille=20", "workload.memory.pin_ms=60000"],
    ),
    Point { size: Size { memory: "8GiB", ..SMALL }, ..point("memory", "8 GiB", &[]) },
];
/// Share of the plan itself.
const MADVISED: &str = "workload.memory.thp.madvised_percent=72";

/// Position of a fleet in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Age of memory at the start.
    pub(crate) age: u8,
    /// Memory of tasks that may wait for huge pages, in percent.
    pub(crate) waiting: u8,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "age {}, {} % wait", self.age, self.waiting)
    }
}

impl Cell {
    fn set(self) -> [String; 2] {
        let Cell { age, waiting } = self;
        [format!("machine.age={age}"), format!("workload.memory.thp.madvised_percent={waiting}")]
    }
}

/// Reports of all fleets.
#[derive(Debug)]
pub(crate) struct Reports {
    /// Command that writes the document.
    pub(crate) command: String,
    /// Fleet in which the mechanisms of the reserve are examined separately, under Linux, the rivals and the switches.
    pub(crate) main: FleetReport,
    /// Fleet in which all tasks wait for huge pages and memory is old, under the same policies.
    pub(crate) waiting: FleetReport,
    /// Fleets by age of memory and share of waiting tasks.
    pub(crate) region: Vec<(Cell, FleetReport)>,
    /// Fleet that runs out of memory.
    pub(crate) short: FleetReport,
    /// Fleet with as much memory as the published hosts.
    pub(crate) large: FleetReport,
    /// Small fleets.
    pub(crate) points: Vec<(Point, FleetReport)>,
    /// Results that were saved in case of an interruption.
    pub(crate) states: Vec<State>,
}

/// Changes of all fleets by the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjustment<F> {
    /// Hosts of each fleet, if other than in its size.
    pub(crate) hosts: Option<u32>,
    /// Function that adjusts each plan.
    pub(crate) plan: F,
}

/// Simulation of one fleet after another.
struct FleetSimulation<'r, F> {
    costs: &'r Costs,
    adjusted: &'r Adjustment<F>,
    /// Saved states of the fleets that have been simulated.
    states: Vec<State>,
}

impl<F: Fn(Plan) -> Plan> FleetSimulation<'_, F> {
    /// Simulates a fleet of this size, with these settings and rivals, and keeps its state.
    fn run(&mut self, size: Size, set: &[String], rivals: &[&str]) -> Result<FleetReport, Error> {
        let plan = (self.adjusted.plan)(Plan::open(PLAN, &changes(size, set, rivals))?);
        let fleet = Fleet::new(plan, self.costs.clone(), self.adjusted.hosts.unwrap_or(size.hosts), 1)?;
        let (report, state) = fleet.simulate(&Place::Default)?;
        self.states.push(state);
        Ok(report)
    }
}

impl Reports {
    /// Simulates all fleets that have no saved results, for the document that `command` writes.
    ///
    /// # Errors
    /// Returns the first error of a plan or a run.
    pub(crate) fn simulate<F: Fn(Plan) -> Plan>(
        costs: &Costs,
        command: String,
        adjusted: &Adjustment<F>,
    ) -> Result<Reports, Error> {
        let capacity = POINTS.len() + AGES.len() * WAITING.len() + 4;
        let mut simulation = FleetSimulation { costs, adjusted, states: Vec::with_capacity(capacity) };
        let all: Vec<&str> = RIVALS.iter().chain(&SWITCHES).copied().collect();
        let main = simulation.run(MAIN, &[], &all)?;
        let waiting = simulation.run(MAIN, &ALL_WAIT.set(), &all)?;
        let mut region = Vec::with_capacity(AGES.len() * WAITING.len());
        for cell in cells() {
            region.push((cell, simulation.run(REGION, &cell.set(), &RIVALS)?));
        }
        let short = simulation.run(EXHAUSTED, &owned(&SHORT), &RIVALS)?;
        let mut points = Vec::with_capacity(POINTS.len());
        for point in POINTS {
            points.push((point, simulation.run(point.size, &owned(point.set), &RIVALS)?));
        }
        let large = simulation.run(LARGE, &[], &[SKIP, BACK])?;
        Ok(Reports { command, main, waiting, region, short, large, points, states: simulation.states })
    }

    /// Removes the results that were saved in case of an interruption.
    pub(crate) fn conclude(self) {
        self.states.into_iter().for_each(State::conclude);
    }
}

/// Returns all cells of the region.
pub(crate) fn cells() -> impl Iterator<Item = Cell> {
    AGES.into_iter().flat_map(|age| WAITING.into_iter().map(move |waiting| Cell { age, waiting }))
}

fn owned(set: &[&str]) -> Vec<String> {
    set.iter().map(|&change| change.to_owned()).collect()
}

fn changes(size: Size, set: &[String], rivals: &[&str]) -> Changes {
    let common = COMMON
        .iter()
        .filter(|common| set.iter().all(|change| parse_key(change) != parse_key(common)))
        .map(|&change| change.to_owned());
    Changes {
        set: [format!("machine.memory={}", size.memory)].into_iter().chain(common).chain(set.iter().cloned()).collect(),
        a: Some(freehold_policies::BASELINE.to_owned()),
        b: rivals.iter().map(|change| format!("{},{change}", freehold_policies::BASELINE)).collect(),
        ..Changes::default()
    }
}

/// Returns the key of a change `KEY=VALUE`.
fn parse_key(change: &str) -> &str {
    change.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_of_all_fleets_are_valid() {
        let points = POINTS.iter().map(|point| (point.size, owned(point.set)));
        let region = cells().map(|cell| (REGION, cell.set().to_vec()));
        for (size, set) in points.chain(region).chain([(EXHAUSTED, owned(&SHORT)), (LARGE, Vec::new())]) {
            let plan = Plan::open(PLAN, &changes(size, &set, &SWITCHES));
            let plan = plan.unwrap_or_else(|error| panic!("{set:?}: {error}"));
            assert_eq!(plan.policies.len(), 1 + SWITCHES.len());
            assert!(Fleet::new(plan, Costs::reference(), 1, 1).is_ok(), "{set:?}");
        }
    }
}
