//! Tables of a fleet, each about one subject and narrow enough for a terminal: values under each policy, differences of
//! policies on the same hosts, drawn parameters, and optionally every host.

use freehold_report::report::{Column, Table, Value};
use freehold_stats::verdict::Direction;

use super::judge::Estimate;
use super::measures::{self, Measure};
use super::report::FleetReport;

/// A column: its head, and the measure in it.
type Head = (&'static str, Measure);

/// Columns on the memory of a host.
const MEMORY_OF_HOST: &[Head] = &[
    ("HighAtomic", measures::RESERVED),
    ("THP", measures::THP_SUCCESS),
    ("compaction", measures::COMPACTION_SUCCESS),
    ("free blocks", measures::FREE_BLOCKS),
];
/// Columns on reclaim and requests of a host.
const REQUESTS_OF_HOST: &[Head] = &[
    ("kswapd scanned/min", measures::KSWAPD_SCANNED),
    ("atomic", measures::ATOMIC),
    ("failed", measures::ATOMIC_FAILED),
];

/// Returns all tables except those of single hosts.
pub(super) fn tables(report: &FleetReport) -> Vec<Table> {
    let mut tables = Vec::new();
    if report.policies() > 1 {
        tables.push(differences(report));
    }
    tables.extend(measures::GROUPS.iter().map(|(subject, measures)| estimates(report, subject, measures)));
    tables.extend((!report.fleet.plan.draws.is_empty()).then(|| draws(report)));
    tables
}

/// Returns the tables of single hosts, by subject, with one row for each host and policy.
pub(super) fn hosts(report: &FleetReport) -> [Table; 2] {
    [("Hosts: memory", MEMORY_OF_HOST), ("Hosts: reclaim and requests", REQUESTS_OF_HOST)].map(|(title, heads)| {
        let mut columns = vec![Column::numbers("host"), Column::words("policy")];
        columns.extend(heads.iter().map(|(head, _)| Column::numbers(*head)));
        let mut rows = Vec::new();
        for (host, results) in report.hosts.iter().zip(&report.results) {
            for (policy, result) in results.iter().enumerate() {
                let mut row = vec![Value::count(u64::from(host.number)), Value::text(report.label(policy))];
                row.extend(heads.iter().map(|(_, measure)| measure.value(measure.evaluate(result))));
                rows.push(row);
            }
        }
        Table::new(title, columns, rows)
    })
}

/// Returns the ends of an interval, or two empty cells if there is none or it has no width.
fn ends(estimate: Option<&Estimate>, text: impl Fn(f64) -> Value) -> [Value; 2] {
    let interval = estimate.and_then(|estimate| estimate.interval).filter(|(low, high)| low < high);
    interval.map_or([Value::None, Value::None], |(low, high)| [text(low), text(high)])
}

/// Returns a table with one row for each measure and policy.
fn estimates(report: &FleetReport, subject: &str, measures: &[Measure]) -> Table {
    let columns = vec![
        Column::words("measure"),
        Column::words("policy"),
        Column::numbers("value"),
        Column::numbers("from"),
        Column::numbers("to"),
    ];
    let mut rows = Vec::new();
    for measure in measures {
        for policy in 0..report.policies() {
            let estimate = report.estimate(measure, policy);
            let mut row = vec![Value::text(measure.about), Value::text(report.label(policy))];
            row.push(measure.value(estimate.as_ref().map(|estimate| estimate.value)));
            row.extend(ends(estimate.as_ref(), |value| measure.value(Some(value))));
            rows.push(row);
        }
    }
    Table::new(format!("The fleet: {subject}"), columns, rows)
}

/// Returns a table with one row for each policy B and each measure that has a better direction.
fn differences(report: &FleetReport) -> Table {
    let mut columns = ["measure", "policy"].map(Column::words).to_vec();
    columns.extend(["difference", "from", "to"].map(Column::numbers));
    columns.push(Column::words("verdict"));
    let mut rows = Vec::new();
    for measure in measures::iter().filter(|measure| measure.direction != Direction::Neutral) {
        for policy in 1..report.policies() {
            rows.push(difference_row(report, measure, policy));
        }
    }
    let title = format!("Against {}, on the same hosts", report.fleet.plan.policies[0].name);
    Table::new(title, columns, rows)
}

/// Returns the difference between a policy and policy A in one measure, with its interval and verdict.
fn difference_row(report: &FleetReport, measure: &Measure, policy: usize) -> Vec<Value> {
    let comparison = report.judge(measure, policy);
    let estimate = comparison.as_ref().map(|comparison| &comparison.difference);
    let difference = estimate.map_or(Value::None, |estimate| difference_value(measure, estimate.value));
    let points = measure.difference_unit().trim();
    let about = if points.is_empty() { measure.about.to_owned() } else { format!("{}, {points}", measure.about) };
    let mut row = vec![Value::Text(about), Value::text(report.label(policy)), difference];
    row.extend(ends(estimate, |value| difference_value(measure, value)));
    row.push(comparison.map_or(Value::None, |comparison| Value::verdict(comparison.verdict)));
    row
}

fn difference_value(measure: &Measure, difference: f64) -> Value {
    Value::Text(measure.difference_text(difference))
}

/// Returns a table of the keys that hosts draw, with their ranges.
fn draws(report: &FleetReport) -> Table {
    let columns = vec![Column::words("each host draws"), Column::numbers("from"), Column::numbers("to")];
    let draws = report.fleet.plan.draws.iter();
    let rows = draws.map(|draw| vec![Value::text(&draw.key), Value::count(draw.least), Value::count(draw.most)]);
    Table::new("", columns, rows)
}
