//! Figures of a fleet, and the names of all fleets of the document.

use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;
use freehold_stats::intervals;

use super::studies::{Point, Reports};

/// Measures that depended on the reserve in production.
pub(super) const EFFECTS: [Measure; 3] =
    [measures::THP_SUCCESS, measures::COMPACTION_SUCCESS, measures::KSWAPD_SCANNED];

/// Returns the sum of a measure over all hosts.
pub(super) fn sum(report: &FleetReport, measure: &Measure, policy: usize) -> f64 {
    report.values(measure, policy).into_iter().flatten().sum()
}

/// Returns the reserve at one sampling time, in pageblocks: the median over the hosts.
pub(super) fn reserved_at(report: &FleetReport, policy: usize, look: usize) -> f64 {
    let mut blocks: Vec<f64> = report
        .results
        .iter()
        .filter_map(|host| host[policy].reserved_pages.get(look).copied())
        .map(|pages| pages as f64 / measures::PAGEBLOCK_PAGES)
        .collect();
    if blocks.is_empty() { 0.0 } else { intervals::median(&mut blocks) }
}

/// Returns all fleets with their names.
pub(super) fn all_fleets(reports: &Reports) -> Vec<(String, &FleetReport)> {
    let region = reports.region.iter().map(|(cell, report)| (cell.to_string(), report));
    let small = reports.points.iter().map(|(point, report)| (format_point(point), report));
    let single = [
        ("main", &reports.main),
        ("all tasks wait", &reports.waiting),
        ("short of memory", &reports.short),
        ("64 GiB", &reports.large),
    ];
    single
        .map(|(format_point, report)| (format_point.to_owned(), report))
        .into_iter()
        .chain(region)
        .chain(small)
        .collect()
}

/// Formats the parameter in which a small fleet differs.
fn format_point(point: &Point) -> String {
    match point.value {
        "-" => format!("small, {}", point.parameter),
        value => format!("small, {}: {value}", point.parameter),
    }
}

/// Returns the median of a measure over the hosts, or zero if no host has it.
pub(super) fn median(report: &FleetReport, measure: &Measure, policy: usize) -> f64 {
    report.estimate(measure, policy).map_or(0.0, |estimate| estimate.value)
}
