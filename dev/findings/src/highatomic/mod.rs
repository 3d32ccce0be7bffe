//! The document about the high-atomic reserve: `docs/findings/highatomic.md`.
//!
//! What people wrote stands in a template beside this file, and holds no numbers of ours. Its comments name parts that
//! are made from fleets: tables ([`parts`]), and sentences ([`sentences`]) whose words hang on what came out. First
//! comes the answer to all of it ([`answer`]), then where the reserve matters ([`region`]). The numbers of the proposal
//! stand in [`published`]. All [`studies`] are simulated first; then the template is filled in and written whole.

mod answer;
mod parts;
mod published;
mod region;
mod sentences;
mod studies;
#[cfg(test)]
mod tests;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::Plan;
use studies::{Adjusted, Reports};

use crate::{Args, Page, command, template};

/// The document without its numbers.
const TEMPLATE: &str = include_str!("highatomic.md");
/// The document's name.
pub const NAME: &str = "highatomic";

/// A document that is whole, and what was kept while it was not.
#[derive(Debug)]
pub struct Document {
    text: String,
    reports: Reports,
}

impl Document {
    /// Simulates what the document stands on, and writes it; in a quick run on one host a fleet, for a short time.
    ///
    /// # Errors
    /// When the plan cannot be simulated.
    pub fn simulate(costs: &Costs, args: &Args) -> Result<Document, Error> {
        let plan = |plan: Plan| if args.quick { plan.shortened() } else { plan };
        let adjusted = Adjusted { hosts: args.quick.then_some(1), plan };
        let reports = Reports::simulate(costs, command(NAME, args), &adjusted)?;
        let text = template::fill(TEMPLATE, |part| parts::make(&part.name, &reports));
        Ok(Document { text, reports })
    }

    /// The document as a page.
    pub fn page(&self) -> Page {
        Page { name: format!("{NAME}.md"), text: self.text.clone() }
    }

    /// Forgets what was kept for the case of an interruption: the document is where it belongs.
    pub fn conclude(self) {
        self.reports.conclude();
    }
}
