//! Cells of tables about one plan: a measure, its change against policy A, and the verdict.

use freehold_report::number;
use freehold_sim::report::SimReport;
use freehold_sim::report::measures::{self, Measure};

/// A measure, as tables show it.
pub(super) fn value(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> String {
    let spread = report.spread(measure, point, cpus, policy);
    spread.map_or(number::ABSENT.to_owned(), |spread| measure.text(spread.median))
}

/// A policy, its throughput, and change and verdict of that.
pub(super) fn throughput(report: &SimReport, point: usize, cpus: u16, policy: usize) -> [String; 4] {
    let (change, verdict) = change(report, &measures::THROUGHPUT, point, cpus, policy);
    let value = value(report, &measures::THROUGHPUT, point, cpus, policy);
    [format!("`{}`", report.label(policy)), value, change, verdict]
}

/// Change and verdict against policy A, which has none.
pub(super) fn change(
    report: &SimReport,
    measure: &Measure,
    point: usize,
    cpus: u16,
    policy: usize,
) -> (String, String) {
    match report.judge(measure, point, cpus, policy).filter(|_| policy > 0) {
        None => (String::new(), String::new()),
        Some(judged) => (number::change(judged.change), judged.verdict.word().to_owned()),
    }
}
