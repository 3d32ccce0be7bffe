//! Blocks that the engine allocates for requests that failed in the recording.
//!
//! After a failed request for a huge page, the recorded task continued with single pages. With the huge page it would
//! have requested none of them. The replay therefore maps these single pages to the pages of the huge page, one after
//! the other, so that memory in use is as in the recording. A task requests a huge page twice, with more and with less
//! effort; the second request is left out if the first one succeeded, and the huge page then stands for that of a second
//! request that was served. The rest of a huge page is freed when its task
//! next requests a huge page that the recorded kernel refused.
//!
//! Smaller blocks are handled similarly. A task whose request fails immediately requests a smaller block. If the engine
//! serves the first request, the task keeps that block, which then stands for the smaller recorded block.

use freehold::base::{CpuId, Gfp, MigrateType, Order, Pfn};
use rustc_hash::FxHashMap;

use super::super::HUGE;
use super::super::identity::Tenant;
use super::waiting::Claim;
use super::{Consequences, Player};

/// Blocks that tasks hold instead of those that they requested in the recording.
#[derive(Debug, Default)]
pub(crate) struct HeldPages {
    by_task: FxHashMap<u32, FilledHugePage>,
    /// For each task, a block smaller than a huge page that the recorded kernel refused, until the task's next other
    /// request.
    kept: FxHashMap<u32, KeptBlock>,
    /// Orders of blocks that are larger than the recorded frames they stand for, by the first of these frames.
    whole: FxHashMap<Tenant, Order>,
}

/// A block that is kept for a task's next request.
#[derive(Clone, Copy, Debug)]
struct KeptBlock {
    pfn: Pfn,
    order: Order,
    migratetype: Option<MigrateType>,
}

#[derive(Clone, Copy, Debug)]
struct FilledHugePage {
    pfn: Pfn,
    /// Number of its pages that stand for recorded ones.
    used: u32,
}

/// Returns whether a request is for a huge page of a task.
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

    /// Maps a single-page request to the next page of the task's huge page. Returns `false` if the task holds no huge
    /// page, reclaim is played as recorded, or the request is not for zeroed movable memory of order 0. On success,
    /// that page stands for the frame `recorded`.
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

    /// Lets the huge page that a task holds stand for the one that its second request got in the recording: the engine
    /// served the first request. Returns `false` if the task holds no unused huge page, or requests something else.
    pub(super) fn has_served_first(&mut self, claim: &Claim, recorded: usize) -> bool {
        let Claim { task, gfp, order, cpu, row, .. } = *claim;
        let Some(held) = self.held_pages().filter(|_| is_huge(gfp, order)) else { return false };
        let Some(&FilledHugePage { pfn, used: 0 }) = held.by_task.get(&task) else { return false };
        held.by_task.remove(&task);
        self.memory().identity.set(recorded, pfn, order.pages() as usize, Some(cpu));
        self.settle_request(recorded, order, row, gfp);
        true
    }

    /// Returns whether a task repeats a request for a huge page that was served: it holds a huge page of which it has
    /// used no page yet. Otherwise, frees the rest of the huge page that the task holds, if any.
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

    /// Returns whether a recorded failure will be left out as a repeat, before its event is played.
    pub(super) fn will_repeat(&mut self, task: u32, gfp: Gfp, order: Order) -> bool {
        is_huge(gfp, order)
            && self
                .held_pages()
                .is_some_and(|held| matches!(held.by_task.get(&task), Some(FilledHugePage { used: 0, .. })))
    }

    /// Gives a huge page to a task whose request failed in the recording. Returns `false` if reclaim is played as
    /// recorded; the caller then frees the page.
    pub(super) fn hold_huge(&mut self, task: u32, pfn: Pfn) -> bool {
        let Some(held) = self.held_pages() else { return false };
        held.by_task.insert(task, FilledHugePage { pfn, used: 0 });
        self.memory().identity.touched().touch(pfn.raw(), Order::new(HUGE).pages());
        true
    }

    /// Keeps a block for a task whose request failed in the recording, in place of the smaller block that the task
    /// requests next. A block that was kept for the task before is freed. Returns `false` if the block is not kept: it
    /// is a single page, or reclaim is played as recorded. The caller then frees it.
    pub(super) fn keep(&mut self, task: u32, gfp: Gfp, pfn: Pfn, order: Order) -> bool {
        let Some(held) = self.held_pages().filter(|_| order > Order::ZERO) else { return false };
        let before = held.kept.insert(task, KeptBlock { pfn, order, migratetype: gfp.migratetype() });
        if let Some(KeptBlock { pfn, order, .. }) = before {
            self.give_back(pfn, order);
        }
        self.memory().identity.touched().touch(pfn.raw(), order.pages());
        true
    }

    /// Returns whether a task already has the requested memory, since a request that failed in the recording was
    /// served. This holds for a repeat of that request and for a smaller request in its place. Any other request frees
    /// the kept block.
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
                self.note_mapping(recorded, pages, claim.gfp);
                true
            }
            None => {
                self.give_back(kept.pfn, kept.order);
                false
            }
        }
    }

    /// Removes and returns the order of the block that stands for a tenant, if that block is larger than the recorded
    /// one.
    pub(super) fn take_whole(&mut self, tenant: Tenant) -> Option<Order> {
        self.held_pages().filter(|held| !held.whole.is_empty())?.whole.remove(&tenant)
    }

    fn give_back_rest(&mut self, pfn: Pfn, used: u32) {
        let huge = Order::new(HUGE);
        // The pages in use may have been freed, which has already cut the block.
        if self.engine.allocated_block(pfn) == Some((pfn, huge)) {
            self.cut(pfn, huge, Order::ZERO);
        }
        (used..huge.pages()).for_each(|page| self.give_back(pfn.offset(page), Order::ZERO));
    }
}
