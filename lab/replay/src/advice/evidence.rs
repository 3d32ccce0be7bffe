//! Evidence of one recording for or against a candidate: the change of a concern, and the reasons to doubt it.
//!
//! A replay errs, and a recording is short. So a change counts only if it exceeds the replay's own error in that
//! measure, the changes that watermarks varied by 1 % make, and chance; if as many events were recorded as it would
//! save; if it rests on several passes of kswapd; and if it shows before the last quarter of the recording.

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

/// A change of counts has to be so many standard deviations of independent events.
const DEVIATIONS: f64 = 2.0;
/// Work below this for each request is not worth saving: a lock or a page in a hundred requests.
const WORK_MIN: f64 = 0.01;
/// Fewest passes of kswapd that pages scanned may rest on: pages of one pass are not independent events.
const PASSES_MIN: f64 = 3.0;
/// Part of the recording that has to show at least half of the change.
const EARLY: f64 = 0.75;

/// One recording, as it was set and under a candidate.
pub(crate) struct Trial<'t> {
    /// Name of the recording.
    pub(crate) recording: &'t str,
    /// Facts of the recording.
    pub(crate) machine: &'t Facts,
    /// Requests that were recorded.
    pub(crate) requests: u64,
    /// Replay as it was recorded.
    pub(crate) now: &'t ReplayOutcome,
    /// Replay under the candidate.
    pub(crate) then: &'t ReplayOutcome,
    /// Replays as it was recorded, with varied watermarks.
    pub(crate) nudged: &'t [ReplayOutcome],
}

/// Reason not to follow a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// The change is within the margin, or to the worse.
    NoGain,
    /// Too few events, or too little work, to tell it from chance.
    TooFewEvents,
    /// The kernel recorded too little that could be saved.
    NoRoom,
    /// Watermarks varied by 1 % make as much.
    SensitiveToWatermarks,
    /// The replay's error in this measure is as large, or is not known.
    WithinReplayError,
    /// It rests on too few passes of kswapd.
    FewPasses,
    /// It rests on the end of the recording.
    EndOfRecording,
}

impl Doubt {
    /// Returns the fixed label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Doubt::NoGain => "no gain",
            Doubt::TooFewEvents => "too few events",
            Doubt::NoRoom => "too little was recorded that could be gained",
            Doubt::SensitiveToWatermarks => "sensitive to watermarks",
            Doubt::WithinReplayError => "the gain is within the replay's error",
            Doubt::FewPasses => "rests on too few passes of kswapd",
            Doubt::EndOfRecording => "rests on the end of the recording",
        }
    }
}

/// Returns the value of a metric; zero where it was not measured.
fn value(outcome: &ReplayOutcome, metric: Metric) -> f64 {
    outcome.metrics.get(metric).map_or(0.0, Quantity::value)
}

/// Returns the relative change of a metric towards the better; infinite from nothing.
fn improvement(metric: Metric, now: f64, then: f64) -> f64 {
    let change = relative_change(now, then).unwrap_or(f64::INFINITY);
    if metric.direction() == Direction::Lower { -change } else { change }
}

impl Trial<'_> {
    /// Returns the values of a metric, as it was set and under the candidate.
    pub(crate) fn ends(&self, metric: Metric) -> [f64; 2] {
        [self.now, self.then].map(|outcome| value(outcome, metric))
    }

    /// Returns the size of the replay's relative error in a metric; infinite where it is not known.
    pub(crate) fn replay_error(&self, metric: Metric) -> f64 {
        rows::reproduction_error(metric, &self.now.fidelity)
    }

    /// Whether the recorded machine was short of memory.
    pub(crate) fn has_pressure(&self) -> bool {
        was_short(self.machine)
    }

    /// Whether both recordings were made at the same time: their first samples are equal.
    pub(crate) fn is_same_time(&self, other: &Trial<'_>) -> bool {
        let [first, second] = [self, other].map(|trial| trial.machine.samples.first());
        first.zip(second).is_none_or(|(first, second)| first.vmstat == second.vmstat)
    }

    /// Returns the size of the gain in a concern.
    ///
    /// # Errors
    /// With the first reason to doubt it.
    pub(crate) fn gain(&self, concern: &Concern, margin: f64) -> Result<f64, Doubt> {
        let size = self.improvement(concern.metric);
        if size <= margin {
            Err(Doubt::NoGain)
        } else if self.is_by_chance(concern) {
            Err(Doubt::TooFewEvents)
        } else if !self.has_room(concern, size) {
            Err(Doubt::NoRoom)
        } else if size <= self.spread(concern.metric) {
            Err(Doubt::SensitiveToWatermarks)
        } else if size <= self.replay_error(concern.metric) || !self.may_be_unjudged(concern) {
            Err(Doubt::WithinReplayError)
        } else if self.has_few_passes(concern.metric) {
            Err(Doubt::FewPasses)
        } else if self.is_only_late(concern.metric, size) {
            Err(Doubt::EndOfRecording)
        } else {
            Ok(size)
        }
    }

    /// Returns the size of a loss in a concern, reproduced or not; `None` if there is none beyond chance.
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

    /// Returns the largest change of a metric that varied watermarks make; infinite from nothing.
    fn spread(&self, metric: Metric) -> f64 {
        let now = value(self.now, metric);
        let changes = self.nudged.iter().map(|nudged| relative_change(now, value(nudged, metric)));
        changes.map(|change| change.map_or(f64::INFINITY, f64::abs)).fold(0.0, f64::max)
    }

    /// Whether the replay reproduces a measure within its bound.
    pub(crate) fn is_reproduced(&self, metric: Metric) -> bool {
        rows::is_reproduced(metric, &self.now.fidelity)
    }

    /// Whether a gain in a concern may be worth testing although the replay misses it: a gain in requests may, if it
    /// exceeds the error; less work may not.
    fn may_be_unjudged(&self, concern: &Concern) -> bool {
        concern.kind == Kind::Requests || self.is_reproduced(concern.metric)
    }

    /// Whether the two values differ by no more than independent events do by chance, or are next to nothing.
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

    /// Whether the kernel recorded enough for a gain of this size.
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

    /// Returns the recorded value of a measure; zero where it is not known.
    fn recorded(&self, measure: FidelityMeasure) -> f64 {
        self.now.fidelity.iter().find(|row| row.measure == measure).map_or(0.0, |row| row.recorded)
    }

    /// Returns the sum of recorded counters of `/proc/vmstat`.
    fn recorded_sum(&self, names: &[&str]) -> f64 {
        names.iter().filter_map(|name| vmstat_delta(self.machine, name)).sum::<u64>() as f64
    }

    /// Whether pages scanned rest on too few passes of kswapd.
    fn has_few_passes(&self, metric: Metric) -> bool {
        let passes = [self.now, self.then].map(|outcome| {
            let row = outcome.fidelity.iter().find(|row| row.measure == PASSES);
            row.map_or(f64::INFINITY, |row| row.replayed)
        });
        metric == Metric::PagesScanned && passes[0].min(passes[1]) < PASSES_MIN
    }

    /// Whether less than half of a change shows before the last part of the recording.
    fn is_only_late(&self, metric: Metric, size: f64) -> bool {
        let early = [self.now, self.then].map(|outcome| early_count(&outcome.course, metric));
        let [Some(now), Some(then)] = early else { return false };
        improvement(metric, now, then) < size / 2.0
    }
}

/// Passes of kswapd.
const PASSES: FidelityMeasure = FidelityMeasure::Vmstat(VmstatCounter::Pageoutrun);

/// Returns a count as it was after [`EARLY`] of the recording; `None` where it was not kept.
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
