//! Plots of the spread between hosts: the values of all hosts, sorted.

use freehold_report::report::plot::{Axis, Plot, PlotLine, Scale};

use super::measures::{self, Measure};
use super::report::FleetReport;
use crate::measure::Unit;

/// Measures that are plotted.
const DRAWN: [Measure; 6] = [
    measures::THP_SUCCESS,
    measures::FREE_BLOCKS,
    measures::RESERVED,
    measures::COMPACT_STALLS,
    measures::RECLAIM_STALLS,
    measures::KSWAPD_SCANNED,
];

/// Returns one plot for each measure that is nonzero on any host.
pub(super) fn plots(report: &FleetReport) -> Vec<Plot> {
    let plots = DRAWN.iter().map(|measure| plot(report, measure));
    plots.filter(|plot| plot.lines.iter().flat_map(|line| &line.points).any(|point| point.1 != 0.0)).collect()
}

fn plot(report: &FleetReport, measure: &Measure) -> Plot {
    Plot {
        title: measure.about.trim_end_matches(", a minute").replace(", all hosts", ", a host"),
        caption: "All hosts, in ascending order. The median host is at 50 %.".to_owned(),
        unit: if measure.unit == Unit::Share { "".into() } else { measure.unit.name().into() },
        along: "% of the hosts".into(),
        scale: Scale::Even,
        axis: if measure.unit == Unit::Share { Axis::Percent } else { Axis::Linear },
        lines: (0..report.policies()).map(|policy| plot_line(report, measure, policy)).collect(),
        ..Plot::default()
    }
}

/// Returns the values of all hosts under one policy, sorted, by the percentage of hosts.
fn plot_line(report: &FleetReport, measure: &Measure, policy: usize) -> PlotLine {
    let mut values: Vec<f64> = report.values(measure, policy).into_iter().flatten().collect();
    values.sort_by(f64::total_cmp);
    let hosts = values.len() as f64;
    let points = values.into_iter().enumerate().map(|(index, value)| ((index + 1) as f64 / hosts * 100.0, value));
    PlotLine::new(&report.fleet.plan.policies[policy].name, points.collect())
}
