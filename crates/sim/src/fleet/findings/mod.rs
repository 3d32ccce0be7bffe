//! The document about the high-atomic reserve: `docs/findings/highatomic.md`.
//!
//! What people wrote stands in a template beside this file, and holds no numbers of ours. Its comments name parts that are made from
//! fleets: tables ([`parts`]), and sentences ([`sentences`]) whose words hang on what came out. The numbers of the
//! proposal stand in [`published`]. All [`studies`] are simulated first; then the template is filled in and written whole.

mod parts;
mod published;
mod sentences;
mod studies;
#[cfg(test)]
mod tests;

use studies::{Adjusted, Reports};

use crate::costs::Costs;
use crate::error::Error;
use crate::plan::Plan;
use crate::report::findings::template;

/// The document without its numbers.
const TEMPLATE: &str = include_str!("highatomic.md");
/// The document's name.
pub const NAME: &str = "highatomic.md";

/// A document that is whole, and what was kept while it was not.
#[derive(Debug)]
pub struct Document {
    /// Its text.
    pub text: String,
    reports: Reports,
}

impl Document {
    /// Simulates what the document stands on, and writes it. `changed` may shorten the plan; `hosts` are those of each
    /// fleet, instead of its own number.
    ///
    /// # Errors
    /// When the plan cannot be simulated.
    pub fn simulate(costs: &Costs, hosts: Option<u32>, changed: impl Fn(Plan) -> Plan) -> Result<Document, Error> {
        let reports = Reports::simulate(costs, &Adjusted { hosts, plan: changed })?;
        let text = template::fill(TEMPLATE, |part| parts::make(&part.name, &reports));
        Ok(Document { text, reports })
    }

    /// Forgets what was kept for the case of an interruption: the document is where it belongs.
    pub fn conclude(self) {
        self.reports.conclude();
    }
}
