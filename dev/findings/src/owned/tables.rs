//! Tables of the page by name, the tables of one plan, and the plots of one of them.

use freehold_report::report::plot::{Axis, Plot, PlotLine};

use super::judged::{change, throughput, value};
use super::studies::Reports;
use super::{across, aged, costs, paces, reconcile, system_time};
use crate::picture;
use crate::regions::Region;
use freehold_report::data_table::DataTable;
use freehold_sim::report::SimReport;
use freehold_sim::report::measures::{self, Measure};

/// Function that makes a table about one point of a plan.
type OfPlan = fn(&SimReport, usize) -> DataTable;
/// Function that makes a table about all plans.
type OfAll = fn(&Reports) -> DataTable;

/// Columns of the table of contention from which the picture is drawn.
const CPUS: &str = "CPUs";
const POLICY: &str = "policy";
const THROUGHPUT: &str = "M operations/s";
const WAITING: &str = "waiting";

/// Tables about one plan, selected by `NAME PLAN [SWEPT VALUE]`.
const OF_A_PLAN: [(&str, OfPlan); 6] = [
    ("contention", contention),
    ("memory", memory),
    ("times", times),
    ("growth", costs::growth),
    ("lead", lead),
    ("savings", costs::savings),
];
/// Tables about all plans.
const OF_ALL: [(&str, OfAll); 10] = [
    ("together", |reports| aged::together(reports.aged())),
    ("worse-by-age", |reports| aged::worse(reports.aged())),
    ("bars", across::bars),
    ("losses", across::losses),
    ("sweep", across::sweep),
    ("locks", across::locks),
    ("loads", |reports| reconcile::loads(reports.loads())),
    ("paces", |reports| {
        reports.find(paces::PLAN).map_or_else(DataTable::default, |own| paces::paces(own, reports.paces()))
    }),
    ("system-time", |reports| system_time::savings(reports.builds())),
    ("recipe", across::recipe),
];

/// Returns whether a table of this name exists.
#[cfg(test)]
pub(super) fn is_known(region: &Region) -> bool {
    let names = OF_A_PLAN.iter().map(|table| table.0).chain(OF_ALL.iter().map(|table| table.0));
    names.into_iter().any(|name| name == region.name)
}

/// Makes a table, or returns `None` if there is no such table or plan.
pub(super) fn make(region: &Region, reports: &Reports) -> Option<DataTable> {
    if let Some((_, make)) = OF_ALL.iter().find(|(name, _)| *name == region.name) {
        return Some(make(reports));
    }
    let (report, point) = find(&region.words, reports)?;
    let (_, make) = OF_A_PLAN.iter().find(|(name, _)| *name == region.name)?;
    Some(make(report, point))
}

/// Returns the plots of a table of contention: throughput and waiting, by number of CPUs and policy.
pub(super) fn plots(table: &DataTable) -> Vec<Plot> {
    let mut policies: Vec<&str> = Vec::new();
    for policy in table.column(POLICY) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let panels = [
        ("operations a second of virtual time", "M/s", THROUGHPUT, Axis::Logarithmic),
        ("CPU time spent waiting for a zone lock", "", WAITING, Axis::Percent),
    ];
    let plots = panels.map(|(title, unit, column, axis)| Plot {
        title: title.to_owned(),
        unit: unit.into(),
        along: "CPUs".into(),
        axis,
        lines: policies
            .iter()
            .map(|policy| {
                PlotLine::new(policy.trim_matches('`'), picture::points(&table.filter(POLICY, policy), CPUS, column))
            })
            .collect(),
        ..Plot::default()
    });
    plots.to_vec()
}

/// Returns the report and the point that `PLAN [SWEPT VALUE]` selects.
fn find<'r>(words: &[String], reports: &'r Reports) -> Option<(&'r SimReport, usize)> {
    let report = reports.find(words.first()?)?;
    let value = words.get(1);
    let point = report.plan.points.iter().position(|point| point.value.as_ref() == value)?;
    Some((report, point))
}

