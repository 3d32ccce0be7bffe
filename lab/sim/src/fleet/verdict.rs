//! Verdict of a fleet on a policy B: measures by subject, and sentences, the most important first.

use freehold_report::number::{self, change_or_from_none};
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::{Verdict, count_labels, relative_change};

use super::judge::{self, HostComparison};
use super::measures::{self, Measure as HostMeasure};
use super::report::FleetReport;
use crate::measure::quantity;
use crate::report::verdict::NEVER_FULL;

/// Returns every measure of a policy, by subject.
pub(super) fn groups(report: &FleetReport, policy: usize) -> Vec<Group> {
    let mut groups = Vec::new();
    for (name, measures) in measures::GROUPS {
        groups
            .push(Group { name, measures: measures.iter().map(|measure| compare(report, measure, policy)).collect() });
    }
    groups
}

/// Compares a policy with policy A in one measure; without a row if no host has the measure under both.
fn compare(report: &FleetReport, measure: &HostMeasure, policy: usize) -> Measure {
    let mut rows = Vec::new();
    if let Some(comparison) = report.judge(measure, policy) {
        let (a, b) = (estimated_value(report, measure, 0), estimated_value(report, measure, policy));
        rows.push(Row {
            case: format!("{} {}", report.hosts.len(), number::unit(report.hosts.len() as u64, "hosts")),
            a: a.map(quantity),
            b: b.map(quantity),
            change: a.zip(b).and_then(|(a, b)| relative_change(a, b)),
            verdict: comparison.verdict,
            interval: relative_interval(&comparison, a),
            ..Row::default()
        });
    }
    Measure { name: measure.name, unit: measure.unit.name(), direction: measure.direction, rows, pooled: None }
}

fn estimated_value(report: &FleetReport, measure: &HostMeasure, policy: usize) -> Option<f64> {
    report.estimate(measure, policy).map(|estimate| estimate.value)
}

/// Returns the interval of the differences, relative to the value of A; `None` with too few hosts, or if A's value is
/// absent or zero.
fn relative_interval(comparison: &HostComparison, a: Option<f64>) -> Option<(f64, f64)> {
    let whole = a.filter(|a| *a != 0.0)?.abs();
    let (low, high) = comparison.difference.interval?;
    Some((low / whole, high / whole))
}

/// Returns a sentence on the measures that B changes, and by how much.
pub(super) fn changes(report: &FleetReport, policy: usize) -> String {
    let b = &report.fleet.plan.policies[policy].name;
    let compared: Vec<(&HostMeasure, HostComparison)> =
        measures::iter().filter_map(|measure| Some((measure, report.judge(measure, policy)?))).collect();
    let [better, worse] = [Verdict::Better, Verdict::Worse].map(|verdict| {
        let alike = compared.iter().filter(|(_, comparison)| comparison.verdict == verdict);
        let texts = alike.map(|(measure, comparison)| change_text(report, measure, policy, comparison));
        texts.collect::<Vec<_>>().join("; ")
    });
    let labels = count_labels(compared.iter().map(|(_, comparison)| comparison.verdict));
    let counts: Vec<String> = labels
        .filter(|(label, count)| *count > 0 && !label.is_decided())
        .map(|(label, count)| format!("{} {count}", label.word()))
        .collect();
    let rest = format!("Other labels ({} measures): {}.", compared.len(), counts.join(", "));
    match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("{b}: no measure is better or worse. {rest}"),
        (false, true) => format!("{b}: better: {better}. {rest}"),
        (true, false) => format!("{b}: worse: {worse}. {rest}"),
        (false, false) => format!("{b}: better: {better}. Worse: {worse}. {rest}"),
    }
}

/// Formats the change of a measure: shares in percentage points, others in percent of A's value.
fn change_text(report: &FleetReport, measure: &HostMeasure, policy: usize, comparison: &HostComparison) -> String {
    let (a, b) = (estimated_value(report, measure, 0), estimated_value(report, measure, policy));
    let change = match (measure.difference_unit(), a.zip(b).and_then(|(a, b)| relative_change(a, b))) {
        ("", relative) => change_or_from_none(relative),
        (points, _) => measure.difference_text(comparison.difference.value) + points,
    };
    format!("{} {change}", measure.words())
}

/// Returns sentences on the reliability of the result, for all policies together.
pub(super) fn belief(report: &FleetReport) -> Vec<String> {
    let percent = (report.confidence * 1e5).round() / 1e3;
    let enough = match judge::hosts_min(report.confidence) {
        least if report.hosts.len() < least => {
            format!("No verdicts: an interval needs at least {least} hosts (--hosts).")
        }
        _ => format!(
            "Verdicts use {percent} % intervals of the differences on the same hosts. From and to are the bounds of \
             the value over all hosts that could have been drawn. A value is the median of the hosts, or their sum if \
             its name has \"all hosts\"."
        ),
    };
    let exact = format!(
        "Each host is a simulation of the real engine. Its results are exact and equal on every machine. Their \
         distance from a real host depends on the plan and on the cost table `{}`.",
        report.recipe.costs.name
    );
    report.is_calm().then(|| NEVER_FULL.to_owned()).into_iter().chain([enough, exact]).collect()
}
