//! The document for which the plans were made: `docs/findings/owned-pageblocks.md`, with its pictures.
//!
//! What people wrote stands in a template beside this file, and holds no numbers. A line of it that is a comment, such
//! as `<!-- contention: purge 100 -->`, names a part that is made from runs: a table, a picture, or sentences that say
//! who leads by how much. All [studies] are simulated first; then the template is filled in, and every file
//! written whole.

mod across;
mod aged;
mod paces;
mod parts;
mod reconcile;
mod sentences;
mod studies;
mod system_time;

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::Plan;
use studies::Reports;

use crate::{Args, Page, command, template};

/// The document without its numbers.
const TEMPLATE: &str = include_str!("owned-pageblocks.md");
/// The document's name.
pub const NAME: &str = "owned-pageblocks";

/// Simulates everything that the document stands on, and writes it: the page itself, then its pictures.
///
/// # Errors
/// When a plan cannot be simulated.
pub fn pages(costs: &Costs, args: &Args) -> Result<Vec<Page>, Error> {
    let changed = |plan: Plan| if args.quick { plan.shortened() } else { plan };
    let reports = Reports::simulate(costs, command(NAME, args), changed)?;
    let mut pictures = Vec::new();
    let text = template::fill(TEMPLATE, |part| {
        let (text, picture) = parts::make(part, &reports)?;
        pictures.extend(picture);
        Some(text)
    });
    let mut pages = vec![Page { name: format!("{NAME}.md"), text }];
    pages.append(&mut pictures);
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_asks_for_nothing_that_is_not_made() {
        for part in template::parts(TEMPLATE) {
            assert!(parts::is_known(&part), "{part:?}");
        }
    }

    #[test]
    fn the_template_types_no_numbers() {
        let prose = TEMPLATE.lines().filter(|line| !line.starts_with("<!--"));
        for line in prose {
            let is_number = |word: &str| word.chars().any(|c| c.is_ascii_digit()) && !EXCEPTIONS.contains(&word);
            let words = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '.' | '_')));
            let number = words.map(|word| word.trim_matches('.')).find(|word| is_number(word));
            assert_eq!(number, None, "{line}");
        }
    }

    /// Words with digits that no simulation could change: names, what the proposal claims, and what a plan fixes.
    const EXCEPTIONS: [&str; 10] = ["linux-6.12", "3-4", "1", "32", "512", "9", "6.12", "2026-04-03", "1000", "99"];
}
