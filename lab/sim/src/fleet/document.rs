//! Reports of fleets for terminals and pages: verdicts, tables and plots.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::Report;
use freehold_report::report::screen::headline;

use super::report::{FleetReport, Listing};
use super::{spread, tables, verdict};
use crate::report::{PolicyVerdict, assemble_reports};

impl Document for FleetReport {
    /// Returns one verdict for each policy B. The first report names the question, and the last one has the tables of
    /// all.
    fn reports(&self) -> Cow<'_, [Report]> {
        let plan = &self.fleet.plan;
        let verdicts = (1..plan.policies.len()).map(|policy| {
            let groups = verdict::groups(self, policy);
            PolicyVerdict { sentences: vec![headline(&groups)], groups }
        });
        let hosts = if self.listing == Listing::Hosts { tables::hosts(self).to_vec() } else { Vec::new() };
        let shared = Report {
            subject: vec![format!("{}: {}", plan.name, plan.title), self.size_text() + "."],
            verdict: verdict::cautions(self),
            reading: verdict::basis(self),
            answers: hosts,
            tables: tables::tables(self),
            plots: spread::plots(self),
            recipe: self.recipe.rows(),
            detail: self.detail,
            ..Report::default()
        };
        Cow::Owned(assemble_reports(plan, verdicts.collect(), shared))
    }
}
