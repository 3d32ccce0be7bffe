//! What a fleet says of a policy B: measures by subject, and sentences, the most important first.

use freehold_report::number::{self, change};
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::{Direction, Verdict, relative_change};

use super::judge::{self, Judged};
use super::measures::{self, Measure as OfHost};
use super::report::FleetReport;
use crate::measures::quantity;
use crate::report::verdict::NEVER_FULL;

/// Every measure of a policy, by subject.
pub fn groups(report: &FleetReport, policy: usize) -> Vec<Group> {
    let of = |measure: &OfHost| {
        let side = |policy| report.estimate(measure, policy).map(|estimate| estimate.value);
        let (a, b) = (side(0), side(policy));
        let row = Row {
            case: format!("{} {}", report.hosts.len(), number::unit(report.hosts.len() as u64, "hosts")),
            a: a.map(quantity),
            b: b.map(quantity),
            change: a.zip(b).and_then(|(a, b)| relative_change(a, b)),
            verdict: report.judged(measure, policy).map(|judged| judged.verdict),
            interval: interval(report, measure, policy, a),
            ..Row::default()
        };
        let rows = if row.verdict.is_some() { vec![row] } else { Vec::new() };
        Measure { name: measure.name, unit: measure.unit.name(), direction: measure.direction, rows, pooled: None }
    };
    measures::GROUPS.iter().map(|(name, all)| Group { name, measures: all.iter().map(of).collect() }).collect()
}

/// The interval of the relative change, of hosts' differences; nothing with too few hosts, or where A has none.
fn interval(report: &FleetReport, measure: &OfHost, policy: usize, a: Option<f64>) -> Option<(f64, f64)> {
    let whole = a.filter(|a| *a != 0.0)?.abs();
    let (low, high) = report.judged(measure, policy)?.difference.interval?;
    Some((low / whole, high / whole))
}

/// What B changes, by how much.
pub fn changes(report: &FleetReport, policy: usize) -> String {
    let b = &report.fleet.plan.policies[policy].name;
    let judged: Vec<(&OfHost, Judged)> = measures::all()
        .filter(|measure| measure.direction != Direction::Neutral)
        .filter_map(|measure| Some((measure, report.judged(measure, policy)?)))
        .collect();
    let of = |verdict: Verdict| judged.iter().filter(move |(_, judged)| judged.verdict == verdict);
    let list = |verdict: Verdict| of(verdict).map(|(measure, judged)| said(report, measure, policy, judged)).collect();
    let [better, worse]: [Vec<String>; 2] = [list(Verdict::Better), list(Verdict::Worse)];
    let [better, worse] = [better, worse].map(|list| list.join("; "));
    let rest = format!(
        "No difference in {} of {} measures, undecided in {}.",
        of(Verdict::NoDifference).count(),
        judged.len(),
        of(Verdict::Undecided).count()
    );
    match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("{b} changes nothing for better or worse that may be said here. {rest}"),
        (false, true) => format!("{b} is better: {better}. {rest}"),
        (true, false) => format!("{b} is worse: {worse}. {rest}"),
        (false, false) => format!("{b} is better: {better}. It is worse: {worse}. {rest}"),
    }
}

/// A measure with its change: shares in points, all else in percent of A's.
fn said(report: &FleetReport, measure: &OfHost, policy: usize, judged: &Judged) -> String {
    let side = |policy| report.estimate(measure, policy).map(|estimate| estimate.value);
    let relative = side(0).zip(side(policy)).and_then(|(a, b)| relative_change(a, b));
    let by = match measure.difference_unit() {
        "" => relative.map_or_else(|| "from none".to_owned(), |relative| change(Some(relative))),
        points => measure.difference_text(judged.difference.value) + points,
    };
    format!("{} {by}", measure.words())
}

/// How far to believe it, and why: said once, of all policies.
pub fn belief(report: &FleetReport) -> Vec<String> {
    let percent = (report.confidence * 1e5).round() / 1e3;
    let enough = match judge::hosts_min(report.confidence) {
        least if report.hosts.len() < least => {
            format!("With fewer than {least} hosts there is no interval, and nothing is decided: --hosts.")
        }
        _ => format!(
            "Verdicts stand on {percent} % intervals of the differences on the same hosts: from and to hold the value for all \
             hosts that might have been drawn. A value is the median of hosts, or the sum where it says all hosts."
        ),
    };
    let exact = format!(
        "Each host is a simulation of the real engine: exact, the same on every machine, and as near to a real one as the \
         plan and the prices in the cost table `{}` are.",
        report.recipe.costs.name
    );
    report.is_calm().then(|| NEVER_FULL.to_owned()).into_iter().chain([enough, exact]).collect()
}
