//! Advice on one setting: which of the values that were tried to take, or why to leave it.

use serde::Serialize;

use super::candidates::Candidate;
use super::concerns::CONCERNS;
use super::judge::{self, CandidateVerdict, Finding};
use super::sentences;
use super::track::Predictions;

/// Advice on one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SettingAdvice {
    /// Its name.
    pub(crate) name: &'static str,
    /// As it is set; nothing if the recording does not say.
    pub(crate) now: Option<String>,
    /// What to set it to; nothing where it is to be left.
    pub(crate) proposed: Option<String>,
    /// Why it is to be left.
    pub(crate) reason: Option<String>,
    /// How often predictions about it came true in the suite; nothing if there was none.
    pub(crate) track_record: Option<Predictions>,
    /// How to set it so.
    pub(crate) apply: Option<String>,
    /// How to set it back.
    pub(crate) undo: Option<String>,
    /// What was tried.
    pub(crate) candidates: Vec<TriedValue>,
    /// Which of these is proposed.
    #[serde(skip)]
    pub(crate) best: Option<usize>,
}

/// A value that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TriedValue {
    /// The value.
    pub(crate) value: String,
    /// Why one would want it.
    pub(crate) why: &'static str,
    /// Its verdict.
    #[serde(flatten)]
    pub(crate) verdict: CandidateVerdict,
}

impl SettingAdvice {
    /// The advice, given what came of each value.
    pub(crate) fn new(
        name: &'static str,
        now: Option<String>,
        candidates: Vec<TriedValue>,
        track_record: Option<Predictions>,
    ) -> SettingAdvice {
        let best = judge::best(&candidates.iter().map(|tried| &tried.verdict).collect::<Vec<_>>());
        let findings: Vec<Finding> = candidates.iter().map(|tried| tried.verdict.finding).collect();
        let reason = match now {
            None => "not recorded".to_owned(),
            Some(_) => sentences::reason(&findings),
        };
        let proposed = best.map(|at| candidates[at].value.clone());
        SettingAdvice {
            name,
            reason: best.is_none().then_some(reason),
            track_record,
            apply: proposed.as_ref().map(|value| sentences::command(name, value)),
            undo: now.as_ref().filter(|_| best.is_some()).map(|value| sentences::command(name, value)),
            now,
            proposed,
            candidates,
            best,
        }
    }

    /// What it gains, the more the lower.
    pub(crate) fn rank(&self) -> (usize, f64) {
        let gain = self.best.and_then(|best| self.candidates[best].verdict.gain());
        gain.map_or((CONCERNS.len(), 0.0), |(concern, size)| (concern, -size))
    }
}

impl TriedValue {
    /// A candidate and its verdict.
    pub(crate) fn new(candidate: &Candidate, verdict: &CandidateVerdict) -> TriedValue {
        TriedValue { value: candidate.setting.value().to_owned(), why: candidate.why, verdict: verdict.clone() }
    }
}
