//! Reports of simulations: tables for people, JSON for programs, pictures for documents.
//!
//! [`measures`] names what is measured, [`judge`] says what a difference means, [`text`] lays out tables, [`picture`]
//! draws, [`vmstat`] tells what a kernel would count. This file holds the value behind all of them.

pub mod judge;
pub mod measures;
pub mod picture;
pub mod recipe;
mod scaling;
mod text;
pub mod vmstat;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

pub use measures::{Measure, Spread};
pub use text::NEVER_FULL;

use super::costs::Costs;
use super::plan::Plan;
use super::run::RunError;
use super::sweep::{self, Cell};
use super::workload::WorkPace;
use freehold_measure::formats::Document;
use freehold_measure::terminal::Style;
use freehold_measure::verdict::Direction;
use judge::Judged;
use picture::Picture;
use recipe::Recipe;

/// What all runs of a plan brought.
#[derive(Debug)]
pub struct SimReport {
    /// How it came about.
    pub recipe: Recipe,
    /// What was asked.
    pub plan: Plan,
    /// The answers.
    pub cells: Vec<Cell>,
}

impl SimReport {
    /// Simulates all runs of a plan.
    ///
    /// # Errors
    /// When a run breaks down.
    pub fn simulate(plan: Plan, costs: &Costs) -> Result<SimReport, RunError> {
        let cells = sweep::sweep(&plan, costs)?;
        Ok(SimReport { recipe: Recipe::new(costs, &plan.policies), plan, cells })
    }

    /// The cell of this point, number of CPUs and policy.
    pub fn cell(&self, point: usize, cpus: u16, policy: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.point == point && cell.cpus == cpus && cell.policy == policy)
    }

    /// A measure over the seeds of a cell.
    pub fn spread(&self, measure: &Measure, point: usize, cpus: u16, policy: usize) -> Option<Spread> {
        self.cell(point, cpus, policy).map(|cell| Spread::of(measure, &cell.outcomes))
    }

    /// How a policy stands against policy A in one measure.
    pub fn judged(&self, measure: &Measure, point: usize, cpus: u16, policy: usize) -> Option<Judged> {
        let a = self.spread(measure, point, cpus, 0)?;
        let b = self.spread(measure, point, cpus, policy)?;
        let mut measure = *measure;
        // A set demand is met with fewer operations where pages are huge: that is neither good nor bad.
        if measure.name == measures::THROUGHPUT.name && self.plan.points[point].workload.pace() == WorkPace::Set {
            measure.direction = Direction::Neutral;
        }
        Some(judge::judge(&measure, &a, &b))
    }

    /// A policy's name in tables: without policy A's, where it only changes that one.
    pub fn label(&self, policy: usize) -> &str {
        self.plan.label(policy)
    }

    /// The scaling picture, with four panels for each value of the swept parameter.
    pub fn picture(&self) -> Picture {
        scaling::picture(self, 0..self.plan.points.len())
    }

    /// The scaling picture of one value of the swept parameter.
    pub fn picture_of(&self, point: usize) -> Picture {
        scaling::picture(self, point..point + 1)
    }
}

impl Document for SimReport {
    fn reports(&self) -> std::borrow::Cow<'_, [freehold_measure::report::Report]> {
        std::borrow::Cow::Borrowed(&[])
    }

    fn text(&self, style: Style) -> String {
        text::text(self, style)
    }
}

impl Serialize for SimReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document(serializer, Detail::Measures)
    }
}

/// How much of each run the JSON has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// The measures.
    Measures,
    /// What a kernel would count, too.
    Counters,
}

impl SimReport {
    fn document<S: Serializer>(&self, serializer: S, detail: Detail) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("SimReport", 3)?;
        document.serialize_field("recipe", &self.recipe)?;
        document.serialize_field("plan", &self.plan)?;
        let rows: Vec<Row<'_>> = self.cells.iter().map(|cell| Row { report: self, cell, detail }).collect();
        document.serialize_field("results", &rows)?;
        document.end()
    }
}

/// One cell as JSON.
struct Row<'r> {
    report: &'r SimReport,
    cell: &'r Cell,
    detail: Detail,
}

/// One measure of a cell as JSON.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    spread: Spread,
    change: Option<f64>,
    verdict: Option<freehold_measure::verdict::Verdict>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Cell { point, cpus, policy, .. } = *self.cell;
        let plan = &self.report.plan;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("swept_value", &plan.points[point].value)?;
        row.serialize_entry("cpus", &cpus)?;
        row.serialize_entry("policy", &plan.policies[policy].name)?;
        let pressure = match plan.points[point].workload.pace() {
            WorkPace::Set => measures::PRESSURE,
            WorkPace::Free => &[],
        };
        for measure in measures::ALL.iter().chain(measures::TIMES).chain(pressure) {
            let judged = self.report.judged(measure, point, cpus, policy).filter(|_| policy > 0);
            let entry = Entry {
                spread: Spread::of(measure, &self.cell.outcomes),
                change: judged.and_then(|judged| judged.change),
                verdict: judged.map(|judged| judged.verdict),
            };
            row.serialize_entry(measure.name, &entry)?;
        }
        if self.detail == Detail::Counters {
            let by_seed: Vec<_> = self.cell.outcomes.iter().map(|run| &run.vmstat).collect();
            row.serialize_entry("vmstat_by_seed", &by_seed)?;
        }
        row.end()
    }
}
