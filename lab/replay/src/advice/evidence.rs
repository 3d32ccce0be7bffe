//! Evidence of one recording for or against a candidate: the change of a concern, and the reasons to doubt it.
//!
//! A replay has an error, and a recording covers a limited time. A change therefore counts only under these conditions:
//!
//! - It exceeds the margin, chance, the changes under watermarks varied by 1 %, and the replay's own error in that
//!   measure.
//! - The same relative change of the recorded events would be at least [`EVENTS_MIN`] events. For huge pages, the
//!   recorded kernel denied at least as many huge pages as the change adds. Zone lock acquisitions are exempt.
//! - A change of work behind requests (pages scanned, lock acquisitions) is in a measure that the replay reproduces.
//! - A change of pages scanned rests on at least three passes of kswapd.
//! - At least half of the change shows before the last quarter of the recording.

use freehold_report::number::Quantity;
use freehold_stats::verdict::{Direction, EVENTS_MIN, relative_change};
use freehold_trace::facts::Facts;

use super::concerns::{Concern, Kind};
use crate::counts::{STALLS, vmstat_delta, was_short};
use crate::report::course::{Course, Moment};
use crate::report::fidelity::{FidelityMeasure, VmstatCounter};
use crate::report::metrics::Metric;
use crate::report::outcome::ReplayOutcome;
use crate::report::rows;

/// Smallest significant change of counts, in standard deviations of independent events.
const DEVIATIONS: f64 = 2.0;
/// Fewest lock acquisitions or scanned pages per request that count. If both replays have less work than this, a change
/// of it is not worth saving.
const WORK_MIN: f64 = 0.01;
/// Fewest passes of kswapd on which pages scanned may rest. Pages of one pass are not independent events.
const PASSES_MIN: f64 = 3.0;
/// Part of the recording that has to show at least half of the change.
const EARLY: f64 = 0.75;

/// One recording, replayed as it was set and under a candidate.
pub(crate) struct Trial<'t> {
    /// Name of the recording.
    pub(crate) recording: &'t str,
    /// Facts of the recording.
    pub(crate) machine: &'t Facts,
    /// Number of recorded requests.
    pub(crate) requests: u64,
    /// Replay under the recorded settings.
    pub(crate) now: &'t ReplayOutcome,
    /// Replay under the candidate.
    pub(crate) then: &'t ReplayOutcome,
    /// Replays under the recorded settings with varied watermarks.
    pub(crate) nudged: &'t [ReplayOutcome],
}

/// Reason not to follow a change. The variants are in the order in which [`Trial::gain`] tests them, so a later variant
/// means that more tests were passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// The change is within the margin or a loss.
    NoGain,
    /// Too few events, or too little work, to distinguish the change from chance.
    TooFewEvents,
    /// The kernel recorded too few events that the candidate could save.
    NoRoom,
    /// Watermarks varied by 1 % cause as large a change.
    SensitiveToWatermarks,
    /// The change rests on too few passes of kswapd.
    FewPasses,
    /// The change rests on the end of the recording.
    EndOfRecording,
    /// The replay's error in this measure is as large or is not known, or the measure is work behind requests that the
    /// replay does not reproduce.
    WithinReplayError,
}

impl Doubt {
    /// Returns the fixed label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Doubt::NoGain => "no gain",
            Doubt::TooFewEvents => "too few events",
            Doubt::NoRoom => "too few recorded events for such a gain",
            Doubt::SensitiveToWatermarks => "sensitive to watermarks",
            Doubt::FewPasses => "too few passes of kswapd",
            Doubt::EndOfRecording => "most of the gain is at the end of the recording",
            Doubt::WithinReplayError => "the gain is within the replay error",
        }
    }
}

/// Returns the value of a metric; zero if it was not measured.
fn value(outcome: &ReplayOutcome, metric: Metric) -> f64 {
    outcome.metrics.get(metric).map_or(0.0, Quantity::value)
}

/// Returns the relative change of a metric towards the better. The change from zero is infinite.
fn improvement(metric: Metric, now: f64, then: f64) -> f64 {
    let change = relative_change(now, then).unwrap_or(f64::INFINITY);
    if metric.direction() == Direction::Lower { -change } else { change }
}

