//! Fidelity measures by mechanism: direct reclaims by kind, and requests that may fail in different ways.
//!
//! The kernel's values are counts of events; [`freehold_trace::mechanism`] has the classes.

use freehold_trace::mechanism::{ReclaimClass, RequestClass};

/// A measure of one mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MechanismMeasure {
    /// Direct reclaims of one kind.
    DirectReclaims(ReclaimClass),
    /// Pages that direct reclaims of one kind scanned.
    PagesScanned(ReclaimClass),
    /// Pages that direct reclaims of one kind freed.
    PagesReclaimed(ReclaimClass),
    /// Requests of one kind.
    Requests(RequestClass),
    /// Requests of one kind that failed.
    Failures(RequestClass),
    /// Reclaims of control groups.
    ControlGroups,
}

impl MechanismMeasure {
    /// Returns every measure, in the order of reports. Direct reclaims that end at once scan and free no pages, and
    /// only faults for huge pages have their requests counted.
    pub fn list() -> impl Iterator<Item = MechanismMeasure> {
        let work = [ReclaimClass::Costly, ReclaimClass::Small];
        ReclaimClass::ALL
            .map(MechanismMeasure::DirectReclaims)
            .into_iter()
            .chain(work.map(MechanismMeasure::PagesScanned))
            .chain(work.map(MechanismMeasure::PagesReclaimed))
            .chain([RequestClass::HugeFirst, RequestClass::HugeSecond].map(MechanismMeasure::Requests))
            .chain(RequestClass::ALL.map(MechanismMeasure::Failures))
            .chain([MechanismMeasure::ControlGroups])
    }

    /// Returns the fixed name of the measure in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            MechanismMeasure::DirectReclaims(ReclaimClass::CostlyReady) => "allocstall_costly_ready",
            MechanismMeasure::DirectReclaims(ReclaimClass::Costly) => "allocstall_costly",
            MechanismMeasure::DirectReclaims(ReclaimClass::Small) => "allocstall_small",
            MechanismMeasure::PagesScanned(ReclaimClass::CostlyReady) => "pgscan_costly_ready",
            MechanismMeasure::PagesScanned(ReclaimClass::Costly) => "pgscan_costly",
            MechanismMeasure::PagesScanned(ReclaimClass::Small) => "pgscan_small",
            MechanismMeasure::PagesReclaimed(ReclaimClass::CostlyReady) => "pgsteal_costly_ready",
            MechanismMeasure::PagesReclaimed(ReclaimClass::Costly) => "pgsteal_costly",
            MechanismMeasure::PagesReclaimed(ReclaimClass::Small) => "pgsteal_small",
            MechanismMeasure::Requests(RequestClass::NoReclaim) => "requests_no_reclaim",
            MechanismMeasure::Requests(RequestClass::HugeFirst) => "requests_huge_first",
            MechanismMeasure::Requests(RequestClass::HugeSecond) => "requests_huge_second",
            MechanismMeasure::Requests(RequestClass::Other) => "requests_other",
            MechanismMeasure::Failures(RequestClass::NoReclaim) => "failures_no_reclaim",
            MechanismMeasure::Failures(RequestClass::HugeFirst) => "failures_huge_first",
            MechanismMeasure::Failures(RequestClass::HugeSecond) => "failures_huge_second",
            MechanismMeasure::Failures(RequestClass::Other) => "failures_other",
            MechanismMeasure::ControlGroups => "memcg_reclaims",
        }
    }

    /// Returns the measure that counts the events behind this one.
    pub(crate) fn events(self) -> MechanismMeasure {
        match self {
            MechanismMeasure::PagesScanned(class) | MechanismMeasure::PagesReclaimed(class) => {
                MechanismMeasure::DirectReclaims(class)
            }
            count => count,
        }
    }
}
