//! Counters of the simulated kernel, in the format of `/proc/vmstat`, for people and scripts that read that format.
//! This text is separate from the report; in other formats the output is the report of the simulation.
//!
//! Every run has a block of lines: a comment that names the run, then one line for each counter. Names that begin with
//! `nr_` are gauges at the end of the measured time; all others are counters over the measured time. The comment also
//! states if memory never filled.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::Report;
use freehold_report::terminal::Style;
use serde::{Serialize, Serializer};

use super::json::JsonDetail;
use super::model::SimReport;
use crate::sweep::Cell;

/// A simulation as counters. As JSON it is the whole report, including the counters of each run.
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

/// Returns a block for each seed of a cell.
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
            if run.vmstat.is_under_pressure() { "" } else { "\n# memory never filled, so there was no pressure" };
        format!("{head}, seed {seed}, {window}{calm}\n{}", run.vmstat.text())
    })
}
