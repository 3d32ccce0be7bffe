//! Page about the high-atomic reserve: `docs/findings/highatomic.md`.
//!
//! All [`studies`] are simulated first. Then [`tables`] makes the page's tables from their fleets. One of them is a map
//! of the parameters for which the reserve matters, which is also drawn ([`region`]). The numbers of the proposal are
//! in [`published`].

mod fleets;
mod published;
mod region;
mod studies;
mod tables;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::Plan;
use studies::{Adjustment, Reports};

use crate::picture::Picture;
use crate::{Args, Page, command, regions};

/// Page with the tables that it had when this program was built.
const PAGE: &str = include_str!("../../../../docs/findings/highatomic.md");
/// Name of the page.
pub(crate) const NAME: &str = "highatomic";
/// Picture of the page.
pub(crate) const PICTURE: Picture =
    Picture { title: "Huge pages with the high-atomic reserve and without it", plots: region::plots };

/// Files of the document, and the results that were saved in case of an interruption.
#[derive(Debug)]
pub(crate) struct Document {
    pages: Vec<Page>,
    reports: Reports,
}

impl Document {
    /// Simulates the fleets of the document, and makes its tables. A quick run simulates one host per fleet for a short
    /// time.
    ///
    /// # Errors
    /// Returns an error if the plan cannot be simulated.
    pub(crate) fn simulate(costs: &Costs, args: &Args) -> Result<Document, Error> {
        let adjusted = Adjustment {
            hosts: args.quick.then_some(1),
            plan: |plan: Plan| if args.quick { plan.shortened() } else { plan },
        };
        let reports = Reports::simulate(costs, command(NAME, args), &adjusted)?;
        let mut pages = regions::fill(NAME, PAGE, |region| tables::make(&region.name, &reports));
        pages.push(PICTURE.draw(NAME, PAGE, |region| tables::make(&region.name, &reports)));
        Ok(Document { pages, reports })
    }

    /// Returns the page, the data of its tables, and its picture.
    pub(crate) fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Removes the results that were saved in case of an interruption. The document must have been written.
    pub(crate) fn conclude(self) {
        self.reports.conclude();
    }
}
