//! State of a run's quick searches of the free lists: the number of failures, and the position to return to.

use crate::base::{Order, Pfn};
use crate::policy::compaction::CLUSTER;

/// State of a run's quick searches.
#[derive(Debug, Default)]
pub(super) struct FastSearch {
    /// Failed searches since the last successful one.
    pub(super) failures: u32,
    /// Position to which the scanner of sources returns after a failed search.
    pub(super) return_point: ReturnPoint,
    /// Order at which the next search for targets begins.
    pub(super) order: Option<Order>,
}

impl FastSearch {
    /// Returns the maximum number of blocks that a quick search for sources may read. A shallow search for targets
    /// reads half as many of each order.
    pub(super) fn limit(&self) -> u32 {
        (CLUSTER >> self.failures.min(31)) + 1
    }

    /// Notes that a search for targets that began at order `first` found nothing at any order up to `largest`. The next
    /// search begins one order below `first`, or at `largest` if `first` is 0.
    pub(super) fn turn(&mut self, first: Order, largest: Order) {
        self.order = Some(first.down().unwrap_or(largest));
    }
}

/// Position to which the scanner of sources returns after a failed quick search: the lowest free block by which the run
/// chose a source. The scanner returns at most once per run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum ReturnPoint {
    #[default]
    Unknown,
    To(Pfn),
    Gone,
}

impl ReturnPoint {
    pub(super) fn note(&mut self, pfn: Pfn) {
        *self = match *self {
            ReturnPoint::Unknown => ReturnPoint::To(pfn),
            ReturnPoint::To(lowest) => ReturnPoint::To(lowest.min(pfn)),
            ReturnPoint::Gone => ReturnPoint::Gone,
        };
    }

    pub(super) fn take(&mut self) -> Option<Pfn> {
        let ReturnPoint::To(pfn) = *self else { return None };
        *self = ReturnPoint::Gone;
        Some(pfn)
    }
}
