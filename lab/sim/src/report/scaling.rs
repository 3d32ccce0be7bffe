//! From a report to its plots: which measures are drawn against the number of CPUs, and how.

use freehold_report::report::plot::{Axis, Plot, PlotLine};

use super::SimReport;
use super::measures::{self, Measure};

/// What is drawn, in the order of panels.
const DRAWN: [(Measure, Axis); 6] = [
    (measures::THROUGHPUT, Axis::Logarithmic),
    (measures::ALLOC_P99, Axis::Logarithmic),
    (measures::ZONE_WAIT, Axis::Percent),
    (measures::ALLOCATOR, Axis::Percent),
    (measures::ZONE_LOCKS, Axis::Linear),
    (measures::ZONE_HOLD, Axis::Linear),
];

/// The plots of one point of the plan.
pub fn plots(report: &SimReport, point: usize) -> impl Iterator<Item = Plot> + '_ {
    DRAWN.iter().map(move |(measure, axis)| plot(report, point, measure, *axis))
}

fn plot(report: &SimReport, point: usize, measure: &Measure, axis: Axis) -> Plot {
    let plan = &report.plan;
    let of_policy = |policy: usize| {
        let value = |&cpus: &u16| Some((f64::from(cpus), report.spread(measure, point, cpus, policy)?.number()?));
        PlotLine::new(&plan.policies[policy].name, plan.cpus.iter().filter_map(value).collect())
    };
    let title = if axis == Axis::Percent { measure.about.trim_start_matches("share of ") } else { measure.about };
    Plot {
        title: title.to_owned(),
        of: report.swept_at(point).unwrap_or_default(),
        along: "CPUs".into(),
        axis,
        lines: (0..plan.policies.len()).map(of_policy).collect(),
        ..Plot::default()
    }
}
