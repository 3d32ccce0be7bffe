//! Advice on one setting: the value to recommend or to test, or the reason to leave the setting.

use serde::Serialize;

use super::candidates::Candidate;
use super::concerns::CONCERNS;
use super::judge::{self, CandidateVerdict, Finding, Level};
use super::sentences;
use super::track::Predictions;

/// Advice on one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SettingAdvice {
    /// Name of the setting.
    pub(crate) name: &'static str,
    /// Recorded value; `None` if the recording lacks the setting.
    pub(crate) now: Option<String>,
    /// Level of the advice.
    pub(crate) level: Level,
    /// Proposed value; `None` if the setting should stay as it is.
    pub(crate) proposed: Option<String>,
    /// Reason to leave the setting as it is; `None` if a value is proposed.
    pub(crate) reason: Option<String>,
    /// Earlier predictions about the setting in the suite; `None` if there were none.
    pub(crate) track_record: Option<Predictions>,
    /// Command that sets the proposed value; `None` without one.
    pub(crate) apply: Option<String>,
    /// Command that restores the recorded value; `None` if no value is proposed.
    pub(crate) undo: Option<String>,
    /// Command that shows the measure, to run before and after the change; `None` if no value is proposed.
    pub(crate) measure: Option<&'static str>,
    /// Values that were tried.
    pub(crate) candidates: Vec<TriedValue>,
    /// Index of the proposed value in `candidates`; `None` if there is none.
    #[serde(skip)]
    pub(crate) best: Option<usize>,
}

/// A value that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TriedValue {
    /// The value.
    pub(crate) value: String,
    /// Purpose of the value.
    pub(crate) why: &'static str,
    /// Verdict on the value.
    #[serde(flatten)]
    pub(crate) verdict: CandidateVerdict,
}

impl SettingAdvice {
    /// Builds the advice from the verdicts on all tried values.
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
            Some(_) if candidates.is_empty() => "not tried by default (--all tries it)".to_owned(),
            Some(_) => sentences::reason(&findings),
        };
        let proposed = best.map(|at| candidates[at].value.clone());
        let gained = best.and_then(|at| candidates[at].verdict.gained());
        SettingAdvice {
            level: best.map_or(Level::Leave, |at| candidates[at].verdict.level),
            measure: gained.and_then(sentences::concern).map(|concern| concern.command),
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

    /// Returns the rank, which is smaller for better settings: by level, by concern, and by the size of the gain.
    pub(crate) fn rank(&self) -> (Level, usize, f64) {
        let gain = self.best.and_then(|best| self.candidates[best].verdict.gain());
        let (concern, size) = gain.map_or((CONCERNS.len(), 0.0), |(concern, size)| (concern, -size));
        (self.level, concern, size)
    }
}

impl TriedValue {
    /// Combines a candidate with its verdict.
    pub(crate) fn new(candidate: &Candidate, verdict: &CandidateVerdict) -> TriedValue {
        TriedValue { value: candidate.setting.value().to_owned(), why: candidate.why, verdict: verdict.clone() }
    }
}
