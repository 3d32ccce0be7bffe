//! Map of the region in which the reserve may matter: fleets by the age of their memory and by the share of tasks that
//! wait for huge pages. The published hosts are marked in it.

use freehold_report::number;
use freehold_sim::fleet::measures;
use freehold_sim::fleet::report::FleetReport;

use super::fleets;
use super::published::ROWS;
use super::studies::{AGES, Cell, Reports, SKIP, WAITING};
use crate::data_table::DataTable;

/// Share of memory from which a reserve counts as being at its cap, which is a hundredth.
const FULL: f64 = 0.008;

/// Makes the map: the size of the reserve, and the effect of removing it, by age and share of waiting tasks.
pub(super) fn map(reports: &Reports) -> DataTable {
    let heads: Vec<String> = WAITING.iter().map(|waiting| format!("{waiting} % wait")).collect();
    let header: Vec<&str> = ["age"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let rows = AGES.into_iter().map(|age| {
        let cells = WAITING
            .into_iter()
            .map(|waiting| fleet_at(reports, Cell { age, waiting }).map_or_else(String::new, cell_text));
        [age.to_string()].into_iter().chain(cells).collect()
    });
    DataTable::new(&header, rows)
}

/// Returns the fleet of a cell.
fn fleet_at(reports: &Reports, cell: Cell) -> Option<&FleetReport> {
    reports.region.iter().find(|(place, _)| *place == cell).map(|(_, report)| report)
}

/// Returns the share of faults that got a huge page, with the reserve and without it.
fn shares(report: &FleetReport) -> [f64; 2] {
    let skip = report.policy(SKIP).expect("each fleet of the map has the proposal");
    [0, skip].map(|policy| fleets::median(report, &measures::THP_SUCCESS, policy))
}

/// Returns whether the shares of huge pages, with a reserve at its cap and without it, are within the published ranges.
fn is_as_published(report: &FleetReport) -> [bool; 2] {
    let published = ROWS.iter().find(|row| row.measure.name == measures::THP_SUCCESS.name).expect("it is a row");
    let [before, after] = shares(report);
    let ranges = [(published.before, before), (published.after, after)];
    ranges.map(|((least, most), share)| is_full(report) && (least..=most).contains(&share))
}

/// Returns whether the reserve is nearly at its cap.
fn is_full(report: &FleetReport) -> bool {
    fleets::median(report, &measures::RESERVED_SHARE, 0) >= FULL
}

/// Formats the cell of a fleet in the map.
fn cell_text(report: &FleetReport) -> String {
    let skip = report.policy(SKIP).and_then(|policy| report.judge(&measures::THP_SUCCESS, policy));
    let verdict = skip.map_or("", |judged| judged.verdict.word());
    let [before, after] = shares(report).map(number::percent);
    let [is_before, is_after] = is_as_published(report);
    format!(
        "{} of memory reserved; huge pages {before}{} → {after}{}: {}",
        number::percent(fleets::median(report, &measures::RESERVED_SHARE, 0)),
        if is_before { " (●)" } else { "" },
        if is_after { " (○)" } else { "" },
        verdict
    )
}
