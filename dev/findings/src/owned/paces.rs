//! The recorded server with CPUs twice and four times as fast: shows the pace from which the zone lock limits the
//! server, and the gain of a policy then. The server's own rate of requests depends on the machine on which it was
//! recorded.

use freehold_report::number;
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::SimReport;
use freehold_sim::report::measures;

use super::judged::{change, value};
use freehold_report::data_table::DataTable;

/// Plan with the server at its own pace.
pub(super) const PLAN: &str = "mallocs";
/// Other paces, in percent of the server's own pace.
const PACE_PERCENTS: [u64; 2] = [200, 400];

/// Simulates the other paces. `changed` may shorten a plan.
///
/// # Errors
/// Returns the first error of a plan or a run.
pub(super) fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Vec<SimReport>, Error> {
    PACE_PERCENTS
        .into_iter()
        .map(|percent| {
            let set = vec![format!("workload.pace_percent={percent}")];
            let plan = Plan::open(PLAN, &Changes { set, ..Changes::default() })?;
            Ok(SimReport::simulate(changed(plan), costs)?)
        })
        .collect()
}

/// Makes the table of waiting and throughput by pace, with a row for each malloc, number of CPUs and policy. `own` is
/// the report at the server's own pace.
pub(super) fn paces(own: &SimReport, others: &[SimReport]) -> DataTable {
    let mut header = vec!["recording".to_owned(), "CPUs".to_owned(), "policy".to_owned()];
    for percent in [100].iter().chain(&PACE_PERCENTS) {
        header.extend([format!("M operations/s at {percent} %"), "change".to_owned(), "waiting".to_owned()]);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut rows = Vec::new();
    for point in 0..own.plan.points.len() {
        for &cpus in &own.plan.cpus {
            rows.extend((0..own.plan.policies.len()).map(|policy| row(own, others, point, cpus, policy)));
        }
    }
    DataTable::new(header, rows)
}

fn row(own: &SimReport, others: &[SimReport], point: usize, cpus: u16, policy: usize) -> Vec<String> {
    let malloc = own.plan.points[point].value.as_deref().unwrap_or(number::ABSENT);
    let mut row = vec![format!("`{malloc}`"), cpus.to_string(), format!("`{}`", own.label(policy))];
    for report in [own].into_iter().chain(others) {
        let (change, _) = change(report, &measures::THROUGHPUT, point, cpus, policy);
        let [throughput, waiting] =
            [measures::THROUGHPUT, measures::ZONE_WAIT].map(|measure| value(report, &measure, point, cpus, policy));
        row.extend([throughput, change, waiting]);
    }
    row
}
