//! Advice on one setting: which of the values that were tried to take, or why to leave it.

use serde::Serialize;

use super::candidates::Candidate;
use super::concerns::CONCERNS;
use super::judge::{self, Finding, Judged};
use super::sentences;
use super::track::Predictions;

/// Advice on one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingAdvice {
    /// Its name.
    pub name: &'static str,
    /// As it is set; nothing if the recording does not say.
    pub now: Option<String>,
    /// What to set it to; nothing where it is to be left.
    pub proposed: Option<String>,
    /// Why it is to be left.
    pub reason: Option<String>,
    /// How often predictions about it came true in the suite; nothing if there was none.
    pub track_record: Option<Predictions>,
    /// How to set it so.
    pub apply: Option<String>,
    /// How to set it back.
    pub undo: Option<String>,
    /// What was tried.
    pub candidates: Vec<Tried>,
    /// Which of these is proposed.
    #[serde(skip)]
    pub best: Option<usize>,
}

/// A value that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The value.
    pub value: String,
    /// Why one would want it.
    pub why: &'static str,
    /// Its verdict.
    #[serde(flatten)]
    pub judged: Judged,
}

impl SettingAdvice {
    /// The advice, given what came of each value.
    pub fn of(
        name: &'static str,
        now: Option<String>,
        candidates: Vec<Tried>,
        track_record: Option<Predictions>,
    ) -> SettingAdvice {
        let best = judge::best(&candidates.iter().map(|tried| &tried.judged).collect::<Vec<_>>());
        let findings: Vec<Finding> = candidates.iter().map(|tried| tried.judged.finding).collect();
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
    pub fn rank(&self) -> (usize, f64) {
        let gain = self.best.and_then(|best| self.candidates[best].judged.gain());
        gain.map_or((CONCERNS.len(), 0.0), |(concern, size)| (concern, -size))
    }
}

impl Tried {
    /// A candidate and its verdict.
    pub fn of(candidate: &Candidate, judged: &Judged) -> Tried {
        Tried { value: candidate.setting.value().to_owned(), why: candidate.why, judged: judged.clone() }
    }
}
