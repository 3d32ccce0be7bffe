//! Tables that are about all plans: the promised gains, the losses of policies with owned pageblocks, the cost of
//! locks, and the recipe.

use freehold::policy::PcpPolicy;
use freehold_report::number;
use freehold_stats::verdict::Verdict;

use super::aged;
use super::costs::{median, nearest};
use super::judged::{change, throughput, value};
use super::studies::Reports;
use freehold_report::data_table::DataTable;
use freehold_sim::report::measures::{self, Measure};
use freehold_sim::report::{SimReport, judge};

/// Conditions of the promise about `purge`: the number of CPUs, and the maximum burst in percent of `high`.
const BAR_CPUS: u16 = 32;
const BAR_BURST: u64 = 100;
/// Promised factors: how many times fewer acquisitions, and how many times less time held.
const ACQUISITIONS_BAR: f64 = 20.0;
const HOLD_BAR: f64 = 4.0;

/// Measures that are searched for losses.
const COSTS: [Measure; 8] = [
    measures::THROUGHPUT,
    measures::ALLOC_P99,
    measures::ZONE_HOLD,
    measures::FAILURES,
    measures::FREE_BLOCKS_WORST,
    measures::UNUSABLE_WORST,
    measures::MIXED_WORST,
    measures::HELD_WORST,
];

/// Makes the table of promises, and whether they are kept.
pub(super) fn bars(reports: &Reports) -> DataTable {
    let mut rows = Vec::new();
    if let Some(purge) = reports.find("purge") {
        for (point, value) in
            purge.plan.points.iter().enumerate().filter_map(|(point, at)| Some((point, at.value.as_ref()?)))
        {
            if value.parse::<u64>().is_ok_and(|percent| percent <= BAR_BURST) {
                rows.extend(purge_bars(purge, point, value));
            }
        }
    }
    rows.extend(reports.find("steady").into_iter().flat_map(steady_bars));
    DataTable::new(["plan", "policy", "promised against policy A", "figure", "kept"], rows)
}

fn purge_bars(report: &SimReport, point: usize, value: &str) -> Vec<Vec<String>> {
    let bars = [
        ("fewer zone-lock acquisitions", measures::ZONE_LOCKS, ACQUISITIONS_BAR),
        ("less time zone locks are held", measures::ZONE_HOLD, HOLD_BAR),
    ];
    let cpus = nearest(&report.plan.cpus, BAR_CPUS);
    let mut rows = Vec::new();
    for policy in owning(report) {
        for (what, measure, times) in &bars {
            let a = median(report, measure, point, cpus, 0);
            let b = median(report, measure, point, cpus, policy);
            let ratio = match (a > 0.0, b > 0.0) {
                (_, true) => format!("{} times", number::decimal(a / b)),
                (true, false) => "none".to_owned(),
                (false, false) => "nothing to compare".to_owned(),
            };
            rows.push(vec![
                format!("`purge`, bursts of {value} % of `high`, {cpus} CPUs"),
                format!("`{}`", report.label(policy)),
                format!("at least {times} times {what}"),
                format!("{ratio}: {} instead of {}", measure.text(b), measure.text(a)),
                yes_or_no(a >= times * b),
            ]);
        }
    }
    rows
}

fn steady_bars(report: &SimReport) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for policy in owning(report) {
        let cpus = report.plan.cpus.iter();
        let judged: Vec<_> = cpus.filter_map(|&cpus| report.judge(&measures::THROUGHPUT, 0, cpus, policy)).collect();
        let is_kept = judged.iter().all(|judged| matches!(judged.verdict, Verdict::NoChange | Verdict::Better));
        let least = judged.iter().filter_map(|judged| judged.change).fold(f64::INFINITY, f64::min);
        rows.push(vec![
            "`steady`, any number of CPUs".to_owned(),
            format!("`{}`", report.label(policy)),
            format!("not slower (no change beyond {} %, or better)", judge::MARGIN * 100.0),
            format!("{} at least", number::change(Some(least))),
            yes_or_no(is_kept),
        ]);
    }
    rows
}

/// Returns the policies under which CPUs own pageblocks.
fn owning(report: &SimReport) -> impl Iterator<Item = usize> {
    (1..report.plan.policies.len())
        .filter(|&policy| matches!(report.plan.policies[policy].policy.pcp, PcpPolicy::Owned | PcpPolicy::OwnedRemote))
}

fn yes_or_no(is_kept: bool) -> String {
    if is_kept { "yes".to_owned() } else { "no".to_owned() }
}

/// Makes the table of the measures of [`COSTS`] in which a policy with owned pageblocks is worse than policy A, plan by
/// plan.
pub(super) fn losses(reports: &Reports) -> DataTable {
    let mut rows = Vec::new();
    for report in reports.plans() {
        for point in 0..report.plan.points.len() {
            for policy in owning(report) {
                rows.extend(COSTS.iter().filter_map(|measure| loss(report, point, policy, measure)));
            }
        }
    }
    let header = ["plan", "policy", "measure", "numbers of CPUs", "largest change", "value", "value under A"];
    DataTable::new(header, rows)
}

