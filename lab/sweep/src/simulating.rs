//! Simulated runs and hosts, made as by `freehold sim` and `freehold fleet`.
//!
//! Besides `measure`, rows have these sections: `counter` for the counters of a kernel, `fact` for properties of a
//! host, and `reserved_pages` for the host's reserve for atomic requests at each sample over time.

use freehold_report::number::Quantity;
use freehold_sim::costs::Costs;
use freehold_sim::fleet::host::{Host, HostResult};
use freehold_sim::fleet::measures as host_measures;
use freehold_sim::measure::{Measure, quantity};
use freehold_sim::outcome::Outcome;
use freehold_sim::outcome::vmstat::Vmstat;
use freehold_sim::report::measures as run_measures;
use freehold_sim::sweep::{self, Job};

use crate::error::TaskError;
use crate::outcome::{EVENTS, FACT, MEASURE, count_row};
use crate::part::Row;
use crate::plan::{Simulation, Simulations};
use crate::task::Work;

const COUNTER: &str = "counter";
const RESERVED: &str = "reserved_pages";
const DURATION: &str = "duration_ms";
const MEMORY: &str = "memory_pages";
const FREE_BLOCKS: &str = "free_pageblocks";

/// Simulator with a cost table.
pub(crate) struct Simulator {
    costs: Costs,
}

impl Simulator {
    /// Creates a simulator with the built-in cost table.
    pub(crate) fn new() -> Simulator {
        Simulator { costs: Costs::reference() }
    }

    /// Simulates a run or a host.
    pub(crate) fn simulate(&self, simulations: &Simulations, work: Work) -> Result<Vec<Row>, TaskError> {
        let Work::Simulate { point, policy, seed, host } = work else { return Ok(Vec::new()) };
        let at = &simulations.points[point];
        match simulations.kind {
            Simulation::Runs => {
                let job = Job { point: 0, cpus: at.cpus, policy, seed };
                let outcome = sweep::simulate(&at.plan, &self.costs, job)?;
                let pace = at.plan.points[0].workload.pace();
                let measures = run_measures::groups(pace).flat_map(|(_, measures)| measures);
                let rows = measures.flat_map(|measure| run_rows(measure, &outcome));
                Ok(rows.chain(counter_rows(&outcome.vmstat)).collect())
            }
            Simulation::Hosts(_) => {
                let host = Host::draw(&at.plan, seed, host)?;
                let result = host.run_without_progress(at.plan.policies[policy].policy, &self.costs)?;
                Ok(host_rows(&result))
            }
        }
    }
}

/// Returns a measure of a run, and the events behind it if the measure itself is not a count of events.
fn run_rows(measure: &run_measures::Measure, outcome: &Outcome) -> impl Iterator<Item = Row> {
    let events = measure.events(outcome).filter(|_| !measure.unit.is_count());
    let events = events.map(|events| count_row(EVENTS, measure.name, "events", events as u64));
    measure_row(measure, outcome).into_iter().chain(events)
}

fn measure_row<R>(measure: &Measure<R>, subject: &R) -> Option<Row> {
    let value = measure.evaluate(subject).filter(|value| value.is_finite())?;
    Some(Row::number(MEASURE, measure.name, measure.unit.name(), quantity(value)))
}

fn counter_rows(vmstat: &Vmstat) -> impl Iterator<Item = Row> {
    vmstat.iter().map(|(name, value)| Row::number(COUNTER, name, "", Quantity::Count(value)))
}

fn host_rows(result: &HostResult) -> Vec<Row> {
    let mut rows: Vec<Row> = host_measures::iter().filter_map(|measure| measure_row(measure, result)).collect();
    rows.extend([
        count_row(FACT, DURATION, "ms", result.duration_ms),
        count_row(FACT, MEMORY, "pages", result.memory_pages),
        count_row(FACT, FREE_BLOCKS, "pageblocks", result.free_pageblocks),
    ]);
    rows.extend(counter_rows(&result.vmstat));
    rows.extend(
        (0..).zip(&result.reserved_pages).map(|(at, &pages)| count_row(RESERVED, "", "pages", pages).numbered(at)),
    );
    rows
}

/// Reads a host from its rows; returns `None` if something is missing.
pub(crate) fn host_from_rows(rows: &[Row]) -> Option<HostResult> {
    let counters: Option<Vec<(String, u64)>> =
        in_section(rows, COUNTER).map(|row| Some((row.measure.clone(), row.count?))).collect();
    Some(HostResult {
        duration_ms: fact(rows, DURATION)?,
        memory_pages: fact(rows, MEMORY)?,
        free_pageblocks: fact(rows, FREE_BLOCKS)?,
        reserved_pages: in_section(rows, RESERVED).map(|row| row.count).collect::<Option<_>>()?,
        vmstat: Vmstat::from_named(counters?),
    })
}

/// Returns the rows of one section.
fn in_section<'r>(rows: &'r [Row], section: &'static str) -> impl Iterator<Item = &'r Row> {
    rows.iter().filter(move |row| row.section == section)
}

/// Returns the count of a fact.
fn fact(rows: &[Row], name: &str) -> Option<u64> {
    in_section(rows, FACT).find(|row| row.measure == name)?.count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_result_round_trips() {
        let vmstat = Vmstat::new([("pgscan_kswapd", 7), ("compact_stall", 0)]);
        let host =
            HostResult { duration_ms: 1, memory_pages: 2, free_pageblocks: 3, reserved_pages: vec![9, 8], vmstat };
        assert_eq!(host_from_rows(&host_rows(&host)), Some(host));
        assert_eq!(host_from_rows(&[]), None);
    }
}
