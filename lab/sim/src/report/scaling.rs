//! Plots of a report: selected measures against the number of CPUs.

use freehold_report::report::plot::{Axis, Plot, PlotLine};

use super::measures::{self, Measure};
use super::model::SimReport;

/// Measures that are plotted, in the order of panels.
const DRAWN: [(Measure, Axis); 6] = [
    (measures::THROUGHPUT, Axis::Logarithmic),
    (measures::ALLOC_P99, Axis::Logarithmic),
    (measures::ZONE_WAIT, Axis::Percent),
    (measures::ALLOCATOR, Axis::Percent),
    (measures::ZONE_LOCKS, Axis::Linear),
    (measures::ZONE_HOLD, Axis::Linear),
];

/// Returns the plots of one point of the plan.
pub(super) fn plots(report: &SimReport, point: usize) -> impl Iterator<Item = Plot> + '_ {
    DRAWN.iter().map(move |(measure, axis)| plot(report, point, measure, *axis))
}

fn plot(report: &SimReport, point: usize, measure: &Measure, axis: Axis) -> Plot {
    let plan = &report.plan;
    let title = if axis == Axis::Percent { measure.about.trim_start_matches("share of ") } else { measure.about };
    Plot {
        title: title.to_owned(),
        of: report.swept_at(point).unwrap_or_default(),
        unit: if axis == Axis::Percent { "".into() } else { measure.unit.name().into() },
        along: "CPUs".into(),
        axis,
        lines: (0..plan.policies.len()).map(|policy| plot_line(report, point, measure, policy)).collect(),
        ..Plot::default()
    }
}

/// Returns a measure of one policy against the number of CPUs.
fn plot_line(report: &SimReport, point: usize, measure: &Measure, policy: usize) -> PlotLine {
    let mut values = Vec::new();
    for &cpus in &report.plan.cpus {
        let value = report.spread(measure, point, cpus, policy).and_then(|spread| spread.number());
        values.extend(value.map(|value| (f64::from(cpus), value)));
    }
    PlotLine::new(&report.plan.policies[policy].name, values)
}
