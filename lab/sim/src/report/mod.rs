//! Reports of simulations: the one model of a report for people, JSON for programs.
//!
//! [`measures`] names what is measured, [`judge`] says what a difference means, [`verdict`] puts it into sentences,
//! [`tables`] into tables, [`scaling`] into plots, and [`vmstat`] tells what a kernel would count. This file holds the
//! value behind all of them.

pub mod judge;
pub mod measures;
pub mod recipe;
mod scaling;
mod tables;
pub mod verdict;
pub mod vmstat;

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number;
use freehold_report::report::plot::Plot;
use freehold_report::report::{self, Caveats, Group, Report};
use freehold_stats::verdict::Direction;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

use super::costs::Costs;
use super::plan::Plan;
use super::run::RunError;
use super::sweep::{self, Cell};
use super::workload::WorkPace;
use judge::Judged;
pub use measures::{Measure, Spread};
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
    /// What a person at a terminal sees of it.
    detail: report::Detail,
}

impl SimReport {
    /// Simulates all runs of a plan.
    ///
    /// # Errors
    /// When a run breaks down.
    pub fn simulate(plan: Plan, costs: &Costs) -> Result<SimReport, RunError> {
        let cells = sweep::sweep(&plan, costs)?;
        let recipe = Recipe::new(costs, &plan.policies);
        Ok(SimReport { recipe, plan, cells, detail: report::Detail::Tables })
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
        Some(judge::judge(&Measure { direction: self.direction(measure), ..*measure }, &a, &b))
    }

    /// A policy's name in tables: without policy A's, where it only changes that one.
    pub fn label(&self, policy: usize) -> &str {
        self.plan.label(policy)
    }

    /// What decides how much is done: the same at each point.
    pub fn pace(&self) -> WorkPace {
        self.plan.points.first().map_or(WorkPace::Free, |point| point.workload.pace())
    }

    /// The swept parameter at this point, as it would be set.
    pub fn swept_at(&self, point: usize) -> Option<String> {
        let (key, value) = self.plan.swept.as_ref().zip(self.plan.points[point].value.as_ref())?;
        Some(format!("{} = {value}", key.rsplit('.').next().unwrap_or(key)))
    }

    /// The plots of one value of the swept parameter.
    pub fn plots(&self, point: usize) -> Vec<Plot> {
        scaling::plots(self, point).collect()
    }

    /// The same with so much to be seen at a terminal.
    #[must_use]
    pub fn with_detail(self, detail: report::Detail) -> SimReport {
        SimReport { detail, ..self }
    }

    /// Which way of a measure is good here. A set demand is met with fewer operations where pages are huge: that is
    /// neither good nor bad.
    pub fn direction(&self, measure: &Measure) -> Direction {
        let is_set = measure.name == measures::THROUGHPUT.name && self.pace() == WorkPace::Set;
        if is_set { Direction::Neutral } else { measure.direction }
    }

    /// Whether memory was to fill, and never did.
    fn is_calm(&self) -> bool {
        let mut runs = self.cells.iter().flat_map(|cell| &cell.outcomes);
        self.pace() == WorkPace::Set && runs.all(|run| !run.vmstat.is_under_pressure())
    }

    /// What was asked, in lines.
    fn subject(&self) -> Vec<String> {
        let plan = &self.plan;
        let cpus = plan.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let unit = if plan.cpus == [1] { "CPU" } else { "CPUs" };
        let values: Vec<&str> = plan.points.iter().filter_map(|point| point.value.as_deref()).collect();
        let swept = plan.swept.as_ref().map_or(String::new(), |key| format!("; {key} = {}", values.join(", ")));
        let seeds = format!("{} {}", plan.seeds, number::unit(plan.seeds.into(), "seeds"));
        vec![format!("{}: {}", plan.name, plan.title), format!("{cpus} {unit}{swept}; {seeds}")]
    }
}

impl Document for SimReport {
    /// A verdict on each policy B; what was asked stands in the first report, and the tables of all in the last.
    fn reports(&self) -> Cow<'_, [Report]> {
        let plan = &self.plan;
        let on = |policy| (verdict::sentences(self, policy), verdict::groups(self, policy));
        let shared = Report {
            subject: self.subject(),
            verdict: verdict::belief(self),
            tables: tables::tables(self),
            plots: (0..plan.points.len()).flat_map(|point| self.plots(point)).collect(),
            recipe: self.recipe.rows(),
            detail: self.detail,
            ..Report::default()
        };
        Cow::Owned(assembled(plan, on, shared))
    }
}

