//! Values of the measures by mechanism: the kernel's from the recorded events, the engine's from its counters and from
//! the requests of the replay.
//!
//! The counters of `/proc/vmstat` have all direct reclaims, and the events only those that a recording has. If the
//! events are missing, the rows say so.

use freehold::stats::Counts;
use freehold_trace::mechanism::{EpisodeSum, MechanismCounts, ReclaimClass};

use super::Ending;
use crate::counts::vmstat_delta;
use crate::report::fidelity::{FidelityMeasure, VmstatCounter};
use crate::report::mechanisms::MechanismMeasure;
use crate::report::uncompared::{UncomparedReason, UncomparedRow};

impl Ending<'_, '_> {
    /// Returns the recorded and the replayed value; `None` if they cannot be compared.
    pub(super) fn mechanism(&self, measure: MechanismMeasure) -> Option<[u64; 2]> {
        let is_known = self.decides_reclaim() && self.reason(measure).is_none();
        is_known.then(|| [self.recorded_mechanism(measure), self.replayed_mechanism(measure)])
    }

    /// Returns a row for each measure that cannot be compared. Reclaims of control groups have one only if the recorded
    /// kernel made some.
    pub(crate) fn uncompared(&self) -> Vec<UncomparedRow> {
        if !self.decides_reclaim() {
            return Vec::new();
        }
        let all = MechanismMeasure::list().filter_map(|measure| Some((measure, self.reason(measure)?)));
        let rows = all.map(|(measure, reason)| {
            let [recorded, replayed] = [self.recorded_mechanism(measure), self.replayed_mechanism(measure)];
            let is_modelled = reason != UncomparedReason::NotModelled;
            UncomparedRow {
                measure: FidelityMeasure::Mechanism(measure),
                recorded: (!is_modelled).then_some(recorded as f64),
                replayed: is_modelled.then_some(replayed as f64),
                reason,
            }
        });
        rows.filter(|row| row.recorded != Some(0.0)).collect()
    }

    /// Returns the reason for which a measure is not compared; `None` if it is.
    fn reason(&self, measure: MechanismMeasure) -> Option<UncomparedReason> {
        let recorded = &self.survey.mechanisms;
        let lacks_events = match measure {
            MechanismMeasure::DirectReclaims(_) | MechanismMeasure::PagesReclaimed(_) => {
                !recorded.has_reclaims() && self.alloc_stalls().is_none_or(|[recorded, _]| recorded > 0)
            }
            MechanismMeasure::PagesScanned(_) => {
                let scanned = vmstat_delta(self.facts, VmstatCounter::PgscanDirect.name());
                !has_scans(recorded) && scanned.is_none_or(|scanned| scanned > 0)
            }
            MechanismMeasure::ControlGroups => return Some(UncomparedReason::NotModelled),
            MechanismMeasure::Requests(_) | MechanismMeasure::Failures(_) => false,
        };
        lacks_events.then_some(UncomparedReason::NeedsReclaimEvents)
    }

    fn recorded_mechanism(&self, measure: MechanismMeasure) -> u64 {
        let recorded = &self.survey.mechanisms;
        value(measure, recorded, |class| recorded.reclaims(class))
    }

    fn replayed_mechanism(&self, measure: MechanismMeasure) -> u64 {
        value(measure, &self.tally.mechanisms, |class| direct_reclaims(&self.counts, class))
    }
}

fn value(measure: MechanismMeasure, counts: &MechanismCounts, reclaims: impl Fn(ReclaimClass) -> EpisodeSum) -> u64 {
    match measure {
        MechanismMeasure::DirectReclaims(class) => reclaims(class).episodes,
        MechanismMeasure::PagesScanned(class) => reclaims(class).scanned,
        MechanismMeasure::PagesReclaimed(class) => reclaims(class).reclaimed,
        MechanismMeasure::Requests(class) => counts.requests(class).requests,
        MechanismMeasure::Failures(class) => counts.requests(class).failures,
        MechanismMeasure::ControlGroups => counts.control_groups.episodes,
    }
}

/// Returns whether some direct reclaim has events of scanned pages.
fn has_scans(counts: &MechanismCounts) -> bool {
    ReclaimClass::ALL.into_iter().any(|class| counts.reclaims(class).scanned > 0)
}

/// Returns the engine's direct reclaims of one kind.
fn direct_reclaims(counts: &Counts, class: ReclaimClass) -> EpisodeSum {
    let (episodes, scanned, reclaimed) = match class {
        ReclaimClass::CostlyReady => (counts.reclaims_costly_ready, 0, 0),
        ReclaimClass::Costly => (counts.reclaims_costly, counts.pgscan_costly, counts.pgsteal_costly),
        ReclaimClass::Small => (counts.reclaims_small, counts.pgscan_small, counts.pgsteal_small),
    };
    EpisodeSum { episodes, scanned, reclaimed }
}
