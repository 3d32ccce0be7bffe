//! Targets of a compaction run: free blocks that it took off the lists, linked through their own metadata.

use crate::base::chain::Chain;
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{Order, Pfn};

/// Free blocks that a run has taken, by order.
#[derive(Default)]
pub(super) struct Targets {
    chains: [Chain; Order::COUNT],
    pages: u32,
}

impl Targets {
    /// Returns the number of pages of all targets.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Adds a claimed block to the targets.
    pub(super) fn put(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order) {
        self.chains[order.index()].push(map, pfn, Word::claimed_of(order));
        self.pages += order.pages();
    }

    /// Removes a block of the order from the targets, split from a larger block if necessary. Returns `None` if no
    /// target is large enough. The caller must set the block's word.
    pub(super) fn take(&mut self, map: &MemMap<'_>, order: Order) -> Option<Pfn> {
        let found = order.to(Order::MAX).find(|order| !self.chains[order.index()].is_empty())?;
        let (pfn, _) = self.chains[found.index()].pop(map)?;
        self.pages -= found.pages();
        for half in order.to(found).rev().skip(1) {
            self.put(map, pfn.offset(half.pages()), half);
        }
        Some(pfn)
    }

    /// Removes a block of the smallest order from the targets, or returns `None` if there are none.
    pub(super) fn pop(&mut self, map: &MemMap<'_>) -> Option<(Pfn, Order)> {
        let order = Order::all().find(|order| !self.chains[order.index()].is_empty())?;
        let (pfn, _) = self.chains[order.index()].pop(map)?;
        self.pages -= order.pages();
        Some((pfn, order))
    }
}
