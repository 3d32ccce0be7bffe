//! Map of the region in which the reserve may matter: fleets by the age of their memory and by the share of tasks that
//! wait for huge pages. The published hosts are marked in it.

use freehold_report::number;
use freehold_report::report::plot::{Axis, Plot, PlotLine, Scale, Shape};
use freehold_sim::fleet::measures;
use freehold_sim::fleet::report::FleetReport;
use freehold_stats::verdict::Verdict;

use super::fleets;
use super::published::ROWS;
use super::studies::{Cell, RIVALS, Reports, SKIP};
use crate::picture;
use freehold_report::data_table::DataTable;

/// Share of memory from which a reserve counts as being at its cap, which is a hundredth.
const FULL: f64 = 0.008;

/// Column titles of the map. The picture is drawn from the first two columns and from those of huge pages.
const HEADER: [&str; 8] = [
    "age",
    "tasks that wait",
    "memory reserved",
    WITH_RESERVE,
    WITHOUT_RESERVE,
    "verdict",
    "in the published range",
    "better with",
];
const WITH_RESERVE: &str = "huge pages with the reserve";
const WITHOUT_RESERVE: &str = "huge pages without it";

/// Makes the map: the size of the reserve, and the effect of removing it, by age and share of waiting tasks.
pub(super) fn map(reports: &Reports) -> DataTable {
    let rows = reports.region.iter().map(|(Cell { age, waiting }, report)| {
        let [with, without] = shares(report).map(number::percent);
        let ranges = is_as_published(report).into_iter().zip(["before", "after"]);
        let skip = report.policy(SKIP).and_then(|policy| report.judge(&measures::THP_SUCCESS, policy));
        vec![
            age.to_string(),
            format!("{waiting} %"),
            number::percent(fleets::median(report, &measures::RESERVED_SHARE, 0)),
            with,
            without,
            skip.map_or("", |judged| judged.verdict.word()).to_owned(),
            ranges.filter(|(is_in, _)| *is_in).map(|(_, range)| range).collect::<Vec<_>>().join(", "),
            better_with(report),
        ]
    });
    DataTable::new(HEADER, rows)
}

/// Returns the plots of the map: one for each age, with the share of huge pages by the share of waiting tasks.
pub(super) fn plots(map: &DataTable) -> Vec<Plot> {
    let mut ages: Vec<&str> = map.column(HEADER[0]).collect();
    ages.dedup();
    let plots = ages.into_iter().map(|age| {
        let rows = map.filter(HEADER[0], age);
        Plot {
            title: format!("faults that got a huge page, age {age}"),
            along: "tasks that wait for a huge page".into(),
            scale: Scale::Named(rows.column(HEADER[1]).map(str::to_owned).collect()),
            axis: Axis::Percent,
            shape: Shape::Bars,
            lines: [("with the reserve", WITH_RESERVE), ("without it", WITHOUT_RESERVE)]
                .map(|(name, column)| PlotLine::new(name, picture::points_by_row(&rows, column)))
                .to_vec(),
            ..Plot::default()
        }
    });
    plots.collect()
}

/// Returns the policies under which more faults get a huge page than under policy A.
fn better_with(report: &FleetReport) -> String {
    let mut names = Vec::new();
    for label in RIVALS {
        let judged = report.policy(label).and_then(|policy| report.judge(&measures::THP_SUCCESS, policy));
        if judged.is_some_and(|judged| judged.verdict == Verdict::Better) {
            names.push(format!("`{}`", label.trim_start_matches("highatomic=")));
        }
    }
    names.join(", ")
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
