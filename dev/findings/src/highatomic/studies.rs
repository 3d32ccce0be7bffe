//! What is simulated for the document: two fleets under every policy and switch; fleets by the age of memory and by who
//! waits for huge pages, the region in which the reserve may matter; one that runs out of memory; one with as much
//! memory as the published hosts; and small fleets that differ from the first in one respect each.
//!
//! Hosts are those of the plan `webhost`, most of them with less memory, so that a person can wait for the document. A
//! respect in which hosts are made equal is not drawn; all others are, and a host of the same number draws the same
//! everywhere.

use std::fmt;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::fleet::Fleet;
use freehold_sim::fleet::report::FleetReport;
use freehold_sim::fleet::state::{Place, State};
use freehold_sim::plan::{Changes, Plan};

/// The plan behind the document.
pub(crate) const PLAN: &str = "webhost";
/// What the proposal does.
pub(crate) const SKIP: &str = "highatomic=skip-costly";
/// What kernels did after it.
pub(crate) const REUSE: &str = "highatomic=reuse-first";
/// What nobody proposed.
pub(crate) const BACK: &str = "highatomic=give-back";
/// Single ways in which the reserve acts on others, each switched to the other side, and all together.
pub(crate) const SWITCHES: [&str; 6] = [
    "reserve.watermark=counted",
    "reserve.index=apart",
    "reserve.list=open",
    "reserve.leaving=unmovable",
    "compaction.deferral=none",
    "reserve.watermark=counted,reserve.index=apart,reserve.list=open,reserve.leaving=unmovable,compaction.deferral=none",
];
/// The policies that are set against Linux.
pub(crate) const RIVALS: [&str; 3] = [SKIP, REUSE, BACK];
/// What all hosts have in common, unless a fleet says otherwise: whoever touches memory wants huge pages and nobody
/// waits for one, atomic requests come as often as the plan's fleets draw them at most, and what is counted begins
/// after ten minutes.
const COMMON: [&str; 6] = [
    "workload.memory.thp.enabled=always",
    "workload.memory.thp.defrag=madvise",
    "workload.memory.thp.madvised_percent=0",
    "workload.network.per_10000_pages=100",
    "workload.filesystem.per_10000_pages=100",
    "warmup_ms=600000",
];
/// Hosts and memory of the fleet whose reserve is taken apart.
const MAIN: Size = Size { hosts: 12, memory: "2GiB" };
/// Those of each small one.
const SMALL: Size = Size { hosts: 6, memory: "2GiB" };
/// Those of each fleet of the region.
const REGION: Size = Size { hosts: 10, memory: "2GiB" };
/// Those of the fleet with as much memory as the published hosts have.
const LARGE: Size = Size { hosts: 6, memory: "64GiB" };
/// Those of the fleet that runs out of memory.
const EXHAUSTED: Size = Size { hosts: 12, memory: "1GiB" };

/// Ages with which hosts of the region begin.
pub(crate) const AGES: [u8; 4] = [0, 30, 60, 90];
/// Tasks of the region that may wait for a huge page, in percent of their memory.
pub(crate) const WAITING: [u8; 3] = [0, 10, 100];

/// Where the reserve is taken apart once more: hosts as old as the median of servers, on which everybody waits.
const ALL_WAIT: Cell = Cell { age: 60, waiting: 100 };

/// Hosts on which requests of order 1 to 3 fail: many of these requests, memory as old as the median of servers, and
/// no huge pages, for which Linux would keep five times as much free.
const SHORT: [&str; 6] = [
    "machine.age=60",
    "workload.memory.thp.enabled=never",
    "workload.network.per_10000_pages=500",
    "workload.network.order1_percent=1",
    "workload.network.order3_percent=97",
    "warmup_ms=75000",
];

/// How large a fleet is.
#[derive(Clone, Copy, Debug)]
struct Size {
    hosts: u32,
    memory: &'static str,
}

/// A small fleet: in which respect it differs, how, and what that sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// The respect.
    pub(crate) respect: &'static str,
    /// How it differs.
    pub(crate) value: &'static str,
    /// Keys of the plan.
    set: &'static [&'static str],
    size: Size,
}

const fn point(respect: &'static str, value: &'static str, set: &'static [&'static str]) -> Point {
    Point { respect, value, set, size: SMALL }
}

/// Every small fleet, by respect.
pub(crate) const POINTS: [Point; 12] = [
    point("as the others", "-", &[]),
    point("atomic rate", "low", &["workload.network.per_10000_pages=5", "workload.filesystem.per_10000_pages=5"]),
    point(
        "order mix",
        "nearly all of the network's of order 3",
        &["workload.network.order1_percent=1", "workload.network.order3_percent=97"],
    ),
    point("THP demand", "72 % of tasks' memory", &["workload.memory.thp.enabled=madvise", MADVISED]),
    point("THP faults", "kswapd is woken for them", &["workload.memory.thp.defrag=defer"]),
    point("THP faults", "everybody waits", &["workload.memory.thp.defrag=always"]),
    point("kernel objects", "none that shrinkers take", &["workload.kernel.reclaimable_per_10000_pages=0"]),
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
/// The plan's own share.
const MADVISED: &str = "workload.memory.thp.madvised_percent=72";

/// Where a fleet of the region stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// How old memory is at the beginning.
    pub(crate) age: u8,
    /// Tasks that may wait for a huge page, in percent of their memory.
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

/// All reports.
#[derive(Debug)]
pub(crate) struct Reports {
    /// The command that writes the document.
    pub(crate) command: String,
    /// The fleet whose reserve is taken apart: Linux, the rivals, then the switches.
    pub(crate) main: FleetReport,
    /// The fleet on which everybody waits for huge pages and memory is old, taken apart likewise.
    pub(crate) waiting: FleetReport,
    /// Fleets by age and by who waits.
    pub(crate) region: Vec<(Cell, FleetReport)>,
    /// The fleet that runs out of memory.
    pub(crate) short: FleetReport,
    /// The fleet with as much memory as the published hosts have.
    pub(crate) large: FleetReport,
    /// The small fleets.
    pub(crate) points: Vec<(Point, FleetReport)>,
    /// What was kept for the case of an interruption.
    pub(crate) states: Vec<State>,
}

/// What the command line changes about all fleets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjustment<F> {
    /// Hosts of each fleet, instead of its own number.
    pub(crate) hosts: Option<u32>,
    /// What becomes of the plan.
    pub(crate) plan: F,
}

/// The simulation of one fleet after another.
struct FleetSimulation<'r, F> {
    costs: &'r Costs,
    adjusted: &'r Adjustment<F>,
    /// States of the fleets that have been simulated.
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
    /// Simulates everything that has not been simulated before, for the document that this command writes.
    ///
    /// # Errors
    /// The first that a plan or a run has.
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

    /// Forgets what was kept for the case of an interruption.
    pub(crate) fn conclude(self) {
        self.states.into_iter().for_each(State::conclude);
    }
}

/// Every place of the region.
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
    fn every_fleet_can_be_read() {
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