/// Makes the table of the CPUs' work, waiting and lock usage.
fn contention(report: &SimReport, point: usize) -> DataTable {
    let shown = [measures::ZONE_WAIT, measures::ZONE_LOCKS, measures::PAGES_PER_LOCK, measures::ZONE_HOLD];
    let more = [measures::REMOTE_FREES, measures::ALLOC_P99];
    let header = [
        CPUS,
        POLICY,
        THROUGHPUT,
        "change",
        "verdict",
        WAITING,
        "zone locks in 1000",
        "pages/lock",
        "hold, ns in 1000",
        "remote frees",
        "p99, ns",
    ];
    let lines = rows(report, |cpus, policy| {
        let mut cells = vec![cpus.to_string()];
        cells.extend(throughput(report, point, cpus, policy));
        cells.extend(shown.iter().chain(&more).map(|measure| value(report, measure, point, cpus, policy)));
        cells
    });
    DataTable::new(header, lines)
}

/// Makes the table of the state of memory, at the end and at its worst.
fn memory(report: &SimReport, point: usize) -> DataTable {
    let pairs = [
        (measures::FREE_BLOCKS_END, measures::FREE_BLOCKS_WORST),
        (measures::UNUSABLE_END, measures::UNUSABLE_WORST),
        (measures::MIXED_END, measures::MIXED_WORST),
        (measures::HELD_END, measures::HELD_WORST),
    ];
    let header = [
        "CPUs",
        "policy",
        "free pageblocks",
        "verdict on free pageblocks",
        "unusable at order 9",
        "verdict on unusable",
        "mixed pageblocks",
        "held pages",
        "owned pageblocks",
        "failed",
    ];
    let lines = rows(report, |cpus, policy| {
        let [free, unusable, mixed, held] = pairs.map(|pair| {
            let [end, worst] = [pair.0, pair.1].map(|measure| value(report, &measure, point, cpus, policy));
            format!("{end} / {worst}")
        });
        let [owned, failures] =
            [measures::OWNED_END, measures::FAILURES].map(|measure| value(report, &measure, point, cpus, policy));
        let [free_verdict, unusable_verdict] = [measures::FREE_BLOCKS_WORST, measures::UNUSABLE_WORST]
            .map(|measure| change(report, &measure, point, cpus, policy).1);
        vec![
            cpus.to_string(),
            format!("`{}`", report.label(policy)),
            free,
            free_verdict,
            unusable,
            unusable_verdict,
            mixed,
            held,
            owned,
            failures,
        ]
    });
    DataTable::new(header, lines)
}

/// Makes the table of the activities that used CPU time.
fn times(report: &SimReport, point: usize) -> DataTable {
    let shown: Vec<Measure> = measures::TIMES.iter().copied().chain([measures::ZONE_WAIT]).collect();
    let mut header = vec!["CPUs", "policy"];
    header.extend(shown.iter().map(|measure| measure.about.trim_start_matches("share of CPU time spent ")));
    let lines = rows(report, |cpus, policy| {
        let mut cells = vec![cpus.to_string(), format!("`{}`", report.label(policy))];
        cells.extend(shown.iter().map(|measure| value(report, measure, point, cpus, policy)));
        cells
    });
    DataTable::new(header, lines)
}

/// Makes the table of throughput compared with policy A, for each policy and number of CPUs.
fn lead(report: &SimReport, point: usize) -> DataTable {
    let mut rows = Vec::new();
    for policy in 1..report.plan.policies.len() {
        for &cpus in &report.plan.cpus {
            let (change, verdict) = change(report, &measures::THROUGHPUT, point, cpus, policy);
            rows.push(vec![format!("`{}`", report.label(policy)), cpus.to_string(), change, verdict]);
        }
    }
    DataTable::new(["policy", "CPUs", "change in throughput", "verdict"], rows)
}

/// Returns a row for each number of CPUs and policy.
fn rows<'r>(
    report: &'r SimReport,
    row: impl Fn(u16, usize) -> Vec<String> + 'r,
) -> impl Iterator<Item = Vec<String>> + 'r {
    let policies = 0..report.plan.policies.len();
    let pairs = report.plan.cpus.iter().flat_map(move |&cpus| policies.clone().map(move |policy| (cpus, policy)));
    pairs.map(move |(cpus, policy)| row(cpus, policy))
}
