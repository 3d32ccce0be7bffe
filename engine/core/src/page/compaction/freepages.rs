//! What a run of compaction has in its hands: free blocks that it took off the lists, linked through their own
//! metadata.

use crate::base::chain::Chain;
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{Order, Pfn};

/// Free blocks in the hands of a run, by order.
#[derive(Default)]
pub(super) struct Targets {
    chains: [Chain; Order::COUNT],
    pages: u32,
}

impl Targets {
    /// Pages of all targets in hand.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Adds a claimed block to the targets in hand.
    pub(super) fn put(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order) {
        self.chains[order.index()].push(map, pfn, Word::claimed_of(order));
        self.pages += order.pages();
    }

    /// Hands a block out, cut from a larger one if need be. Its word is the caller's to write.
    pub(super) fn take(&mut self, map: &MemMap<'_>, order: Order) -> Option<Pfn> {
        let found = order.to(Order::MAX).find(|order| !self.chains[order.index()].is_empty())?;
        let (pfn, _) = self.chains[found.index()].pop(map)?;
        self.pages -= found.pages();
        for half in order.to(found).rev().skip(1) {
            self.put(map, pfn.offset(half.pages()), half);
        }
        Some(pfn)
    }

    /// Takes the smallest block out of its hands.
    pub(super) fn pop(&mut self, map: &MemMap<'_>) -> Option<(Pfn, Order)> {
        let order = Order::all().find(|order| !self.chains[order.index()].is_empty())?;
        let (pfn, _) = self.chains[order.index()].pop(map)?;
        self.pages -= order.pages();
        Some((pfn, order))
    }
}
