//! What is simulated for the document: one fleet under every policy and switch, and small fleets that differ from it in
//! one respect each.
//!
//! Hosts are those of the plan `webhost`, with less memory, so that a person can wait for the document; whether
//! size matters is one of the questions. A respect in which hosts are made equal is not drawn; all others are, and a
//! host of the same number draws the same everywhere.

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::fleet::Fleet;
use freehold_sim::fleet::report::FleetReport;
use freehold_sim::fleet::state::{Place, State};
use freehold_sim::plan::{Changes, Plan};

/// The plan behind the document.
pub const PLAN: &str = "webhost";
/// What the proposal does.
pub const SKIP: &str = "highatomic=skip-costly";
/// What kernels did after it.
pub const REUSE: &str = "highatomic=reuse-first";
/// What nobody proposed.
pub const BACK: &str = "highatomic=give-back";
/// Single ways in which the reserve acts on others, each switched to the other side, and all together.
pub const SWITCHES: [&str; 4] = [
    "reserve.watermark=counted",
    "reserve.index=apart",
    "reserve.list=open",
    "reserve.watermark=counted,reserve.index=apart,reserve.list=open",
];
/// The policies that are set against Linux.
pub const RIVALS: [&str; 3] = [SKIP, REUSE, BACK];
/// Those of them that are swept.
const SWEPT: [&str; 2] = [SKIP, REUSE];

/// Hosts and memory of the large fleet.
const MAIN: Size = Size { hosts: 20, memory: "4GiB" };
/// Those of each small one.
const SMALL: Size = Size { hosts: 6, memory: "2GiB" };

/// How large a fleet is.
#[derive(Clone, Copy, Debug)]
struct Size {
    hosts: u32,
    memory: &'static str,
}

/// A small fleet: in which respect it differs, how, and what that sets.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The respect.
    pub respect: &'static str,
    /// How it differs.
    pub value: &'static str,
    /// Keys of the plan.
    set: &'static [&'static str],
    size: Size,
}

const fn point(respect: &'static str, value: &'static str, set: &'static [&'static str]) -> Point {
    Point { respect, value, set, size: SMALL }
}

/// Every small fleet, by respect.
pub const POINTS: [Point; 20] = [
    point("as drawn", "-", &[]),
    point("atomic rate", "low", &["workload.network.per_10000_pages=5", "workload.filesystem.per_10000_pages=5"]),
    point("atomic rate", "high", &["workload.network.per_10000_pages=100", "workload.filesystem.per_10000_pages=100"]),
    point(
        "order mix",
        "half of the network's of order 1",
        &["workload.network.order1_percent=50", "workload.network.order3_percent=0"],
    ),
    point(
        "order mix",
        "nearly all of the network's of order 3",
        &["workload.network.order1_percent=1", "workload.network.order3_percent=97"],
    ),
    point("THP demand", "20 % of tasks' memory", &["workload.memory.thp.madvised_percent=20"]),
    point("THP demand", "all of tasks' memory", &["workload.memory.thp.madvised_percent=100"]),
    point("THP faults", "nobody waits for a huge page", &["workload.memory.thp.defrag=defer"]),
    point(
        "THP faults",
        "everybody wants huge pages, nobody waits",
        &["workload.memory.thp.enabled=always", "workload.memory.thp.defrag=defer"],
    ),
    point(
        "THP faults",
        "everybody wants huge pages, everybody waits",
        &["workload.memory.thp.enabled=always", "workload.memory.thp.defrag=always"],
    ),
    point("kernel objects", "none that shrinkers take", &["workload.kernel.reclaimable_per_10000_pages=0"]),
    point("pressure", "turned over half as fast", &["workload.turnover_s=150"]),
    point("pressure", "turned over twice as fast", &["workload.turnover_s=37"]),
    point("pressure", "tasks hold 12 % of memory", &["workload.anon_percent=12"]),
    point("pressure", "tasks hold 60 % of memory", &["workload.anon_percent=60"]),
    point(
        "pinned pages",
        "2 % of pages, for a second",
        &["workload.memory.pinned_permille=20", "workload.memory.pin_ms=1000"],
    ),
    point(
        "pinned pages",
        "2 % of pages, for a minute",
        &["workload.memory.pinned_permille=20", "workload.memory.pin_ms=60000"],
    ),
    Point { size: Size { memory: "1GiB", ..SMALL }, ..point("memory", "1 GiB", &[]) },
    Point { size: Size { memory: "8GiB", ..SMALL }, ..point("memory", "8 GiB", &[]) },
    Point { size: Size { memory: "64GiB", ..SMALL }, ..point("memory", "64 GiB, as the published hosts", &[]) },
];

