//! Page about owned pageblocks: `docs/findings/owned-pageblocks.md`.
//!
//! All [studies] are simulated first. Then each table that the page names, such as `contention purge 100`, is made from
//! the reports.

mod across;
mod aged;
mod costs;
mod judged;
mod paces;
mod reconcile;
mod studies;
mod system_time;
mod tables;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use studies::Reports;

use crate::picture::Picture;
use crate::{Args, Page, command, regions};

/// Page with the tables that it had when this program was built.
const PAGE: &str = include_str!("../../../../docs/findings/owned-pageblocks.md");
/// Name of the page.
pub(crate) const NAME: &str = "owned-pageblocks";

/// Picture of the page.
pub(crate) const PICTURE: Picture =
    Picture { title: "One of every eight CPUs frees in bursts what the others allocate", plots: tables::plots };

/// Simulates all runs of the page, and makes its tables and its picture.
///
/// # Errors
/// Returns an error if a plan cannot be simulated.
pub(crate) fn pages(costs: &Costs, args: &Args) -> Result<Vec<Page>, Error> {
    let reports =
        Reports::simulate(costs, command(NAME, args), |plan| if args.quick { plan.shortened() } else { plan })?;
    let mut pages = regions::fill(NAME, PAGE, |region| tables::make(region, &reports));
    pages.push(PICTURE.draw(NAME, PAGE, |region| tables::make(region, &reports)));
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_page_is_known() {
        for region in regions::tests::tables(PAGE) {
            assert!(tables::is_known(&region), "{region:?}");
        }
    }
}
