//! Outcome of one replay, which every document in this folder reads.

use serde::{Serialize, Serializer};

use super::course::Course;
use super::fidelity::FidelityRow;
use super::metrics::Metrics;

/// Everything one replay of one recording under one policy found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayOutcome {
    /// The policy's name as it was asked for.
    pub policy: String,
    /// The metrics.
    pub metrics: Metrics,
    /// Further replays that should come to the same, as far as nothing is left to chance
    /// ([`nudges`](crate::advice::nudges)).
    #[serde(skip)]
    pub nudged: Vec<ReplayOutcome>,
    /// The engine against the recorded kernel.
    pub fidelity: Vec<FidelityRow>,
    /// What could not be replayed exactly: the kind of event or reason, and how many.
    #[serde(serialize_with = "serialize_unreplayed")]
    pub unreplayed: Vec<(String, u64)>,
    /// What the replay takes for granted, in sentences.
    pub assumptions: Vec<String>,
    /// When, and who.
    #[serde(flatten)]
    pub course: Course,
}

impl ReplayOutcome {
    /// This replay, and the further ones.
    pub fn replays(&self) -> impl Iterator<Item = &ReplayOutcome> {
        std::iter::once(self).chain(&self.nudged)
    }

    /// What this means under other settings than the recorded ones, about which these sentences say what is taken for
    /// granted: fidelity then shows differences, which are no errors, and so has no bounds. Without sentences, all
    /// stays.
    #[must_use]
    pub fn with_assumptions(mut self, assumptions: Vec<String>) -> ReplayOutcome {
        if !assumptions.is_empty() {
            self.fidelity.iter_mut().for_each(|row| (row.bound, row.within) = (None, None));
            self.assumptions.splice(0..0, assumptions);
        }
        self
    }

    /// The same, of a recording whose writer took this for granted: what was guessed comes first.
    #[must_use]
    pub(crate) fn with_guesses(mut self, guesses: &[String]) -> ReplayOutcome {
        self.assumptions.splice(0..0, guesses.iter().cloned());
        self
    }
}

/// Objects with named fields, as in the document of a comparison, instead of pairs.
fn serialize_unreplayed<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry<'a> {
        what: &'a str,
        events: u64,
    }
    serializer.collect_seq(pairs.iter().map(|(what, events)| Entry { what, events: *events }))
}
