//! Results of a simulation, and the comparison of its policies.

use freehold_report::number;
use freehold_report::report::Detail;
use freehold_stats::verdict::Direction;

use super::judge::{self, Comparison};
use super::measures::{self, Measure, Spread};
use super::recipe::Recipe;
use crate::costs::Costs;
use crate::plan::Plan;
use crate::run::RunError;
use crate::sweep::{self, Cell};
use crate::workload::WorkPace;

/// Results of all runs of a plan.
#[derive(Debug)]
pub struct SimReport {
    /// Origin of the results.
    pub recipe: Recipe,
    /// Plan that was simulated.
    pub plan: Plan,
    /// Results of each point, number of CPUs and policy.
    pub cells: Vec<Cell>,
    /// Amount of detail at a terminal.
    pub(super) detail: Detail,
}

impl SimReport {
    /// Simulates all runs of a plan.
    ///
    /// # Errors
    /// Returns an error if a run fails.
    pub fn simulate(plan: Plan, costs: &Costs) -> Result<SimReport, RunError> {
        let cells = sweep::sweep(&plan, costs)?;
        let recipe = Recipe::new(costs, &plan.policies);
        Ok(SimReport { recipe, plan, cells, detail: Detail::Tables })
    }

    /// Returns the cell of this point, number of CPUs and policy.
    pub fn cell(&self, point: usize, cpus: u16, policy: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.point == point && cell.cpus == cpus && cell.policy == policy)
    }

    /// Returns a measure over the seeds of a cell.
    pub fn spread(&self, measure: &Measure, point: usize, cpus: u16, policy: usize) -> Option<Spread> {
        self.cell(point, cpus, policy).map(|cell| Spread::over_runs(measure, &cell.outcomes))
    }

    /// Compares a policy with policy A in one measure.
    pub fn judge(&self, measure: &Measure, point: usize, cpus: u16, policy: usize) -> Option<Comparison> {
        let a = self.spread(measure, point, cpus, 0)?;
        let b = self.spread(measure, point, cpus, policy)?;
        Some(judge::judge(&Measure { direction: self.direction(measure), ..*measure }, &a, &b))
    }

    /// Returns a policy's name in tables. The part that it shares with policy A is omitted.
    pub fn label(&self, policy: usize) -> &str {
        self.plan.label(policy)
    }

    /// Returns the pace of the workload, which is the same at each point.
    pub fn pace(&self) -> WorkPace {
        self.plan.points.first().map_or(WorkPace::Free, |point| point.workload.pace())
    }

    /// Returns the setting of the swept parameter at this point, as `key = value`.
    pub fn swept_at(&self, point: usize) -> Option<String> {
        let (key, value) = self.plan.swept.as_ref().zip(self.plan.points[point].value.as_ref())?;
        Some(format!("{} = {value}", key.rsplit('.').next().unwrap_or(key)))
    }

    /// Returns the report with another amount of detail at a terminal.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> SimReport {
        SimReport { detail, ..self }
    }

    /// Returns the better direction of a measure in this report. At a set pace, huge pages reduce the number of
    /// operations for the same demand, so the throughput has no better direction.
    pub fn direction(&self, measure: &Measure) -> Direction {
        let is_set = measure.name == measures::THROUGHPUT.name && self.pace() == WorkPace::Set;
        if is_set { Direction::Neutral } else { measure.direction }
    }

    /// Returns whether the workload has a set pace and memory never came under pressure.
    pub(super) fn is_calm(&self) -> bool {
        let mut runs = self.cells.iter().flat_map(|cell| &cell.outcomes);
        self.pace() == WorkPace::Set && runs.all(|run| !run.vmstat.is_under_pressure())
    }

    /// Returns the description of the simulation, in lines.
    pub(super) fn subject(&self) -> Vec<String> {
        let plan = &self.plan;
        let cpus = plan.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let unit = if plan.cpus == [1] { "CPU" } else { "CPUs" };
        let values: Vec<&str> = plan.points.iter().filter_map(|point| point.value.as_deref()).collect();
        let swept = plan.swept.as_ref().map_or(String::new(), |key| format!("; {key} = {}", values.join(", ")));
        let seeds = format!("{} {}", plan.seeds, number::unit(plan.seeds.into(), "seeds"));
        vec![format!("{}: {}", plan.name, plan.title), format!("{cpus} {unit}{swept}; {seeds}")]
    }
}
