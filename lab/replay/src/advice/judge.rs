//! A candidate's verdict: what it gains, what it costs, and which of several is the best.
//!
//! Each recording is judged as in a comparison ([`rows::judge`]), and all of them together by the same pooling: what
//! a replay does not reproduce carries no verdict, and recordings decide only where they agree. Three rules more tell
//! advice from chance. Where memory is short a few pages decide what follows, so a change has to be larger than what
//! a nudge of the watermarks makes ([`nudges`](super::nudges)); it has to be larger than twice the deviation that so
//! many independent events would have; and work that is hardly done at all cannot be saved. Then the first concern
//! that changes decides: a value is a gain if it makes one better, and none before it worse on any recording. There
//! even what carries no verdict is heeded: what cannot be believed is no reason to change a setting, but may be one
//! not to.

use freehold_report::number::Quantity;
use freehold_report::report::pool::CONFIDENCE;
use freehold_report::report::{Measure, Row};
use freehold_stats::verdict::{Verdict, judge_change, relative_change};
use freehold_trace::facts::Facts;
use serde::{Serialize, Serializer};

use super::candidates::{Candidate, managed_bytes};
use super::concerns::{CONCERNS, Concern, Kind, PRICE};
use crate::report::metrics::Metric;
use crate::report::outcome::ReplayOutcome;
use crate::report::rows::{self, MetricRows};
use crate::report::verdict::measure;
use crate::settings::Situation;

/// A change of counts has to be so many deviations of independent events.
const DEVIATIONS: f64 = 2.0;
/// Work below this, for each request, is not worth saving: a lock or a page in a hundred requests.
const WORK_MIN: f64 = 0.01;
/// Most of the machine's memory that may be set apart so that less work is done.
const MEMORY_FOR_WORK_MAX: f64 = 0.01;
/// A milder value that gains so much of what the best one does is the better advice.
const ENOUGH: f64 = 0.75;

/// A concern under the recorded setting and under another value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Effect {
    /// The measure's fixed name.
    pub(crate) name: &'static str,
    /// What people call it.
    #[serde(skip)]
    pub(crate) words: &'static str,
    /// As it is set: the sum over the recordings that reproduce it.
    pub(crate) now: f64,
    /// Under the other value.
    pub(crate) then: f64,
    /// The relative change over all recordings; `None` from nothing.
    pub(crate) change: Option<f64>,
    /// Its interval; `None` with one recording.
    pub(crate) interval: Option<(f64, f64)>,
    /// Recordings that it stands on.
    pub(crate) recordings: usize,
    /// What that means; `None` where the replay does not reproduce it.
    pub(crate) verdict: Option<Verdict>,
    /// Whether some recording says better.
    #[serde(skip)]
    pub(crate) is_better_somewhere: bool,
    /// Whether some recording says worse.
    #[serde(skip)]
    pub(crate) is_worse_somewhere: bool,
}

/// Memory that a value sets apart, by the kernel's own rules; below zero where it sets less apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ReservedMemory {
    /// Bytes more up to the high watermarks: kswapd keeps them free.
    pub(crate) kept_free_bytes: i64,
    /// Bytes more that per-CPU lists may hold.
    pub(crate) on_lists_bytes: i64,
}

/// What comes of a candidate. Concerns go by their number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finding {
    /// It makes this concern better.
    Gain {
        /// Which.
        #[serde(serialize_with = "serialize_concern")]
        concern: usize,
        /// How much, as a share of what there was; infinite from nothing.
        #[serde(skip)]
        size: f64,
    },
    /// What it makes better costs this concern, which comes first.
    Costs {
        /// Which.
        #[serde(serialize_with = "serialize_concern")]
        concern: usize,
    },
    /// It saves work, for more memory than that is worth.
    CostsMemory,
    /// Recordings do not agree that anything gets better, or too few events say so.
    Undecided,
    /// Nothing gets better.
    Nothing,
}

fn serialize_concern<S: Serializer>(concern: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(CONCERNS[*concern].metric.name())
}

/// Verdict on a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CandidateVerdict {
    /// What comes of it.
    pub(crate) finding: Finding,
    /// Concerns, in their order.
    pub(crate) effects: Vec<Effect>,
    /// What else it costs: free pageblocks.
    #[serde(rename = "free_pageblocks")]
    pub(crate) price: Effect,
    /// The memory that it sets apart.
    pub(crate) memory: ReservedMemory,
}

