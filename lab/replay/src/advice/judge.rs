//! Verdict on a candidate: recommended, worth testing, or to be left.
//!
//! The most important concern with a gain decides. A value is *worth testing* if most recordings show the gain without
//! a [`Doubt`], no recording shows a loss in this or a more important concern, and the value sets little memory apart.
//! If at least three recordings were made at different times and all of them show the gain, it may be within the
//! replays' error.
//! It is *recommended* if three more conditions hold. Three recordings with pressure, made at different times, show the
//! gain, in a measure that their replays reproduce. No recording shows a loss in any concern or in free pageblocks. At
//! least one earlier prediction of that concern for that setting was decided, and all decided ones were right.
//!
//! Losses count whether or not the replay reproduces them. A change that cannot be relied on is no reason to change a
//! setting, but may be a reason against it.
//!
//! # Design
//!
//! Verdicts are those of a comparison. The concerns are ordered by their importance to the operator of a machine, so no
//! setting trades a failed request for a lock. A change counts only if it is larger than the changes from varied
//! watermarks, because a few pages decide the further course where memory is short. The track record of predictions is
//! counted by the oracle in the run that writes docs/fidelity.md, and is compiled in.

use freehold_report::report::Pooled;
use freehold_report::report::pool::CONFIDENCE;
use freehold_stats::verdict::Verdict;
use freehold_trace::facts::Facts;
use serde::{Deserialize, Serialize, Serializer};

use super::candidates::{Candidate, managed_bytes};
use super::concerns::{CONCERNS, Concern, PRICE};
use super::evidence::{Doubt, Trial};
use super::track::TrackRecord;
use crate::report::rows::{self, MetricRows};
use crate::report::verdict::measure;
use crate::settings::Situation;

/// Number of recordings with pressure, made at different times, that a recommendation requires.
pub(crate) const RECORDINGS_MIN: usize = 3;
/// Largest part of the machine's memory that may be set apart.
const MEMORY_MAX: f64 = 0.01;
/// Part of the best value's gain that a milder value needs to be preferred.
const ENOUGH: f64 = 0.75;

/// A concern under the recorded setting and under another value, over all recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Effect {
    /// The measure's fixed name.
    pub(crate) name: &'static str,
    /// The measure's name in sentences.
    #[serde(skip)]
    pub(crate) words: &'static str,
    /// Sum over the recordings under the recorded setting.
    pub(crate) now: f64,
    /// Sum over the recordings under the other value.
    pub(crate) then: f64,
    /// Relative change over all recordings; `None` if the first sum is zero.
    pub(crate) change: Option<f64>,
    /// Confidence interval of the change; `None` with one recording, or if the recordings give no interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// Number of recordings.
    pub(crate) recordings: usize,
    /// Verdict on the change.
    pub(crate) verdict: Verdict,
    /// Largest relative error of the replays in this measure; `None` if it is not known on some recording.
    pub(crate) replay_error: Option<f64>,
    /// Whether the concern gets worse on some recording (see [`Trial::loss`]), whether or not the replay reproduces it.
    pub(crate) is_worse_somewhere: bool,
}

/// Memory that a value sets apart in addition to the recorded value, by the kernel's own rules. Negative numbers mean
/// that the value sets less memory apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ReservedMemory {
    /// Additional bytes up to the high watermarks, which kswapd keeps free.
    pub(crate) kept_free_bytes: i64,
    /// Additional bytes that per-CPU lists may hold.
    pub(crate) on_lists_bytes: i64,
}

/// Level of advice, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// The value should be set.
    #[serde(rename = "recommended")]
    Recommended,
    /// The value should be tried, with a measurement before and after.
    #[serde(rename = "worth testing")]
    WorthTesting,
    /// The setting should stay as it is.
    #[serde(rename = "leave it")]
    Leave,
}

impl Level {
    /// Returns the fixed label.
    pub fn label(self) -> &'static str {
        match self {
            Level::Recommended => "recommended",
            Level::WorthTesting => "worth testing",
            Level::Leave => "leave it",
        }
    }
}

/// Result of trying a candidate. Concerns are given by their index in [`CONCERNS`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finding {
    /// This concern gets better.
    Gain {
        /// The concern.
        #[serde(serialize_with = "serialize_concern")]
        concern: usize,
        /// Median size over the recordings that show it.
        #[serde(skip)]
        size: f64,
    },
    /// A concern gets better, but this more important one gets worse.
    Costs {
        /// The concern.
        #[serde(serialize_with = "serialize_concern")]
        concern: usize,
    },
    /// A gain costs too much memory.
    CostsMemory,
    /// All gains are in doubt.
    Doubtful {
        /// The most advanced doubt.
        #[serde(skip)]
        doubt: Doubt,
    },
    /// The recordings do not agree: some show a gain, but not most of them, or others show a loss in the same concern.
    Disagreement,
    /// No concern gets better.
    Nothing,
}

