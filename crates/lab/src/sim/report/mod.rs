//! Reports of simulations: tables for people, JSON for programs, pictures for documents.
//!
//! [`measures`] names what is measured, [`judge`] says what a difference means, [`text`] lays out tables, [`picture`]
//! draws, and [`findings`] writes the document for which the plans were made. This file holds the value behind all of
//! them.

pub mod findings;
pub mod judge;
pub mod measures;
pub mod picture;
pub mod recipe;
mod scaling;
mod text;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

pub use measures::{Measure, Spread};

use super::costs::Costs;
use super::plan::Plan;
use super::run::RunError;
use super::sweep::{self, Cell};
use crate::output::Report;
use crate::terminal::Style;
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
        Some(judge::judge(measure, &a, &b))
    }

    /// A policy's name in tables: without policy A's, where it only changes that one.
    pub fn label(&self, policy: usize) -> &str {
        let (a, b) = (&self.plan.policies[0].name, &self.plan.policies[policy].name);
        b.strip_prefix(a.as_str()).and_then(|changes| changes.strip_prefix(',')).unwrap_or(b)
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

impl Report for SimReport {
    fn text(&self, style: Style) -> String {
        text::text(self, style)
    }
}

impl Serialize for SimReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("SimReport", 3)?;
        document.serialize_field("recipe", &self.recipe)?;
        document.serialize_field("plan", &self.plan)?;
        let rows: Vec<Row<'_>> = self.cells.iter().map(|cell| Row { report: self, cell }).collect();
        document.serialize_field("results", &rows)?;
        document.end()
    }
}

/// One cell as JSON.
struct Row<'r> {
    report: &'r SimReport,
    cell: &'r Cell,
}

/// One measure of a cell as JSON.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    spread: Spread,
    change: Option<f64>,
    verdict: Option<crate::report::verdict::Verdict>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Cell { point, cpus, policy, .. } = *self.cell;
        let plan = &self.report.plan;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("swept_value", &plan.points[point].value)?;
        row.serialize_entry("cpus", &cpus)?;
        row.serialize_entry("policy", &plan.policies[policy].name)?;
        for measure in measures::ALL.iter().chain(measures::TIMES) {
            let judged = self.report.judged(measure, point, cpus, policy).filter(|_| policy > 0);
            let entry = Entry {
                spread: Spread::of(measure, &self.cell.outcomes),
                change: judged.and_then(|judged| judged.change),
                verdict: judged.map(|judged| judged.verdict),
            };
            row.serialize_entry(measure.name, &entry)?;
        }
        row.end()
    }
}