/// One recording, as it was set and under a candidate.
pub(crate) struct Trial<'t> {
    /// Name of the recording.
    pub(crate) recording: &'t str,
    /// As it was recorded.
    pub(crate) now: &'t ReplayOutcome,
    /// Under the candidate.
    pub(crate) then: &'t ReplayOutcome,
    /// As it was recorded, but for a nudge of its watermarks.
    pub(crate) nudged: &'t [ReplayOutcome],
    /// Requests that were recorded.
    pub(crate) requests: u64,
}

impl Trial<'_> {
    /// The largest change of a measure that a nudge makes; infinite from nothing.
    fn spread(&self, metric: Metric) -> f64 {
        let now = value(self.now, metric);
        let changes = self.nudged.iter().map(|nudged| relative_change(now, value(nudged, metric)));
        changes.map(|change| change.map_or(f64::INFINITY, f64::abs)).fold(0.0, f64::max)
    }
}

/// Returns the value of a metric; zero where it was not measured.
fn value(outcome: &ReplayOutcome, metric: Metric) -> f64 {
    outcome.metrics.get(metric).map_or(0.0, Quantity::value)
}

impl CandidateVerdict {
    /// Judges a candidate by all recordings of this machine. Relative changes up to `margin` are none.
    pub(crate) fn new(candidate: &Candidate, trials: &[Trial<'_>], machine: &Facts, margin: f64) -> CandidateVerdict {
        let rows: Vec<MetricRows> = trials
            .iter()
            .map(|Trial { recording, now, then, .. }| rows::judge(recording, now, then, &now.fidelity, margin))
            .collect();
        let sieve = Sieve { margin, trials };
        let effects: Vec<Effect> = CONCERNS.iter().map(|concern| Effect::assess(concern, &rows, sieve)).collect();
        let price = Effect::assess(&PRICE, &rows, sieve);
        let memory = ReservedMemory::compare(candidate, machine);
        let finding = finding(&effects, memory.share_of(machine));
        CandidateVerdict { finding, effects, price, memory }
    }

    /// What gets better.
    pub(crate) fn gains(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|effect| effect.verdict == Some(Verdict::Better))
    }

    /// What gets worse.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().chain([&self.price]).filter(|effect| effect.verdict == Some(Verdict::Worse))
    }

    /// What it gains, for ranking: which concern, and by how much; nothing where it is no gain.
    pub(crate) fn gain(&self) -> Option<(usize, f64)> {
        if let Finding::Gain { concern, size } = self.finding { Some((concern, size)) } else { None }
    }
}

/// Which of several values of a setting, the milder first, is the best advice: the mildest that gains nearly as much
/// as the one that gains most.
pub(crate) fn best(values: &[&CandidateVerdict]) -> Option<usize> {
    let gains: Vec<Option<(usize, f64)>> = values.iter().map(|value| value.gain()).collect();
    let first = gains.iter().flatten().map(|(concern, _)| *concern).min()?;
    let of_first: Vec<Option<f64>> =
        gains.into_iter().map(|gain| gain.filter(|(concern, _)| *concern == first).map(|(_, size)| size)).collect();
    let most = of_first.iter().flatten().copied().fold(0.0, f64::max);
    of_first.iter().position(|gain| gain.is_some_and(|size| size >= ENOUGH * most))
}

/// What is too small to count.
#[derive(Clone, Copy)]
struct Sieve<'t> {
    /// Relative changes up to this are none.
    margin: f64,
    trials: &'t [Trial<'t>],
}