fn serialize_concern<S: Serializer>(concern: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(CONCERNS[*concern].metric.name())
}

/// Verdict on a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CandidateVerdict {
    /// Level of the advice.
    pub(crate) level: Level,
    /// Result of trying the candidate.
    pub(crate) finding: Finding,
    /// Effects on all concerns, in their order.
    pub(crate) effects: Vec<Effect>,
    /// Effect on free pageblocks, which count as a price.
    #[serde(rename = "free_pageblocks")]
    pub(crate) price: Effect,
    /// Memory that the candidate sets apart.
    pub(crate) memory: ReservedMemory,
}

impl CandidateVerdict {
    /// Judges a candidate by all recordings of this machine. Relative changes up to `margin` count as no change.
    pub(crate) fn new(
        candidate: &Candidate,
        trials: &[Trial<'_>],
        machine: &Facts,
        margin: f64,
        track: &TrackRecord,
    ) -> CandidateVerdict {
        let rows: Vec<MetricRows> = trials
            .iter()
            .map(|Trial { recording, now, then, .. }| rows::judge(recording, now, then, &now.fidelity, margin))
            .collect();
        let effects: Vec<Effect> =
            CONCERNS.iter().map(|concern| Effect::assess(concern, &rows, trials, margin)).collect();
        let price = Effect::assess(&PRICE, &rows, trials, margin);
        let memory = ReservedMemory::compare(candidate, machine);
        let finding = find(trials, margin, memory.share_of(machine));
        let has_loss = effects.iter().chain([&price]).any(|effect| effect.is_worse_somewhere);
        let level = match finding {
            Finding::Gain { concern, .. } => {
                let is_sure = !has_loss && has_enough_recordings(trials, concern, margin);
                let metric = CONCERNS[concern].metric;
                let is_recommended = is_sure && track.is_right(candidate.setting.name(), metric.name());
                if is_recommended { Level::Recommended } else { Level::WorthTesting }
            }
            _ => Level::Leave,
        };
        CandidateVerdict { level, finding, effects, price, memory }
    }

    /// Returns the concern that gets better; `None` if there is none.
    pub(crate) fn gained(&self) -> Option<&Effect> {
        self.gain().map(|(concern, _)| &self.effects[concern])
    }

    /// Returns the effects, including that on free pageblocks, that get worse on some recording, judged or not.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().chain([&self.price]).filter(|effect| effect.is_worse_somewhere)
    }

    /// Returns the index of the concern that gets better and the size of the gain, for ranking; `None` if there is no
    /// gain.
    pub(crate) fn gain(&self) -> Option<(usize, f64)> {
        if let Finding::Gain { concern, size } = self.finding { Some((concern, size)) } else { None }
    }
}

/// Returns the index of the best of several values of a setting, which are sorted from mild to strong. The best value
/// is the mildest one at the highest level whose gain in the most important concern is at least the part [`ENOUGH`] of
/// the largest gain. Returns `None` if every value is to be left.
pub(crate) fn best(values: &[&CandidateVerdict]) -> Option<usize> {
    let level = values.iter().map(|value| value.level).min().filter(|level| *level != Level::Leave)?;
    let gains: Vec<Option<(usize, f64)>> =
        values.iter().map(|value| value.gain().filter(|_| value.level == level)).collect();
    let first = gains.iter().flatten().map(|(concern, _)| *concern).min()?;
    let of_first = gains.iter().map(|gain| gain.filter(|(concern, _)| *concern == first).map(|(_, size)| size));
    let sizes: Vec<Option<f64>> = of_first.collect();
    let most = sizes.iter().flatten().copied().fold(0.0, f64::max);
    sizes.iter().position(|size| size.is_some_and(|size| size >= ENOUGH * most))
}

