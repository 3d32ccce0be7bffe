//! The tables of a fleet, each about one subject and narrow enough for a terminal: what it brought under each policy,
//! how policies differ on the same hosts, what makes hosts differ, and on demand every host.

use freehold_report::report::{Column, Table, Value};
use freehold_stats::verdict::Direction;

use super::host::HostResult;
use super::judge::Estimate;
use super::measures::{self, Measure};
use super::report::FleetReport;

/// A column: its head, and the measure in it.
type Head = (&'static str, Measure);

/// What became of memory on a host.
const MEMORY_OF_HOST: &[Head] = &[
    ("HighAtomic", measures::RESERVED),
    ("THP", measures::THP_SUCCESS),
    ("compaction", measures::COMPACTION_SUCCESS),
    ("free blocks", measures::FREE_BLOCKS),
];
/// What was asked of it.
const REQUESTS_OF_HOST: &[Head] = &[
    ("kswapd scanned/min", measures::KSWAPD_SCANNED),
    ("atomic", measures::ATOMIC),
    ("failed", measures::ATOMIC_FAILED),
];

/// All tables but those of hosts.
pub fn tables(report: &FleetReport) -> Vec<Table> {
    let mut tables = Vec::new();
    if report.policies() > 1 {
        tables.push(differences(report));
    }
    tables.extend(measures::GROUPS.iter().map(|(subject, measures)| estimates(report, subject, measures)));
    tables.extend((!report.fleet.plan.draws.is_empty()).then(|| draws(report)));
    tables
}

/// A row a host and policy, by subject.
pub fn hosts(report: &FleetReport) -> [Table; 2] {
    [("Hosts: memory", MEMORY_OF_HOST), ("Hosts: reclaim and requests", REQUESTS_OF_HOST)].map(|(title, heads)| {
        let mut columns = vec![Column::numbers("host"), Column::words("policy")];
        columns.extend(heads.iter().map(|(head, _)| Column::numbers(*head)));
        let row = |number: u32, policy: usize, result: &HostResult| {
            let names = [Value::count(u64::from(number)), Value::text(report.label(policy))];
            let values = heads.iter().map(|(_, measure)| measure.value(measure.of(result)));
            names.into_iter().chain(values).collect()
        };
        let rows = report.hosts.iter().zip(&report.results).flat_map(|(host, results)| {
            results.iter().enumerate().map(|(policy, result)| row(host.number, policy, result)).collect::<Vec<_>>()
        });
        Table::new(title, columns, rows)
    })
}

/// The ends of an interval, where there are two.
fn ends(estimate: Option<&Estimate>, text: impl Fn(f64) -> Value) -> [Value; 2] {
    let interval = estimate.and_then(|estimate| estimate.interval).filter(|(low, high)| low < high);
    interval.map_or([Value::None, Value::None], |(low, high)| [text(low), text(high)])
}

/// One row a measure and policy.
fn estimates(report: &FleetReport, subject: &str, measures: &[Measure]) -> Table {
    let columns = vec![
        Column::words("measure"),
        Column::words("policy"),
        Column::numbers("value"),
        Column::numbers("from"),
        Column::numbers("to"),
    ];
    let row = |measure: &Measure, policy: usize| {
        let estimate = report.estimate(measure, policy);
        let number = |value: f64| measure.value(Some(value));
        let mut row = vec![Value::text(measure.about), Value::text(report.label(policy))];
        row.push(measure.value(estimate.as_ref().map(|estimate| estimate.value)));
        row.extend(ends(estimate.as_ref(), number));
        row
    };
    let rows = measures.iter().flat_map(|measure| (0..report.policies()).map(move |policy| (measure, policy)));
    let title = format!("The fleet: {subject}");
    Table::new(title, columns, rows.map(|(measure, policy)| row(measure, policy)))
}

/// One row a measure that has a good direction, and policy B.
fn differences(report: &FleetReport) -> Table {
    let mut columns = ["measure", "policy"].map(Column::words).to_vec();
    columns.extend(["difference", "from", "to"].map(Column::numbers));
    columns.push(Column::words("verdict"));
    let row = |measure: &Measure, policy: usize| {
        let judged = report.judged(measure, policy);
        let estimate = judged.as_ref().map(|judged| &judged.difference);
        let signed = |value: f64| Value::Text(measure.difference_text(value));
        let difference = estimate.map(|estimate| signed(estimate.value)).unwrap_or(Value::None);
        let points = measure.difference_unit().trim();
        let about = if points.is_empty() { measure.about.to_owned() } else { format!("{}, {points}", measure.about) };
        let mut row = vec![Value::Text(about), Value::text(report.label(policy)), difference];
        row.extend(ends(estimate, signed));
        row.push(Value::verdict(judged.map(|judged| judged.verdict)));
        row
    };
    let judged = measures::all().filter(|measure| measure.direction != Direction::Neutral);
    let rows = judged.flat_map(|measure| (1..report.policies()).map(move |policy| (measure, policy)));
    let title = format!("Against {}, on the same hosts", report.fleet.plan.policies[0].name);
    Table::new(title, columns, rows.map(|(measure, policy)| row(measure, policy)))
}

/// What makes hosts differ beside their seeds: one row a key of the plan.
fn draws(report: &FleetReport) -> Table {
    let columns = vec![Column::words("each host draws"), Column::numbers("from"), Column::numbers("to")];
    let row = |draw: &crate::plan::draws::Draw| {
        vec![Value::text(&draw.key), Value::count(draw.least), Value::count(draw.most)]
    };
    Table::new("", columns, report.fleet.plan.draws.iter().map(row))
}
