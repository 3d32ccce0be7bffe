//! Simulated runs and hosts, each as `freehold sim` and `freehold fleet` make it.
//!
//! Sections beside `measure`: `counter` has what a kernel would count, `fact` what is known of a host, and
//! `reserved_pages` its reserve at each look.

use freehold_report::number::Quantity;
use freehold_sim::costs::Costs;
use freehold_sim::fleet::host::{Host, HostResult};
use freehold_sim::fleet::measures as of_hosts;
use freehold_sim::measure::vmstat::Vmstat;
use freehold_sim::measures::{Measure, quantity};
use freehold_sim::report::measures as of_runs;
use freehold_sim::sweep::{self, Job};

use crate::error::TaskError;
use crate::outcome::{FACT, MEASURE};
use crate::part::Row;
use crate::plan::{Simulation, Simulations};
use crate::task::Work;

const COUNTER: &str = "counter";
const RESERVED: &str = "reserved_pages";
const DURATION: &str = "duration_ms";
const MEMORY: &str = "memory_pages";
const FREE_BLOCKS: &str = "free_pageblocks";

/// Simulates, with what steps cost.
pub struct Simulator {
    costs: Costs,
}

impl Simulator {
    /// With the cost table that is built in.
    pub fn new() -> Simulator {
        Simulator { costs: Costs::reference() }
    }

    /// Simulates a run or a host.
    pub fn simulate(&self, simulations: &Simulations, work: Work) -> Result<Vec<Row>, TaskError> {
        let Work::Simulate { point, policy, seed, host } = work else { return Ok(Vec::new()) };
        let at = &simulations.points[point];
        match simulations.of {
            Simulation::Runs => {
                let job = Job { point: 0, cpus: at.cpus, policy, seed };
                let outcome = sweep::simulate(&at.plan, &self.costs, job)?;
                let pace = at.plan.points[0].workload.pace();
                let all = of_runs::groups(pace).flat_map(|(_, measures)| measures);
                Ok(all.filter_map(|measure| measured(measure, &outcome)).chain(counters(&outcome.vmstat)).collect())
            }
            Simulation::Hosts(_) => {
                let host = Host::draw(&at.plan, seed, host)?;
                let result = host.run_unseen(at.plan.policies[policy].policy, &self.costs)?;
                Ok(host_rows(&result))
            }
        }
    }
}

fn measured<R>(measure: &Measure<R>, of: &R) -> Option<Row> {
    let value = measure.of(of).filter(|value| value.is_finite())?;
    Some(Row::of(MEASURE, measure.name, measure.unit.name(), quantity(value)))
}

fn counters(vmstat: &Vmstat) -> impl Iterator<Item = Row> {
    vmstat.iter().map(|(name, value)| Row::of(COUNTER, name, "", Quantity::Count(value)))
}

fn host_rows(result: &HostResult) -> Vec<Row> {
    let count = |name, unit, count| Row::of(FACT, name, unit, Quantity::Count(count));
    let facts = [
        count(DURATION, "ms", result.duration_ms),
        count(MEMORY, "pages", result.memory_pages),
        count(FREE_BLOCKS, "pageblocks", result.free_pageblocks),
    ];
    let measures = of_hosts::all().filter_map(|measure| measured(measure, result));
    let reserved = (0..).zip(&result.reserved_pages);
    let reserved = reserved.map(|(at, &pages)| Row::of(RESERVED, "", "pages", Quantity::Count(pages)).numbered(at));
    measures.chain(facts).chain(counters(&result.vmstat)).chain(reserved).collect()
}

/// The host that these rows tell of; nothing if they tell of none.
pub fn host_of(rows: &[Row]) -> Option<HostResult> {
    let fact = |name| rows.iter().find(|row| row.section == FACT && row.measure == name)?.count;
    let of = |section: &'static str| rows.iter().filter(move |row| row.section == section);
    let counters = of(COUNTER).map(|row| Some((row.measure.clone(), row.count?))).collect::<Option<Vec<_>>>()?;
    Some(HostResult {
        duration_ms: fact(DURATION)?,
        memory_pages: fact(MEMORY)?,
        free_pageblocks: fact(FREE_BLOCKS)?,
        reserved_pages: of(RESERVED).map(|row| row.count).collect::<Option<_>>()?,
        vmstat: Vmstat::of_named(counters),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_comes_back_is_the_host_that_ran() {
        let vmstat = Vmstat::new([("pgscan_kswapd", 7), ("compact_stall", 0)]);
        let host =
            HostResult { duration_ms: 1, memory_pages: 2, free_pageblocks: 3, reserved_pages: vec![9, 8], vmstat };
        assert_eq!(host_of(&host_rows(&host)), Some(host));
        assert_eq!(host_of(&[]), None);
    }
}
