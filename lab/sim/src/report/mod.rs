//! Reports of simulations: the common model of a report for terminals and pages, and JSON for programs.
//!
//! [`measures`] defines the measures, [`judge`] compares policies, [`verdict`] produces sentences, [`tables`] tables,
//! [`scaling`] plots, and [`vmstat`] the counters of a kernel. [`SimReport`] holds the results behind all of them.

mod json;
pub mod judge;
pub mod measures;
mod model;
pub mod recipe;
mod scaling;
mod tables;
pub mod verdict;
pub mod vmstat;

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::plot::Plot;
use freehold_report::report::{Caveats, Detail, Group, Report, describe_side};

use super::plan::Plan;

pub use measures::{Measure, Spread};
pub use model::SimReport;

impl SimReport {
    /// Returns the plots of one value of the swept parameter.
    pub fn plots(&self, point: usize) -> Vec<Plot> {
        scaling::plots(self, point).collect()
    }
}

impl Document for SimReport {
    /// Returns one verdict for each policy B. The first report names the question, and the last one has the tables of
    /// all.
    fn reports(&self) -> Cow<'_, [Report]> {
        let plan = &self.plan;
        let verdicts = (1..plan.policies.len()).map(|policy| {
            let groups = verdict::groups(self, policy);
            PolicyVerdict { sentences: verdict::sentences(self, policy, &groups), groups }
        });
        let shared = Report {
            subject: self.subject(),
            verdict: verdict::cautions(self),
            reading: verdict::basis(self),
            tables: tables::tables(self),
            plots: (0..plan.points.len()).flat_map(|point| self.plots(point)).collect(),
            recipe: self.recipe.rows(),
            detail: self.detail,
            ..Report::default()
        };
        Cow::Owned(assemble_reports(plan, verdicts.collect(), shared))
    }
}

/// Conclusions about one policy B: sentences, and measures by subject.
pub(crate) struct PolicyVerdict {
    /// Sentences, the headline first.
    pub(crate) sentences: Vec<String>,
    /// Measures by subject.
    pub(crate) groups: Vec<Group>,
}

/// Options to try next.
const NEXT: &str = "Plots: --html FILE.";

/// Assembles a report for each policy B from its conclusions and from the parts that all of them share. The first
/// report gets the question, and the last one everything else. Without a policy B, one report has all tables.
pub(crate) fn assemble_reports(plan: &Plan, verdicts: Vec<PolicyVerdict>, shared: Report) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::with_capacity(verdicts.len().max(1));
    for (policy, verdict) in (1..).zip(verdicts) {
        let sides = [0, policy].map(|side: usize| plan.policies[side].name.clone());
        let subject = ["A", "B"].into_iter().zip(&sides);
        let subject =
            subject.map(|(side, name)| describe_side(side, name, freehold_policies::describe(name))).collect();
        let PolicyVerdict { sentences, groups } = verdict;
        reports.push(Report { sides, subject, verdict: sentences, groups, detail: shared.detail, ..Report::default() });
    }
    let last = reports.pop().unwrap_or_else(|| Report {
        sides: [plan.policies[0].name.clone(), String::new()],
        detail: if shared.detail == Detail::All { Detail::All } else { Detail::Tables },
        ..Report::default()
    });
    let Report { sides, subject, mut verdict, groups, detail, .. } = last;
    verdict.extend(shared.verdict);
    let mut sentences = vec![plan.shows.trim().to_owned()];
    sentences.extend(plan.points.iter().filter_map(|point| point.workload.left_out()));
    sentences.dedup();
    let caveats = vec![Caveats { title: "About the plan".into(), sentences }];
    let question = shared.subject;
    let reading = [shared.reading, plan.reading()].concat();
    let next = vec![NEXT.to_owned()];
    reports.push(Report { sides, subject, verdict, groups, caveats, reading, next, detail, ..shared });
    reports[0].subject.splice(0..0, question);
    reports
}

#[cfg(test)]
mod tests {
    use freehold_report::report::terminal;
    use freehold_report::terminal::Style;

    use super::*;
    use crate::costs::Costs;
    use crate::plan::Changes;

    const PLAN: &str = "title = 'Two CPUs'\nshows = 'That it runs.'\ncpus = [1, 2]\nseeds = 1\nduration_ms = 1\n\
                        b = ['freehold', 'linux-6.12,pcp=owned-remote']\n[machine]\nmemory = '64 MiB'\n[workload]\n\
                        kind = 'pingpong'\n[sweep]\nkey = 'workload.order'\nvalues = [0, 3]\n";

    fn report() -> SimReport {
        let plan = Plan::parse("two.toml", PLAN, &Changes::default()).unwrap();
        SimReport::simulate(plan, &Costs::reference()).unwrap()
    }

    #[test]
    fn report_fits_any_width_and_has_tables_from_80_columns() {
        let report = report().with_detail(Detail::Tables);
        for width in [40, 80, 200] {
            let text: String =
                report.reports().iter().map(|report| terminal::text(report, Style::with_width(width))).collect();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{width}:\n{text}");
            let table_heads: Vec<&str> = text.lines().filter(|line| line.contains("CPUs  policy")).collect();
            let columns = ["M op/s", "held, ns", "free blocks", "mixed"];
            assert_eq!(
                columns.iter().filter(|column| table_heads.iter().any(|head| head.contains(**column))).count(),
                if width < 80 { 0 } else { 4 },
                "{width}:\n{text}"
            );
        }
    }

    #[test]
    fn each_policy_has_a_verdict_and_tables_are_shared() {
        let report = report();
        let reports = report.reports();
        assert_eq!(reports.len(), 2);
        assert!(reports[0].tables.is_empty() && reports[1].tables.len() == 4);
        assert!(reports.iter().all(|report| report.verdict[0].starts_with("better ") && !report.groups.is_empty()));
        assert_eq!(reports[1].plots.len(), 2 * 6);
        assert!(reports[1].plots.iter().any(|plot| plot.of == "order = 3" && plot.title.contains("p99 latency")));
    }
}
