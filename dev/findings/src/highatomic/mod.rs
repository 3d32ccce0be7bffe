//! The document about the high-atomic reserve: `docs/findings/highatomic.md`.
//!
//! The page's tables are made from fleets ([`tables`]), among them a map of the region in which the reserve matters
//! ([`region`]). The numbers of the proposal stand in [`published`]. All [`studies`] are simulated first.

mod fleets;
mod published;
mod region;
mod studies;
mod tables;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::Plan;
use studies::{Adjustment, Reports};

use crate::{Args, Page, command, regions};

/// The page, with the tables that it had when this program was built.
const PAGE: &str = include_str!("../../../../docs/findings/highatomic.md");
/// The page's name.
pub(crate) const NAME: &str = "highatomic";

/// The files of the document, and what was kept while they were not whole.
#[derive(Debug)]
pub(crate) struct Document {
    pages: Vec<Page>,
    reports: Reports,
}

impl Document {
    /// Simulates what the document stands on, and makes its tables; in a quick run on one host a fleet, for a short time.
    ///
    /// # Errors
    /// When the plan cannot be simulated.
    pub(crate) fn simulate(costs: &Costs, args: &Args) -> Result<Document, Error> {
        let adjusted = Adjustment {
            hosts: args.quick.then_some(1),
            plan: |plan: Plan| if args.quick { plan.shortened() } else { plan },
        };
        let reports = Reports::simulate(costs, command(NAME, args), &adjusted)?;
        let pages = regions::fill(NAME, PAGE, |region| tables::make(&region.name, &reports));
        Ok(Document { pages, reports })
    }

    /// The page, and the data of its tables.
    pub(crate) fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Forgets what was kept for the case of an interruption: the document is where it belongs.
    pub(crate) fn conclude(self) {
        self.reports.conclude();
    }
}
