//! Outcome of one replay, which every document in this folder uses.

use serde::{Serialize, Serializer};

use super::course::Course;
use super::fidelity::FidelityRow;
use super::metrics::Metrics;

/// Results of one replay of one recording under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayOutcome {
    /// Name of the policy, as the caller gave it.
    pub policy: String,
    /// The metrics.
    pub metrics: Metrics,
    /// Further replays with settings that should make no difference ([`nudges`](crate::advice::nudges)).
    #[serde(skip)]
    pub nudged: Vec<ReplayOutcome>,
    /// Comparison of the engine with the recorded kernel.
    pub fidelity: Vec<FidelityRow>,
    /// Events that could not be replayed exactly: the kind of event or reason, and the number.
    #[serde(serialize_with = "serialize_unreplayed")]
    pub unreplayed: Vec<(String, u64)>,
    /// Assumptions of the replay, in sentences.
    pub assumptions: Vec<String>,
    /// Course of the replay.
    #[serde(flatten)]
    pub course: Course,
}

impl ReplayOutcome {
    /// Returns this replay and the further ones.
    pub fn replays(&self) -> impl Iterator<Item = &ReplayOutcome> {
        std::iter::once(self).chain(&self.nudged)
    }

    /// Marks the outcome as one under other settings than the recorded ones, with assumptions about them. The fidelity
    /// rows then show differences and no errors, so their bounds are removed. Without assumptions, the outcome is
    /// unchanged.
    #[must_use]
    pub fn with_assumptions(mut self, assumptions: Vec<String>) -> ReplayOutcome {
        if !assumptions.is_empty() {
            self.fidelity.iter_mut().for_each(|row| (row.bound, row.within) = (None, None));
            self.assumptions.splice(0..0, assumptions);
        }
        self
    }

    /// Puts the guesses of the recording's writer before the assumptions.
    #[must_use]
    pub(crate) fn with_guesses(mut self, guesses: &[String]) -> ReplayOutcome {
        self.assumptions.splice(0..0, guesses.iter().cloned());
        self
    }
}

/// Serializes the pairs as objects with named fields, as in the document of a comparison.
fn serialize_unreplayed<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry<'a> {
        what: &'a str,
        events: u64,
    }
    serializer.collect_seq(pairs.iter().map(|(what, events)| Entry { what, events: *events }))
}
