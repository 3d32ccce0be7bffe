//! Advice on one setting: the value to recommend or to test, or the reason to leave it.

use serde::Serialize;

use super::candidates::Candidate;
use super::concerns::CONCERNS;
use super::judge::{self, CandidateVerdict, Finding, Level};
use super::sentences;
use super::track::Predictions;

/// Advice on one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SettingAdvice {
    /// Its name.
    pub(crate) name: &'static str,
    /// As it is set; nothing if the recording does not say.
    pub(crate) now: Option<String>,
    /// How far advice goes.
    pub(crate) level: Level,
    /// The value to set it to; `None` where it is to be left.
    pub(crate) proposed: Option<String>,
    /// Why it is to be left.
    pub(crate) reason: Option<String>,
    /// How often predictions about it came true in the suite; nothing if there was none.
    pub(crate) track_record: Option<Predictions>,
    /// How to set it so.
    pub(crate) apply: Option<String>,
    /// How to set it back.
    pub(crate) undo: Option<String>,
    /// Command to run before and after the change.
    pub(crate) measure: Option<&'static str>,
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
            Some(_) if candidates.is_empty() => "not tried (--all tries it)".to_owned(),
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

    /// Returns the rank: by level, by concern, and by the size of the gain.
    pub(crate) fn rank(&self) -> (Level, usize, f64) {
        let gain = self.best.and_then(|best| self.candidates[best].verdict.gain());
        let (concern, size) = gain.map_or((CONCERNS.len(), 0.0), |(concern, size)| (concern, -size));
        (self.level, concern, size)
    }
}

impl TriedValue {
    /// A candidate and its verdict.
    pub(crate) fn new(candidate: &Candidate, verdict: &CandidateVerdict) -> TriedValue {
        TriedValue { value: candidate.setting.value().to_owned(), why: candidate.why, verdict: verdict.clone() }
    }
}
