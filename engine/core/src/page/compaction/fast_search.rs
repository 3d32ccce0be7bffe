//! What a run of compaction remembers of its quick searches: how often they were in vain, and where to go back to.

use crate::base::{Order, Pfn};
use crate::policy::compaction::CLUSTER;

/// What a run remembers of its quick searches.
#[derive(Debug, Default)]
pub(super) struct FastSearch {
    /// Those in vain, since the last that was not.
    pub(super) failures: u32,
    /// Where the scanner of sources goes back to, once a search is in vain.
    pub(super) return_point: ReturnPoint,
    /// Order at which the next search for targets begins.
    pub(super) order: Option<Order>,
}

impl FastSearch {
    /// Blocks that one quick search may look at.
    pub(super) fn limit(&self) -> u32 {
        (CLUSTER >> self.failures.min(31)) + 1
    }

    /// A search for targets found nothing at any order up to `largest`: the next one begins an order lower.
    pub(super) fn turn(&mut self, first: Order, largest: Order) {
        self.order = Some(first.down().unwrap_or(largest));
    }
}

/// The lowest free block by which a source was chosen, once a run.
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
