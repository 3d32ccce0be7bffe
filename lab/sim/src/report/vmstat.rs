//! What a kernel would count, for people and scripts that read `/proc/vmstat`.
//! It is a text of its own; other formats have the simulation's.
//!
//! Every run has a block of its own: a comment that names it, then a line a counter. What begins with `nr_` is what was
//! there at the end; all else was counted within the measured time. The comment also says if memory never filled.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::Report;
use freehold_report::terminal::Style;
use serde::{Serialize, Serializer};

use super::json::JsonDetail;
use super::model::SimReport;
use crate::sweep::Cell;

/// A simulation told by its counters. As JSON it is the whole report, with the counters of each run in it.
#[derive(Debug)]
pub struct Counters(pub SimReport);

impl Document for Counters {
    fn reports(&self) -> Cow<'_, [Report]> {
        self.0.reports()
    }

    fn text(&self, _: Style) -> String {
        let blocks = self.0.cells.iter().flat_map(|cell| blocks(&self.0, cell));
        blocks.collect::<Vec<_>>().join("\n")
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_with(serializer, JsonDetail::Counters)
    }
}

/// A block for each seed of a cell.
fn blocks(report: &SimReport, cell: &Cell) -> impl Iterator<Item = String> {
    let plan = &report.plan;
    let point = &plan.points[cell.point];
    let swept = plan.swept.as_ref().zip(point.value.as_ref());
    let swept = swept.map_or(String::new(), |(key, value)| format!(", {key} = {value}"));
    let (name, policy, cpus) = (&plan.name, &plan.policies[cell.policy].name, cell.cpus);
    let head = format!("# {name}: {policy}, cpus {cpus}{swept}");
    let window = format!("{} ms, after {} ms of warming up", point.duration_ms, point.warmup_ms);
    (1..).zip(&cell.outcomes).map(move |(seed, run)| {
        let calm =
            if run.vmstat.is_under_pressure() { "" } else { "; memory never filled, so nothing was under pressure" };
        format!("{head}, seed {seed}, {window}{calm}\n{}", run.vmstat.text())
    })
}
