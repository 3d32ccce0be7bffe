//! Decisions about compaction, request by request, summed over recordings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use freehold_replay::report::compaction::CompactionDecisions;

/// Requests of some recordings, counted by the first decision in which engine and kernel differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decisions {
    /// Requests that neither side compacts or reclaims for, with the same result.
    at_once: u64,
    /// Requests with the same decisions on both sides.
    same: u64,
    /// Numbers of requests by the kernel's and the engine's decision.
    differences: BTreeMap<[String; 2], u64>,
}

impl Decisions {
    /// Adds the requests of a recording.
    pub(crate) fn push(&mut self, compared: &CompactionDecisions) {
        self.at_once += compared.at_once;
        self.same += compared.same;
        for difference in &compared.differences {
            let steps = [difference.recorded, difference.replayed].map(|step| step.label());
            self.count(steps, difference.requests);
        }
    }

    /// Adds the requests of other recordings.
    pub(crate) fn add(&mut self, other: &Decisions) {
        self.at_once += other.at_once;
        self.same += other.same;
        for (steps, requests) in &other.differences {
            self.count(steps.clone(), *requests);
        }
    }

    fn count(&mut self, steps: [String; 2], requests: u64) {
        *self.differences.entry(steps).or_default() += requests;
    }

    /// Returns rows of the kernel's decision, the engine's decision and the number of requests, the most frequent
    /// differences first. Requests with the same decisions come before them.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let alike = [("neither compacts nor reclaims", self.at_once), ("compacts or reclaims", self.same)]
            .map(|(step, requests)| vec![step.to_owned(), "the same".to_owned(), requests.to_string()]);
        let mut sorted: Vec<_> = self.differences.iter().collect();
        sorted.sort_by_key(|&(_, requests)| Reverse(requests));
        let differences = sorted
            .into_iter()
            .map(|([kernel, engine], requests)| vec![kernel.clone(), engine.clone(), requests.to_string()]);
        alike.into_iter().chain(differences).collect()
    }
}

#[cfg(test)]
mod tests {
    use freehold_replay::report::compaction::{CompactionStep, FirstDifference};

    use super::*;

    #[test]
    fn differences_of_recordings_are_summed() {
        let differences = [(CompactionStep::Reclaim, 2), (CompactionStep::Served, 3)]
            .map(|(recorded, requests)| FirstDifference { recorded, replayed: CompactionStep::Refused, requests })
            .to_vec();
        let compared = CompactionDecisions { requests: 9, at_once: 3, same: 1, differences, examples: Vec::new() };
        let mut one = Decisions::default();
        one.push(&compared);
        let mut all = one.clone();
        all.add(&one);
        let rows: Vec<String> = all.rows().iter().map(|row| row.join(", ")).collect();
        let expected = [
            "neither compacts nor reclaims, the same, 6",
            "compacts or reclaims, the same, 2",
            "is served, fails, 6",
            "reclaims, fails, 4",
        ];
        assert_eq!(rows, expected);
    }
}