impl Trial<'_> {
    /// Returns the values of a metric under the recorded settings and under the candidate.
    pub(crate) fn ends(&self, metric: Metric) -> [f64; 2] {
        [self.now, self.then].map(|outcome| value(outcome, metric))
    }

    /// Returns the size of the replay's relative error in a metric; infinite if it is not known.
    pub(crate) fn replay_error(&self, metric: Metric) -> f64 {
        rows::reproduction_error(metric, &self.now.fidelity)
    }

    /// Returns whether the recorded machine was short of memory.
    pub(crate) fn has_pressure(&self) -> bool {
        was_short(self.machine)
    }

    /// Returns whether both recordings were made at the same time. This is assumed if their first samples of
    /// `/proc/vmstat` are equal, or if one of them has no sample.
    pub(crate) fn is_same_time(&self, other: &Trial<'_>) -> bool {
        let [first, second] = [self, other].map(|trial| trial.machine.samples.first());
        first.zip(second).is_none_or(|(first, second)| first.vmstat == second.vmstat)
    }

    /// Returns the relative size of the gain in a concern.
    ///
    /// # Errors
    /// Returns the first reason to doubt the gain.
    pub(crate) fn gain(&self, concern: &Concern, margin: f64) -> Result<f64, Doubt> {
        let size = self.apparent_gain(concern, margin)?;
        let exceeds_error = size > self.replay_error(concern.metric) && self.may_be_unjudged(concern);
        if exceeds_error { Ok(size) } else { Err(Doubt::WithinReplayError) }
    }

    /// Returns the relative size of the gain in a concern, whether or not it exceeds the replay's error.
    ///
    /// # Errors
    /// Returns the first other reason to doubt the gain.
    pub(crate) fn apparent_gain(&self, concern: &Concern, margin: f64) -> Result<f64, Doubt> {
        let size = self.improvement(concern.metric);
        if size <= margin {
            Err(Doubt::NoGain)
        } else if self.is_by_chance(concern) {
            Err(Doubt::TooFewEvents)
        } else if !self.has_room(concern, size) {
            Err(Doubt::NoRoom)
        } else if size <= self.spread(concern.metric) {
            Err(Doubt::SensitiveToWatermarks)
        } else if self.has_few_passes(concern.metric) {
            Err(Doubt::FewPasses)
        } else if self.is_only_late(concern.metric, size) {
            Err(Doubt::EndOfRecording)
        } else {
            Ok(size)
        }
    }

    /// Returns the size of a loss in a concern, whether or not the replay reproduces the concern. Returns `None` if the
    /// loss is within the margin, the sensitivity to watermarks, or chance.
    pub(crate) fn loss(&self, concern: &Concern, margin: f64) -> Option<f64> {
        let size = -self.improvement(concern.metric);
        let counts = size > margin && size > self.spread(concern.metric) && !self.is_by_chance(concern);
        counts.then_some(size)
    }

    /// Returns the relative change towards the better.
    fn improvement(&self, metric: Metric) -> f64 {
        let [now, then] = self.ends(metric);
        improvement(metric, now, then)
    }

    /// Returns the largest change of a metric under varied watermarks. A change from zero is infinite.
    fn spread(&self, metric: Metric) -> f64 {
        let now = value(self.now, metric);
        let changes = self.nudged.iter().map(|nudged| relative_change(now, value(nudged, metric)));
        changes.map(|change| change.map_or(f64::INFINITY, f64::abs)).fold(0.0, f64::max)
    }

    /// Returns whether the replay reproduces a measure within its bound.
    pub(crate) fn is_reproduced(&self, metric: Metric) -> bool {
        rows::is_reproduced(metric, &self.now.fidelity)
    }

    /// Returns whether a gain in a concern may count: it is in requests, or the replay reproduces the concern within
    /// its bound. For requests it is enough that the gain exceeds the replay's error, which the caller tests.
    fn may_be_unjudged(&self, concern: &Concern) -> bool {
        concern.kind == Kind::Requests || self.is_reproduced(concern.metric)
    }

    /// Returns whether the two values differ by no more than independent events do by chance, or are too small to
    /// matter.
    fn is_by_chance(&self, concern: &Concern) -> bool {
        let [now, then] = self.ends(concern.metric);
        match concern.kind {
            Kind::State => false,
            Kind::Work if now.max(then) < WORK_MIN * self.requests as f64 => true,
            Kind::Requests | Kind::Work => {
                now.max(then) < EVENTS_MIN || (then - now).abs() <= DEVIATIONS * (now + then).sqrt()
            }
        }
    }

    /// Returns whether the kernel recorded enough events for a gain of this size.
    fn has_room(&self, concern: &Concern, size: f64) -> bool {
        let [now, then] = self.ends(concern.metric);
        match concern.metric {
            Metric::HugePagesServed => {
                let denied = vmstat_delta(self.machine, "thp_fault_fallback").unwrap_or(0) as f64;
                denied >= EVENTS_MIN && then - now <= denied
            }
            Metric::FailedAllocations => self.recorded(FidelityMeasure::Failures) * size >= EVENTS_MIN,
            Metric::AllocStalls => self.recorded_sum(&STALLS) * size >= EVENTS_MIN,
            Metric::CompactStalls => self.recorded_sum(&["compact_stall"]) * size >= EVENTS_MIN,
            Metric::PagesScanned => self.recorded_sum(&["pgscan_kswapd", "pgscan_direct"]) * size >= EVENTS_MIN,
            _ => true,
        }
    }

    /// Returns the recorded value of a measure; zero if it is not known.
    fn recorded(&self, measure: FidelityMeasure) -> f64 {
        self.now.fidelity.iter().find(|row| row.measure == measure).map_or(0.0, |row| row.recorded)
    }

    /// Returns the sum of recorded counters of `/proc/vmstat`.
    fn recorded_sum(&self, names: &[&str]) -> f64 {
        names.iter().filter_map(|name| vmstat_delta(self.machine, name)).sum::<u64>() as f64
    }

    /// Returns whether the metric is pages scanned and fewer than [`PASSES_MIN`] passes of kswapd occurred in one of
    /// the two replays. An unknown number of passes is not too few.
    fn has_few_passes(&self, metric: Metric) -> bool {
        let passes = [self.now, self.then].map(|outcome| {
            let row = outcome.fidelity.iter().find(|row| row.measure == PASSES);
            row.map_or(f64::INFINITY, |row| row.replayed)
        });
        metric == Metric::PagesScanned && passes[0].min(passes[1]) < PASSES_MIN
    }

    /// Returns whether less than half of a change shows before the last part of the recording; `false` if the course of
    /// the metric was not kept.
    fn is_only_late(&self, metric: Metric, size: f64) -> bool {
        let early = [self.now, self.then].map(|outcome| early_count(&outcome.course, metric));
        let [Some(now), Some(then)] = early else { return false };
        improvement(metric, now, then) < size / 2.0
    }
}

/// Passes of kswapd.
const PASSES: FidelityMeasure = FidelityMeasure::Vmstat(VmstatCounter::Pageoutrun);

/// Returns a count after the part [`EARLY`] of the recording; `None` if the course of the metric was not kept.
fn early_count(course: &Course, metric: Metric) -> Option<f64> {
    let end = course.moments.last()?.time as f64;
    let moment = course.moments.iter().rfind(|moment| moment.time as f64 <= EARLY * end)?;
    count_at(moment, metric).map(|count| count as f64)
}

fn count_at(moment: &Moment, metric: Metric) -> Option<u64> {
    match metric {
        Metric::FailedAllocations => Some(moment.failed_allocations),
        Metric::AllocStalls => Some(moment.allocstall),
        Metric::CompactStalls => Some(moment.compact_stall),
        Metric::HugePagesServed => Some(moment.huge_pages_served),
        Metric::PagesScanned => Some(moment.pgscan),
        Metric::ZoneLockAcquisitions => Some(moment.zone_lock_acquisitions),
        _ => None,
    }
}
