//! Cells of tables about one plan: a measure, its change relative to policy A, and the verdict.

use freehold_report::number;
use freehold_sim::report::SimReport;
use freehold_sim::report::measures::{self, Measure};

/// Formats a measure for a table.
pub(super) fn value(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> String {
    let spread = report.spread(measure, point, cpus, policy);
    spread.map_or(number::ABSENT.to_owned(), |spread| measure.text(spread.median))
}

/// Formats a policy, its throughput, and the change and verdict of the throughput.
pub(super) fn throughput(report: &SimReport, point: usize, cpus: u16, policy: usize) -> [String; 4] {
    let (change, verdict) = change(report, &measures::THROUGHPUT, point, cpus, policy);
    let value = value(report, &measures::THROUGHPUT, point, cpus, policy);
    [format!("`{}`", report.label(policy)), value, change, verdict]
}

/// Formats the change relative to policy A and the verdict. Both are empty for policy A itself.
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