/// A report on each policy B, by what is said `on` it, of what they share: what was asked goes to the first of them,
/// all else to the last. Without a B one report has it all.
pub fn assembled(plan: &Plan, on: impl Fn(usize) -> (Vec<String>, Vec<Group>), shared: Report) -> Vec<Report> {
    let detail = shared.detail;
    let of = |policy: usize| {
        let sides = [0, policy].map(|policy| plan.policies[policy].name.clone());
        let (verdict, groups) = on(policy);
        let subject = vec![format!("A: {}; B: {}", sides[0], sides[1])];
        Report { sides, subject, verdict, groups, detail, ..Report::default() }
    };
    let alone = || Report { sides: [plan.policies[0].name.clone(), String::new()], ..Report::default() };
    let mut reports: Vec<Report> = (1..plan.policies.len()).map(of).collect();
    let Report { sides, subject, mut verdict, groups, .. } = reports.pop().unwrap_or_else(alone);
    verdict.extend(shared.verdict);
    let mut sentences = vec![plan.shows.trim().to_owned()];
    sentences.extend(plan.points.iter().filter_map(|point| point.workload.left_out()));
    sentences.dedup();
    let caveats = vec![Caveats { title: "About the plan".into(), sentences }];
    let asked = shared.subject;
    reports.push(Report { sides, subject, verdict, groups, caveats, reading: plan.reading(), ..shared });
    reports[0].subject.splice(0..0, asked);
    reports
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
    verdict: Option<freehold_stats::verdict::Verdict>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Cell { point, cpus, policy, .. } = *self.cell;
        let plan = &self.report.plan;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("swept_value", &plan.points[point].value)?;
        row.serialize_entry("cpus", &cpus)?;
        row.serialize_entry("policy", &plan.policies[policy].name)?;
        for measure in measures::groups(self.report.pace()).flat_map(|(_, measures)| measures) {
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

#[cfg(test)]
mod tests {
    use freehold_report::report::terminal;
    use freehold_report::terminal::Style;

    use super::*;
    use crate::plan::Changes;

    const PLAN: &str = "title = 'Two CPUs'\nshows = 'That it runs.'\ncpus = [1, 2]\nseeds = 1\nduration_ms = 1\n\
                        b = ['freehold', 'linux-6.12,pcp=owned-remote']\n[machine]\nmemory = '64 MiB'\n[workload]\n\
                        kind = 'pingpong'\n[sweep]\nkey = 'workload.order'\nvalues = [0, 3]\n";

    fn report() -> SimReport {
        let plan = Plan::parse("two.toml", PLAN, &Changes::default()).unwrap();
        SimReport::simulate(plan, &Costs::reference()).unwrap()
    }

    #[test]
    fn tables_are_tables_at_80_columns_and_fit_at_any_width() {
        let report = report();
        for width in [40, 80, 200] {
            let text: String =
                report.reports().iter().map(|report| terminal::text(report, Style::of_width(width))).collect();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{width}:\n{text}");
            let heads = ["M op/s", "held, ns", "free blocks", "mixed"];
            let is_table = |head: &&str| text.lines().any(|line| line.contains("CPUs  policy") && line.contains(*head));
            assert_eq!(
                heads.iter().copied().filter(is_table).count(),
                if width < 80 { 0 } else { 4 },
                "{width}:\n{text}"
            );
        }
    }

    #[test]
    fn each_policy_has_a_verdict_and_all_share_the_tables() {
        let report = report();
        let reports = report.reports();
        assert_eq!(reports.len(), 2);
        assert!(reports[0].tables.is_empty() && reports[1].tables.len() == 4);
        assert!(reports.iter().all(|report| report.verdict[0].contains("throughput is") && !report.groups.is_empty()));
        assert_eq!(reports[1].plots.len(), 2 * 6);
        assert!(reports[1].plots.iter().any(|plot| plot.of == "order = 3" && plot.title.contains("99 %")));
    }
}
