//! Verdict of a fleet on a policy B: measures by subject, and sentences, the most important first.

use freehold_report::number;
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::relative_change;

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
    Measure {
        name: measure.name,
        title: measure.about,
        unit: measure.unit.name(),
        direction: measure.direction,
        rows,
        pooled: None,
    }
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

/// Returns cautions: memory that never filled, and too few hosts.
pub(super) fn cautions(report: &FleetReport) -> Vec<String> {
    let least = judge::hosts_min(report.confidence);
    let few = (report.hosts.len() < least)
        .then(|| format!("No verdicts: an interval needs at least {least} hosts (--hosts)."));
    report.is_calm().then(|| NEVER_FULL.to_owned()).into_iter().chain(few).collect()
}

/// Returns the rule of the verdicts, and the reliability of the numbers.
pub(super) fn basis(report: &FleetReport) -> Vec<String> {
    let percent = (report.confidence * 1e5).round() / 1e3;
    let rule = format!(
        "Verdicts use {percent} % intervals of the differences on the same hosts. From and to are the bounds of the \
         value over all hosts that could have been drawn. A value is the median of the hosts, or their sum if its name \
         has \"all hosts\"."
    );
    let exact = format!(
        "Each host is a simulation of the real engine. Its results are exact and equal on every machine. Their \
         distance from a real host depends on the plan and on the cost table `{}`.",
        report.recipe.costs.name
    );
    vec![rule, exact]
}
