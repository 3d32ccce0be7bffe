//! The throughput published with the proposal, beside the simulated throughput.
//!
//! The plan that is nearest to the author's test is simulated several times, while CPUs do more and more work outside
//! the allocator. The gain decreases with the load on the zone lock, and the page shows the load at which it is as
//! small as the author's.

use freehold_report::number;

use super::costs::{median, nearest};
use freehold_report::data_table::DataTable;
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::SimReport;
use freehold_sim::report::measures;

/// Plan, value of its swept parameter that is kept, and number of CPUs.
const PLAN: &str = "purge";
const KEPT: &str = "100";
const CPUS: u16 = 32;
/// Computation before each request for a page, in ns. The first value is the plan's own.
const THINK_NS: [u64; 8] = [500, 1000, 1500, 2000, 3000, 4000, 8000, 16_000];
/// Warm-up and duration of the plan in ms, for the first of these values. They grow with the value, so that each run
/// allocates the same amount.
const WINDOW_MS: [u64; 2] = [4, 8];
/// Report of the plan under one load.
#[derive(Debug)]
pub(super) struct Load {
    think_ns: u64,
    window_ms: [u64; 2],
    report: SimReport,
}

/// Simulates every load. `changed` may shorten a plan.
///
/// # Errors
/// Returns the first error of a plan or a run.
pub(super) fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Vec<Load>, Error> {
    THINK_NS
        .into_iter()
        .map(|think_ns| {
            let window_ms = WINDOW_MS.map(|ms| ms * think_ns / THINK_NS[0]);
            let [warmup_ms, duration_ms] = window_ms;
            let set = [("workload.think_ns", think_ns), ("warmup_ms", warmup_ms), ("duration_ms", duration_ms)];
            let set = set.map(|(key, value)| format!("{key}={value}")).to_vec();
            let mut plan = changed(Plan::open(PLAN, &Changes { set, cpus: vec![CPUS], ..Changes::default() })?);
            plan.points.retain(|point| point.value.as_deref() == Some(KEPT));
            Ok(Load { think_ns, window_ms, report: SimReport::simulate(plan, costs)? })
        })
        .collect()
}

impl Load {
    fn median(&self, measure: &measures::Measure, policy: usize) -> f64 {
        median(&self.report, measure, 0, nearest(&self.report.plan.cpus, CPUS), policy)
    }

    /// Returns the relative gain in throughput of a policy over policy A.
    fn gain(&self, policy: usize) -> f64 {
        self.median(&measures::THROUGHPUT, policy) / self.median(&measures::THROUGHPUT, 0) - 1.0
    }

    /// Returns the share of the time in which some CPU holds a zone lock.
    fn held_share(&self, policy: usize) -> f64 {
        self.median(&measures::THROUGHPUT, policy) * self.median(&measures::ZONE_HOLD, policy) / 1e12
    }

    fn row(&self) -> Vec<String> {
        let shares = [measures::ZONE_WAIT, measures::ALLOCATOR, measures::IDLE];
        let mut cells = vec![number::count(self.think_ns), self.window_ms.map(|ms| ms.to_string()).join(" + ")];
        cells.push(measures::THROUGHPUT.text(self.median(&measures::THROUGHPUT, 0)));
        cells.push(number::percent(self.held_share(0)));
        cells.extend(shares.map(|measure| measure.text(self.median(&measure, 0))));
        cells.extend((1..self.report.plan.policies.len()).map(|policy| number::change(Some(self.gain(policy)))));
        cells
    }
}

/// Makes the table of loads.
pub(super) fn loads(loads: &[Load]) -> DataTable {
    let Some(first) = loads.first() else { return DataTable::default() };
    let mut header: Vec<String> =
        ["think, ns", "window, ms", "M operations/s", "zone lock held", "waiting", "in the allocator", "idle"]
            .map(str::to_owned)
            .to_vec();
    header.extend((1..first.report.plan.policies.len()).map(|policy| format!("`{}`", first.report.label(policy))));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    DataTable::new(header, loads.iter().map(Load::row))
}