/// All reports.
#[derive(Debug)]
pub struct Reports {
    /// The command that writes the document.
    pub command: String,
    /// The large fleet: Linux, the rivals, then the switches.
    pub main: FleetReport,
    /// The small fleets.
    pub points: Vec<(Point, FleetReport)>,
    states: Vec<State>,
}

/// What the command line changes about all fleets.
#[derive(Clone, Copy, Debug)]
pub struct Adjusted<F> {
    /// Hosts of each fleet, instead of its own number.
    pub hosts: Option<u32>,
    /// What becomes of the plan.
    pub plan: F,
}

impl Reports {
    /// Simulates everything that has not been simulated before, for the document that this command writes.
    ///
    /// # Errors
    /// The first that a plan or a run has.
    pub fn simulate<F: Fn(Plan) -> Plan>(
        costs: &Costs,
        command: String,
        adjusted: &Adjusted<F>,
    ) -> Result<Reports, Error> {
        let mut states = Vec::with_capacity(POINTS.len() + 1);
        let mut fleet = |size: Size, set: &[&str], rivals: &[&str]| {
            let plan = (adjusted.plan)(Plan::open(PLAN, &changes(size, set, rivals))?);
            let fleet = Fleet::new(plan, costs.clone(), adjusted.hosts.unwrap_or(size.hosts), 1)?;
            let (report, state) = fleet.simulate(&Place::Default)?;
            states.push(state);
            Ok::<_, Error>(report)
        };
        let all: Vec<&str> = RIVALS.iter().chain(&SWITCHES).copied().collect();
        let main = fleet(MAIN, &[], &all)?;
        let small = |at: &Point| Ok((*at, fleet(at.size, at.set, &SWEPT)?));
        let points = POINTS.iter().map(small).collect::<Result<Vec<_>, Error>>()?;
        Ok(Reports { command, states, ..Reports::new(main, points) })
    }

    /// These reports, with nothing kept for the case of an interruption.
    pub fn new(main: FleetReport, points: Vec<(Point, FleetReport)>) -> Reports {
        Reports { command: String::new(), main, points, states: Vec::new() }
    }

    /// Forgets what was kept for the case of an interruption.
    pub fn conclude(self) {
        self.states.into_iter().for_each(State::conclude);
    }
}

fn changes(size: Size, set: &[&str], rivals: &[&str]) -> Changes {
    let memory = format!("machine.memory={}", size.memory);
    Changes {
        set: [memory].into_iter().chain(set.iter().map(|&change| change.to_owned())).collect(),
        a: Some(freehold_registry::BASELINE.to_owned()),
        b: rivals.iter().map(|change| format!("{},{change}", freehold_registry::BASELINE)).collect(),
        ..Changes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fleet_can_be_read() {
        for Point { set, size, value, .. } in POINTS {
            let plan = Plan::open(PLAN, &changes(size, set, &SWITCHES));
            let plan = plan.unwrap_or_else(|error| panic!("{value}: {error}"));
            assert_eq!(plan.policies.len(), 1 + SWITCHES.len());
            assert!(Fleet::new(plan, Costs::reference(), 1, 1).is_ok(), "{value}");
        }
    }
}