fn loss(report: &SimReport, point: usize, policy: usize, measure: &Measure) -> Option<Vec<String>> {
    let cpus = report.plan.cpus.iter();
    let cells = cpus.filter_map(|&cpus| Some((cpus, report.judge(measure, point, cpus, policy)?)));
    let worse: Vec<_> = cells.filter(|(_, judged)| judged.verdict == Verdict::Worse).collect();
    let (cpus, most) = *worse.iter().max_by(|a, b| change_size(a.1.change).total_cmp(&change_size(b.1.change)))?;
    let swept = report.plan.points[point].value.as_ref().map_or(String::new(), |value| format!(" {value}"));
    let on: Vec<String> = worse.iter().map(|(cpus, _)| cpus.to_string()).collect();
    Some(vec![
        format!("`{}`{swept}", report.plan.name),
        format!("`{}`", report.label(policy)),
        measure.about.to_owned(),
        on.join(", "),
        format!("{} on {cpus}", number::change(most.change)),
        value(report, measure, point, cpus, policy),
        value(report, measure, point, cpus, 0),
    ])
}

/// Returns the size of a change. A change from zero has no ratio, and counts as the largest.
fn change_size(change: Option<f64>) -> f64 {
    change.map_or(f64::INFINITY, f64::abs)
}

/// Makes the table of gains by size of the bursts, on the number of CPUs of the promise.
pub(super) fn sweep(reports: &Reports) -> DataTable {
    let Some(report) = reports.find("purge") else { return DataTable::default() };
    let cpus = nearest(&report.plan.cpus, BAR_CPUS);
    let header = [
        "burst, % of `high`",
        "policy",
        "M operations/s",
        "change",
        "verdict",
        "waiting",
        "zone locks in 1000",
        "hold, ns in 1000",
    ];
    let shown = [measures::ZONE_WAIT, measures::ZONE_LOCKS, measures::ZONE_HOLD];
    let mut rows = Vec::new();
    for (point, at) in report.plan.points.iter().enumerate() {
        for policy in 0..report.plan.policies.len() {
            let mut row = vec![at.value.clone().unwrap_or_default()];
            row.extend(throughput(report, point, cpus, policy));
            row.extend(shown.iter().map(|measure| value(report, measure, point, cpus, policy)));
            rows.push(row);
        }
    }
    DataTable::new(header, rows)
}

/// Makes the table of changes in throughput with cheaper and more expensive locks.
pub(super) fn locks(reports: &Reports) -> DataTable {
    let mut rows = Vec::new();
    for varied in reports.varied() {
        let Some(report) = reports.find(varied.plan) else { continue };
        let [half, twice] = &varied.reports;
        for &cpus in &report.plan.cpus {
            for policy in 1..report.plan.policies.len() {
                let mut row =
                    vec![format!("`{}`", varied.plan), cpus.to_string(), format!("`{}`", report.label(policy))];
                row.extend([(half, 0), (report, varied.point), (twice, 0)].map(|(report, point)| {
                    let (change, verdict) = change(report, &measures::THROUGHPUT, point, cpus, policy);
                    format!("{change} {verdict}")
                }));
                rows.push(row);
            }
        }
    }
    DataTable::new(["plan", "CPUs", "policy", "half the cost", "as measured", "twice the cost"], rows)
}

/// Makes the table with the commands that reproduce the document.
pub(super) fn recipe(reports: &Reports) -> DataTable {
    let mut rows = Vec::new();
    if let Some(report) = reports.plans().next() {
        let recipe = &report.recipe;
        rows.push(("command".to_owned(), format!("`{}`", reports.command())));
        rows.push(("freehold".to_owned(), recipe.program.version()));
        rows.push(("cost table".to_owned(), format!("`{}`: {}", recipe.costs.name, recipe.costs_text())));
        for (name, choices) in &recipe.policies {
            rows.push(("policy".to_owned(), format!("`{name}` is {choices}")));
        }
    }
    for report in reports.plans() {
        let plan = &report.plan;
        let window = plan.points.first().map_or((0, 0), |point| (point.warmup_ms, point.duration_ms));
        let times = format!("{} ms of virtual time after {} ms of warm-up", window.1, window.0);
        let value = format!("{} seeds, {times}; `freehold sim {}`", plan.seeds, plan.name);
        rows.push((format!("`{}`", plan.name), value));
    }
    let others = [
        (
            "loads",
            "`freehold sim purge --cpus 32 --set workload.think_ns=THINK --set warmup_ms=MS --set duration_ms=MS`",
        ),
        ("paces", "`freehold sim mallocs --set workload.pace_percent=PACE`"),
        ("system-time", "`freehold sim BUILD --cpus 2,32 --memory 32GiB`"),
    ];
    rows.extend(others.map(|(table, command)| (table.to_owned(), command.to_owned())));
    rows.extend(aged::commands());
    DataTable::new(["item", "value"], rows.into_iter().map(|(what, value)| vec![what, value]))
}