/// Returns the result of trying a candidate that sets apart this share of the memory.
fn find(trials: &[Trial<'_>], margin: f64, memory: f64) -> Finding {
    let mut doubts: Vec<Doubt> = Vec::new();
    let mut is_disputed = false;
    let mut costs = None;
    for (number, concern) in CONCERNS.iter().enumerate() {
        let gains: Vec<Result<f64, Doubt>> = trials.iter().map(|trial| trial.gain(concern, margin)).collect();
        let sizes: Vec<f64> = gains.iter().filter_map(|gain| gain.ok()).collect();
        let is_worse = trials.iter().any(|trial| trial.loss(concern, margin).is_some());
        is_disputed |= !sizes.is_empty();
        let is_shown_by_most = 2 * sizes.len() > trials.len();
        let size = if is_shown_by_most { Some(middle(sizes)) } else { consistent_gain(trials, concern, margin) };
        if let Some(size) = size.filter(|_| !is_worse) {
            return match costs {
                Some(concern) => Finding::Costs { concern },
                None if memory > MEMORY_MAX => Finding::CostsMemory,
                None => Finding::Gain { concern: number, size },
            };
        }
        doubts.extend(gains.iter().filter_map(|gain| gain.err()));
        costs = costs.or(is_worse.then_some(number));
    }
    match doubts.into_iter().max() {
        _ if is_disputed => Finding::Disagreement,
        Some(doubt) if doubt != Doubt::NoGain => Finding::Doubtful { doubt },
        _ => Finding::Nothing,
    }
}

/// Returns the median gain in a concern, if at least [`RECORDINGS_MIN`] recordings were made at different times and all
/// recordings show the gain. The replays need not reproduce its size, since the value is to be tested only.
fn consistent_gain(trials: &[Trial<'_>], concern: &Concern, margin: f64) -> Option<f64> {
    let sizes: Option<Vec<f64>> = trials.iter().map(|trial| trial.apparent_gain(concern, margin).ok()).collect();
    sizes.filter(|_| count_times(trials.iter()) >= RECORDINGS_MIN).map(middle)
}

/// Returns the number of different times at which these recordings were made.
fn count_times<'t, 'r: 't>(trials: impl Iterator<Item = &'t Trial<'r>>) -> usize {
    let mut distinct: Vec<&Trial<'_>> = Vec::new();
    for trial in trials {
        if !distinct.iter().any(|other| other.is_same_time(trial)) {
            distinct.push(trial);
        }
    }
    distinct.len()
}

/// Returns the median of these sizes, of which there is at least one; the upper one of the two middle sizes if their
/// number is even.
fn middle(mut sizes: Vec<f64>) -> f64 {
    sizes.sort_by(f64::total_cmp);
    sizes[sizes.len() / 2]
}

/// Returns whether [`RECORDINGS_MIN`] recordings with pressure, made at different times, show a gain in this concern
/// that their replays reproduce.
fn has_enough_recordings(trials: &[Trial<'_>], concern: usize, margin: f64) -> bool {
    let concern = &CONCERNS[concern];
    let shows_gain = trials.iter().filter(|trial| {
        trial.has_pressure() && trial.gain(concern, margin).is_ok() && trial.is_reproduced(concern.metric)
    });
    count_times(shows_gain) >= RECORDINGS_MIN
}

impl Effect {
    fn assess(concern: &Concern, rows: &[MetricRows], trials: &[Trial<'_>], margin: f64) -> Effect {
        let measure = measure(concern.metric, rows, margin, CONFIDENCE);
        let ends = trials.iter().map(|trial| trial.ends(concern.metric));
        let [now, then] = ends.fold([0.0, 0.0], |sum, ends| [sum[0] + ends[0], sum[1] + ends[1]]);
        let error = trials.iter().map(|trial| trial.replay_error(concern.metric)).fold(0.0, f64::max);
        let pooled = measure.pooled.filter(|pooled| pooled.cases > 1);
        Effect {
            name: measure.name,
            words: concern.words,
            now,
            then,
            change: freehold_stats::verdict::relative_change(now, then),
            interval: pooled.and_then(|pooled: Pooled| pooled.interval),
            recordings: trials.len(),
            verdict: measure.verdict(),
            replay_error: error.is_finite().then_some(error),
            is_worse_somewhere: trials.iter().any(|trial| trial.loss(concern, margin).is_some()),
        }
    }
}

impl ReservedMemory {
    fn compare(candidate: &Candidate, machine: &Facts) -> ReservedMemory {
        let then = Situation::new(machine, std::slice::from_ref(&candidate.setting)).facts;
        let [kept_free_bytes, on_lists_bytes] = [kept_free as fn(&Facts) -> u64, on_lists]
            .map(|pages| (pages(&then) as i64 - pages(machine) as i64) * i64::from(machine.page_size));
        ReservedMemory { kept_free_bytes, on_lists_bytes }
    }

    /// Returns the additional memory that is set apart, as a share of the machine's memory.
    fn share_of(self, machine: &Facts) -> f64 {
        let bytes = self.kept_free_bytes.max(0) + self.on_lists_bytes.max(0);
        bytes as f64 / managed_bytes(machine).max(1) as f64
    }
}

fn kept_free(facts: &Facts) -> u64 {
    facts.zones_start.iter().map(|zone| zone.high).sum()
}

/// Returns the sum of the limits of all per-CPU lists, in pages.
fn on_lists(facts: &Facts) -> u64 {
    facts.zones_start.iter().flat_map(|zone| &zone.pcp).map(|list| u64::from(list.high)).sum()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
