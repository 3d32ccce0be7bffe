//! The document for which the plans were made: `docs/findings/owned-pageblocks.md`, with its pictures.
//!
//! All [studies] are simulated first. Then each comment on the page such as `<!-- table: contention purge 100 -->`
//! selects a table that is made from the reports, or a picture.

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

use crate::{Args, Page, command, regions};

/// Page with the tables that it had when this program was built.
const PAGE: &str = include_str!("../../../../docs/findings/owned-pageblocks.md");
/// Name of the page.
pub(crate) const NAME: &str = "owned-pageblocks";

/// Simulates all runs of the document, and makes its tables and pictures.
///
/// # Errors
/// Returns an error if a plan cannot be simulated.
pub(crate) fn pages(costs: &Costs, args: &Args) -> Result<Vec<Page>, Error> {
    let reports =
        Reports::simulate(costs, command(NAME, args), |plan| if args.quick { plan.shortened() } else { plan })?;
    let mut pages = regions::fill(NAME, PAGE, |region| tables::make(region, &reports));
    pages.extend(regions::plots(PAGE).iter().filter_map(|words| tables::picture(words, &reports)));
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
