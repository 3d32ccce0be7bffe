//! Huge pages that the engine could serve, and the recorded kernel could not.
//!
//! The recorded task went on with single pages. Had it got its huge page, it would have asked for none of them; so they
//! are found in the huge page, one after the other, and memory holds what it held in the recording. A task asks for a
//! huge page twice, more and less eagerly: the second request is not made when the first was served. What is left of a
//! huge page when its task asks for the next is given back.
//!
//! Smaller blocks likewise: a task that was refused one asks for less at once. If the engine serves it, the block is
//! the task's, and stands for what it would have asked for instead.

use freehold::base::{CpuId, Gfp, MigrateType, Order, Pfn};
use rustc_hash::FxHashMap;

use super::super::HUGE;
use super::super::identity::Tenant;
use super::waiting::Claim;
use super::{Consequences, Player};

/// For each task, the huge page that it fills.
#[derive(Debug, Default)]
pub(crate) struct HeldPages {
    by_task: FxHashMap<u32, FilledHugePage>,
    /// For each task, a smaller block that it asked for in vain in the recording, until it asks again.
    kept: FxHashMap<u32, KeptBlock>,
    /// Blocks that stand for fewer recorded frames than they have, by the first of these.
    whole: FxHashMap<Tenant, Order>,
}

/// A block that is for a task's next request.
#[derive(Clone, Copy, Debug)]
struct KeptBlock {
    pfn: Pfn,
    order: Order,
    migratetype: Option<MigrateType>,
}

#[derive(Clone, Copy, Debug)]
struct FilledHugePage {
    pfn: Pfn,
    /// Its pages that stand for recorded ones.
    used: u32,
}

/// Whether a request is for a huge page of a task.
pub(crate) fn is_huge(gfp: Gfp, order: Order) -> bool {
    order.get() == HUGE && gfp.contains(Gfp::MOVABLE)
}

impl Player<'_, '_> {
    fn held_pages(&mut self) -> Option<&mut HeldPages> {
        match &mut self.consequences {
            Consequences::Model(model) => Some(&mut model.held),
            Consequences::Recorded(_) => None,
        }
    }

    /// A single page of the huge one that the task holds, if this request would not have been made; it stands for
    /// `recorded` now.
    pub(super) fn find_in_huge(&mut self, task: u32, gfp: Gfp, order: Order, recorded: usize, cpu: CpuId) -> bool {
        if order != Order::ZERO || !gfp.contains(Gfp::MOVABLE | Gfp::ZERO) {
            return false;
        }
        let Some(held) = self.held_pages().and_then(|held| held.by_task.get_mut(&task)) else { return false };
        let pfn = held.pfn.offset(held.used);
        held.used += 1;
        if held.used == Order::new(HUGE).pages() {
            self.held_pages().map(|held| held.by_task.remove(&task));
        }
        self.memory().identity.set(recorded, pfn, 1, Some(cpu));
        true
    }

    /// Whether a task repeats a request for a huge page that was served. If not, it is done with the last one.
    pub(super) fn repeats_huge(&mut self, task: u32) -> bool {
        let Some(held) = self.held_pages() else { return false };
        match held.by_task.get(&task) {
            Some(FilledHugePage { used: 0, .. }) => true,
            Some(&FilledHugePage { pfn, used }) => {
                held.by_task.remove(&task);
                self.give_back_rest(pfn, used);
                false
            }
            None => false,
        }
    }

    /// Whether a recorded failure is going to be one that is not repeated, before its event.
    pub(super) fn will_repeat(&mut self, task: u32, gfp: Gfp, order: Order) -> bool {
        is_huge(gfp, order)
            && self
                .held_pages()
                .is_some_and(|held| matches!(held.by_task.get(&task), Some(FilledHugePage { used: 0, .. })))
    }

    /// A request that failed in the recording brought a huge page. `false` if nobody is to hold it.
    pub(super) fn hold_huge(&mut self, task: u32, pfn: Pfn) -> bool {
        let Some(held) = self.held_pages() else { return false };
        held.by_task.insert(task, FilledHugePage { pfn, used: 0 });
        self.memory().identity.touched().touch(pfn.raw(), Order::new(HUGE).pages());
        true
    }

    /// A request that failed in the recording brought a block: its task is about to ask for less instead, and will not.
    /// `false` if nobody is to keep it.
    pub(super) fn keep(&mut self, task: u32, gfp: Gfp, pfn: Pfn, order: Order) -> bool {
        let Some(held) = self.held_pages().filter(|_| order > Order::ZERO) else { return false };
        let before = held.kept.insert(task, KeptBlock { pfn, order, migratetype: gfp.migratetype() });
        if let Some(KeptBlock { pfn, order, .. }) = before {
            self.give_back(pfn, order);
        }
        self.memory().identity.touched().touch(pfn.raw(), order.pages());
        true
    }

    /// Whether a task has what it claims already, since a request that failed in the recording was served: this is the
    /// same request again, or a smaller one in its place.
    pub(super) fn has_kept(&mut self, claim: Claim) -> bool {
        let Some(held) = self.held_pages().filter(|held| !held.kept.is_empty()) else { return false };
        let Some(kept) = held.kept.get(&claim.task).copied() else { return false };
        let is_alike = claim.gfp.migratetype() == kept.migratetype;
        if claim.recorded.is_none() && is_alike && claim.order <= kept.order {
            return true;
        }
        held.kept.remove(&claim.task);
        match claim.recorded.filter(|_| is_alike && claim.order < kept.order) {
            Some(recorded) => {
                held.whole.insert(recorded, kept.order);
                let pages = claim.order.pages() as usize;
                self.memory().identity.set(recorded, kept.pfn, pages, Some(claim.cpu));
                true
            }
            None => {
                self.give_back(kept.pfn, kept.order);
                false
            }
        }
    }

    /// Order of the block that stands for a tenant, where that is larger than what was recorded; it does so no longer.
    pub(super) fn take_whole(&mut self, tenant: Tenant) -> Option<Order> {
        self.held_pages().filter(|held| !held.whole.is_empty())?.whole.remove(&tenant)
    }

    fn give_back_rest(&mut self, pfn: Pfn, used: u32) {
        let huge = Order::new(HUGE);
        // The pages in use may have been freed, and the block cut by that.
        if self.engine.allocated_block(pfn) == Some((pfn, huge)) {
            self.cut(pfn, huge, Order::ZERO);
        }
        (used..huge.pages()).for_each(|page| self.give_back(pfn.offset(page), Order::ZERO));
    }
}
