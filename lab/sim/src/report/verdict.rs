//! Verdict of a simulation on a policy B: measures by subject, and sentences, the most important first.
//!
//! A change of throughput is never reported without the change of latency, since a policy may do more work by letting
//! some requests wait. If the two disagree, a sentence names the case and the amounts.

use freehold_report::number::{self, change, change_or_from_none};
use freehold_report::report::screen::headline;
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::Verdict;

use super::judge;
use super::measures::{self, Measure as RunMeasure};
use super::model::SimReport;
use crate::measure::quantity;
use crate::sweep::Cell;

/// Remark on a run in which memory never filled.
pub const NEVER_FULL: &str = "Memory never filled, so the policies were not tested under pressure: simulate a longer \
                              time, or less memory.";

/// One number of CPUs at one value of the swept parameter.
struct Case {
    label: String,
    a: Option<f64>,
    b: Option<f64>,
    change: Option<f64>,
    verdict: Verdict,
}

/// Returns a measure of a policy in every case in which A or B has a number.
fn cases(report: &SimReport, measure: &RunMeasure, policy: usize) -> Vec<Case> {
    let cells = report.cells.iter().filter(|cell| cell.policy == policy);
    cells.filter_map(|cell| case(report, measure, cell)).filter(|case| case.a.is_some() || case.b.is_some()).collect()
}

/// Compares the policy of a cell with policy A in one measure.
fn case(report: &SimReport, measure: &RunMeasure, cell: &Cell) -> Option<Case> {
    let comparison = report.judge(measure, cell.point, cell.cpus, cell.policy)?;
    let [a, b] = [0, cell.policy].map(|policy| report.spread(measure, cell.point, cell.cpus, policy)?.number());
    let cpus = format!("{} {}", cell.cpus, number::unit(cell.cpus.into(), "CPUs"));
    let label = match report.swept_at(cell.point) {
        Some(swept) => format!("{cpus}, {swept}"),
        None => cpus,
    };
    Some(Case { label, a, b, change: comparison.change, verdict: comparison.verdict })
}

/// Returns every measure of a policy, by subject.
pub fn groups(report: &SimReport, policy: usize) -> Vec<Group> {
    let mut groups = Vec::new();
    for (name, run_measures) in measures::groups(report.pace()) {
        let compared = run_measures.iter().map(|measure| Measure {
            name: measure.name,
            title: measure.about,
            unit: measure.unit.name(),
            direction: report.direction(measure),
            rows: cases(report, measure, policy).into_iter().map(row).collect(),
            pooled: None,
        });
        groups.push(Group { name, measures: compared.collect() });
    }
    groups
}

fn row(case: Case) -> Row {
    let (a, b) = (case.a.map(quantity), case.b.map(quantity));
    Row { case: case.label, a, b, change: case.change, verdict: case.verdict, ..Row::default() }
}

/// Returns the headline, which counts labels, and a sentence if throughput and latency disagree.
pub fn sentences(report: &SimReport, policy: usize, groups: &[Group]) -> Vec<String> {
    let [throughput, latency] =
        [measures::THROUGHPUT, measures::ALLOC_P99].map(|measure| cases(report, &measure, policy));
    std::iter::once(headline(groups)).chain(disagreement(&throughput, &latency)).collect()
}

fn change_text(case: &Case) -> String {
    if case.a.is_some() { change_or_from_none(case.change) } else { change(case.change) }
}

/// If throughput and latency have opposite verdicts somewhere, describes the case with the largest change of latency; of
/// several such cases, the one with the largest change of throughput.
fn disagreement(throughput: &[Case], latency: &[Case]) -> Option<String> {
    let pairs: Vec<(&Case, &Case)> =
        throughput.iter().zip(latency).filter(|(one, other)| is_opposed(one.verdict, other.verdict)).collect();
    let (one, other) = *pairs.iter().max_by(|a, b| {
        let [a, b] = [a, b].map(|(throughput, latency)| (change_size(latency), change_size(throughput)));
        a.partial_cmp(&b).expect("a change is not NaN")
    })?;
    let place = match throughput.len() {
        1 => "Throughput and p99 disagree".to_owned(),
        all => format!("Throughput and p99 disagree in {} of {all} cases, most on {}", pairs.len(), one.label),
    };
    let (a, b) = (latency_text(other.a), latency_text(other.b));
    let (word, p99) = (one.verdict.word(), other.verdict.word());
    Some(format!("{place}: throughput {} ({word}), p99 from {a} to {b} ns ({p99}).", change_text(one)))
}

/// Returns whether one verdict is better and the other one worse.
fn is_opposed(one: Verdict, other: Verdict) -> bool {
    matches!((one, other), (Verdict::Better, Verdict::Worse) | (Verdict::Worse, Verdict::Better))
}

/// Returns the size of a change; a change from zero is infinite.
fn change_size(case: &Case) -> f64 {
    case.change.map_or(f64::INFINITY, f64::abs)
}

fn latency_text(nanoseconds: Option<f64>) -> String {
    nanoseconds.map_or_else(|| number::ABSENT.to_owned(), |value| measures::ALLOC_P99.text(value))
}

/// Returns cautions: memory that never filled, and a single seed.
pub fn cautions(report: &SimReport) -> Vec<String> {
    let single = (report.plan.seeds == 1)
        .then(|| "One seed: effects cannot be distinguished from chance; --seeds runs more.".to_owned());
    report.is_calm().then(|| NEVER_FULL.to_owned()).into_iter().chain(single).collect()
}

/// Returns the rule of the verdicts, and the reliability of the numbers.
pub fn basis(report: &SimReport) -> Vec<String> {
    let margin = judge::MARGIN * 100.0;
    let rule = (report.plan.seeds > 1).then(|| {
        format!(
            "A verdict holds under each of {} seeds, and its median change exceeds {margin} %. Throughput differs by \
             at most {} between seeds.",
            report.plan.seeds,
            apart(report)
        )
    });
    let exact = format!(
        "This is a simulation of the real engine. Its results are exact and equal on every machine. Their distance \
         from a real machine depends on the cost table `{}` (`freehold calibrate --check`).",
        report.recipe.costs.name
    );
    rule.into_iter().chain([exact]).collect()
}

/// Returns the largest distance between two seeds of a cell, relative to their median.
fn apart(report: &SimReport) -> String {
    let spreads = report.cells.iter().map(|cell| measures::Spread::over_runs(&measures::THROUGHPUT, &cell.outcomes));
    let apart = spreads.filter(|spread| spread.median > 0.0).map(|spread| (spread.most - spread.least) / spread.median);
    number::percent(apart.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case_with_verdict(label: &str, a: f64, b: f64, verdict: Verdict) -> Case {
        Case { label: label.to_owned(), a: Some(a), b: Some(b), change: Some(b / a - 1.0), verdict }
    }

    #[test]
    fn throughput_verdict_includes_a_latency_loss() {
        let throughput = [
            case_with_verdict("1 CPU", 10.0, 10.0, Verdict::NoChange),
            case_with_verdict("32 CPUs", 10.0, 11.4, Verdict::Better),
        ];
        let latency = [
            case_with_verdict("1 CPU", 12.0, 12.0, Verdict::NoChange),
            case_with_verdict("32 CPUs", 12.0, 150.0, Verdict::Worse),
        ];
        let sentence = disagreement(&throughput, &latency).unwrap();
        assert_eq!(
            sentence,
            "Throughput and p99 disagree in 1 of 2 cases, most on 32 CPUs: throughput +14.0 % (better), p99 from 12 to \
             150 ns (worse)."
        );
        assert_eq!(disagreement(&throughput, &throughput), None);
    }
}
