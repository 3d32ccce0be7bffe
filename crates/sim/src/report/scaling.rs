//! From a report to its scaling picture: which measures are drawn, and how.

use std::ops::Range;

use super::SimReport;
use super::measures::{self, Measure, Unit};
use super::picture::{Axis, Panel, Picture};

/// What is drawn, in the order of panels.
const DRAWN: [(Measure, Axis); 4] = [
    (measures::THROUGHPUT, Axis::Logarithmic),
    (measures::ZONE_WAIT, Axis::Percent),
    (measures::ZONE_LOCKS, Axis::Linear),
    (measures::ZONE_HOLD, Axis::Linear),
];

/// The picture of these points of the plan, four panels each.
pub fn picture(report: &SimReport, points: Range<usize>) -> Picture {
    let plan = &report.plan;
    let mut title = format!("{} ({})", plan.title, plan.name);
    if let Some(swept) = &plan.swept {
        title = format!("{title}, by {swept}");
    }
    let panels = points.flat_map(|point| DRAWN.map(|(measure, axis)| panel(report, point, &measure, axis)));
    Picture { title, lines: plan.policies.iter().map(|policy| policy.name.clone()).collect(), panels: panels.collect() }
}

fn panel(report: &SimReport, point: usize, measure: &Measure, axis: Axis) -> Panel {
    let plan = &report.plan;
    let of_policy = |policy| {
        let value = |&cpus: &u16| Some((cpus, report.spread(measure, point, cpus, policy)?.median));
        plan.cpus.iter().filter_map(value).collect()
    };
    let about = if measure.unit == Unit::Share { measure.about.trim_start_matches("share of ") } else { measure.about };
    let value = plan.points[point].value.as_ref().map_or(String::new(), |value| format!("{value}: "));
    Panel { title: format!("{value}{about}"), axis, points: (0..plan.policies.len()).map(of_policy).collect() }
}
