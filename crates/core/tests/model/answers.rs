//! What the platform answers while a request is under way: it frees some blocks, or none, and lies now and then. Each
//! answer is noted for the reference, which is told the same.

use freehold::base::{NodeId, Order, ZoneKind};
use freehold::platform::{CompactEffort, CompactResult, OutOfMemory, Patience, Reclaimed, Request};

use crate::common::Hooks;
use crate::reference::{Block, Call};
use crate::runner::Runner;

/// Calls by one request that the platform can meet.
const PATIENCE: u32 = 12;

impl Runner<'_, '_> {
    /// Frees some blocks on behalf of the platform; returns the parts.
    fn sacrifice(&self, most: u32) -> Vec<Block> {
        let mut parts = Vec::new();
        let blocks = self.luck.borrow_mut().u32(0..=most);
        for _ in 0..blocks {
            let pick = self.luck.borrow_mut().u32(..);
            let Some(place) = self.ledger.borrow().pick(pick) else { break };
            let live = self.ledger.borrow().live[place].clone();
            if live.poisoned {
                continue;
            }
            let freed = match live.refs {
                0 => self.allocator.free_frozen_pages(live.head(), live.order()),
                1 => self.allocator.free_pages(live.head(), live.order()),
                _ => continue,
            };
            freed.expect("a live block can be freed");
            let mut ledger = self.ledger.borrow_mut();
            ledger.live.swap_remove(place);
            parts.extend(ledger.take_back(live.pfn, live.order));
        }
        parts
    }

    /// Counts one more call; says whether the platform is at its end.
    fn is_spent(&self) -> bool {
        self.calls.set(self.calls.get() + 1);
        self.calls.get() > PATIENCE
    }

    fn note(&self, call: Call) {
        self.log.borrow_mut().push(call);
    }
}

impl Hooks for Runner<'_, '_> {
    fn reclaim(&self, _request: &Request) -> Reclaimed {
        let freed = if self.is_spent() { Vec::new() } else { self.sacrifice(6) };
        let honest: u64 = freed.iter().map(|&(_, order)| 1 << order).sum();
        let lie = self.luck.borrow_mut().u32(0..8) == 0 && self.calls.get() <= PATIENCE;
        let pages = if lie { 1 } else { honest };
        self.note(Call::Reclaim(freed, pages));
        Reclaimed { pages }
    }

    fn compact(&self, _request: &Request, effort: CompactEffort) -> CompactResult {
        use CompactResult::{Deferred, Failed, Skipped, Succeeded};
        let result = [Skipped, Deferred, Failed, Succeeded][self.luck.borrow_mut().usize(0..4)];
        self.note(Call::Compact(effort, result));
        result
    }

    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        self.reclaimable.get()
    }

    fn out_of_memory(&self, _request: &Request) -> OutOfMemory {
        let spent = self.is_spent();
        let freed = if spent { Vec::new() } else { self.sacrifice(3) };
        let claimed = !spent && self.luck.borrow_mut().bool();
        self.note(Call::OutOfMemory(freed, claimed));
        if claimed { OutOfMemory::Freed } else { OutOfMemory::NothingFreed }
    }

    fn wake_kswapd(&self, node: NodeId, highest: ZoneKind, order: Order) {
        self.note(Call::Kswapd(node, highest, order));
    }

    fn relax(&self) -> Patience {
        let patience = if self.is_spent() { Patience::GiveUp } else { Patience::Wait };
        self.note(Call::Relax(patience));
        patience
    }
}
