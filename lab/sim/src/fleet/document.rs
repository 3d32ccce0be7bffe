//! Reports of fleets for terminals and pages: verdicts, tables and plots.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::Report;

use super::report::{FleetReport, Listing};
use super::{spread, tables, verdict};
use crate::report::{PolicyVerdict, assemble_reports};

impl Document for FleetReport {
    /// Returns one verdict for each policy B. The first report names the question, and the last one has the tables of
    /// all.
    fn reports(&self) -> Cow<'_, [Report]> {
        let plan = &self.fleet.plan;
        let verdicts = (1..plan.policies.len()).map(|policy| PolicyVerdict {
            sentences: vec![verdict::changes(self, policy)],
            groups: verdict::groups(self, policy),
        });
        let mut tables = tables::tables(self);
        if self.listing == Listing::Hosts {
            tables.extend(tables::hosts(self));
        }
        let shared = Report {
            subject: vec![format!("{}: {}", plan.name, plan.title), self.size_text() + "."],
            verdict: verdict::belief(self),
            tables,
            plots: spread::plots(self),
            recipe: self.recipe.rows(),
            detail: self.detail,
            ..Report::default()
        };
        Cow::Owned(assemble_reports(plan, verdicts.collect(), shared))
    }
}