impl Sieve<'_> {
    /// Whether what is said of all recordings is too small, or stands on no more than half of them.
    fn holds_back(self, concern: &Concern, effect: &Effect) -> bool {
        let size = effect.change.map_or(f64::INFINITY, f64::abs);
        let is_judged_by_few = 2 * effect.recordings <= self.trials.len();
        is_judged_by_few || size <= self.spread_of_mean(concern) || self.is_by_chance(concern, effect.now, effect.then)
    }

    /// Whether a recording supports this verdict by more than chance, whether it is reproduced or not.
    fn supports(self, concern: &Concern, measure: &Measure, row: &Row, wanted: Verdict) -> bool {
        let [now, then] = ends(row);
        let change = row.change.unwrap_or(f64::INFINITY);
        let trial = self.trials.iter().find(|trial| trial.recording == row.case);
        judge_change(change, measure.direction, self.margin) == wanted
            && trial.is_none_or(|trial| change.abs() > trial.spread(concern.metric) || change.is_infinite())
            && !self.is_by_chance(concern, now, then)
    }

    /// What nudges make of all recordings' mean.
    fn spread_of_mean(self, concern: &Concern) -> f64 {
        let count = self.trials.len() as f64;
        self.trials.iter().map(|trial| trial.spread(concern.metric)).sum::<f64>() / count / count.sqrt()
    }

    /// Whether these two differ by no more than independent events would by themselves, or are next to nothing.
    fn is_by_chance(self, concern: &Concern, now: f64, then: f64) -> bool {
        let requests: f64 = self.trials.iter().map(|trial| trial.requests as f64).sum();
        match concern.kind {
            Kind::State => false,
            Kind::Work if now.max(then) < WORK_MIN * requests => true,
            Kind::Requests | Kind::Work => (then - now).abs() <= DEVIATIONS * (now + then).sqrt(),
        }
    }
}

impl Effect {
    fn assess(concern: &Concern, rows: &[MetricRows], sieve: Sieve<'_>) -> Effect {
        let measure = measure(concern.metric, rows, sieve.margin, CONFIDENCE);
        let judged: Vec<&Row> = measure.rows.iter().filter(|row| row.verdict.is_some() && row.is_nonzero()).collect();
        let [now, then] = [0, 1].map(|end| judged.iter().fold(0.0, |sum, row| sum + ends(row)[end]));
        let mut effect = Effect {
            name: measure.name,
            words: concern.words,
            now,
            then,
            change: measure.change(),
            interval: measure.pooled.filter(|pooled| pooled.cases > 1).and_then(|pooled| pooled.interval),
            recordings: judged.len(),
            verdict: measure.verdict(),
            is_better_somewhere: judged.iter().any(|row| sieve.supports(concern, &measure, row, Verdict::Better)),
            is_worse_somewhere: measure.rows.iter().any(|row| sieve.supports(concern, &measure, row, Verdict::Worse)),
        };
        if matches!(effect.verdict, Some(Verdict::Better | Verdict::Worse)) && sieve.holds_back(concern, &effect) {
            effect.verdict = Some(Verdict::Undecided);
        }
        effect
    }
}

/// What a recording gave as it was set, and under a candidate.
fn ends(row: &Row) -> [f64; 2] {
    [row.a, row.b].map(|side| side.map_or(0.0, Quantity::value))
}

/// What these effects come to, if a value sets apart this share of the memory.
fn finding(effects: &[Effect], memory: f64) -> Finding {
    let gain = effects.iter().position(|effect| effect.verdict == Some(Verdict::Better));
    let loss = effects.iter().position(|effect| effect.is_worse_somewhere);
    match (gain, loss) {
        (Some(gain), Some(concern)) if concern < gain => Finding::Costs { concern },
        (Some(gain), _) if CONCERNS[gain].kind == Kind::Work && memory > MEMORY_FOR_WORK_MAX => Finding::CostsMemory,
        (Some(concern), _) => Finding::Gain { concern, size: effects[concern].change.map_or(f64::INFINITY, f64::abs) },
        (None, _) if effects.iter().any(|effect| effect.is_better_somewhere) => Finding::Undecided,
        (None, _) => Finding::Nothing,
    }
}

impl ReservedMemory {
    fn compare(candidate: &Candidate, machine: &Facts) -> ReservedMemory {
        let then = Situation::new(machine, std::slice::from_ref(&candidate.setting)).facts;
        let [kept_free_bytes, on_lists_bytes] = [kept_free as fn(&Facts) -> u64, on_lists]
            .map(|pages| (pages(&then) as i64 - pages(machine) as i64) * i64::from(machine.page_size));
        ReservedMemory { kept_free_bytes, on_lists_bytes }
    }

    /// What is set apart, as a share of the machine's memory.
    fn share_of(self, machine: &Facts) -> f64 {
        let bytes = self.kept_free_bytes.max(0) + self.on_lists_bytes.max(0);
        bytes as f64 / managed_bytes(machine).max(1) as f64
    }
}

fn kept_free(facts: &Facts) -> u64 {
    facts.zones_start.iter().map(|zone| zone.high).sum()
}

/// What lists may hold before they give back.
fn on_lists(facts: &Facts) -> u64 {
    facts.zones_start.iter().flat_map(|zone| &zone.pcp).map(|list| u64::from(list.high)).sum()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
