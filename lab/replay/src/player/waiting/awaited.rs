//! Recorded frames of waiting requests. The recording refers to them before the engine has allocated their pages.
//!
//! Pages that another task frees in the meantime are freed as soon as the request has its page. A late task frees its
//! own pages with the same delay, except ranges.

use freehold::base::{CpuId, Order, Pfn};
use freehold_trace::Row;

use super::super::super::identity::Tenant;
use super::super::{Consequences, Player};
use super::{Claim, DetachedFrames, Next, Release};

impl Player<'_, '_> {
    /// Returns whether frames of a request were freed while it waited.
    pub(crate) fn is_gone(&mut self, claim: &Claim) -> bool {
        self.waiting()
            .is_some_and(|waiting| waiting.freed.contains_key(&claim.row) || waiting.detached.contains_key(&claim.row))
    }

    /// Queues the free of a block if its task is late; the block is freed at the task's turn, and from now on another
    /// allocation may use its recorded frames. Returns `false` and changes nothing if the task is not late, or the
    /// frames are not all backed by the engine and not all part of one waiting request of this task.
    pub(crate) fn frees_late(&mut self, row: &Row, order: Order, cpu: CpuId) -> bool {
        let (first, pages) = (row.pfn as usize, order.pages() as usize);
        let Consequences::Model(model) = &mut self.consequences else { return false };
        let waiting = &mut model.waiting;
        if !waiting.late.contains_key(&row.task) {
            return false;
        }
        let mut memory = self.engine.platform().memory();
        let awaited: Vec<_> = (first..first + pages).filter_map(|frame| waiting.awaited.get(&frame).copied()).collect();
        // A frame of another task's request is freed as soon as that request has its page.
        let is_own = awaited.iter().all(|&(number, task)| (number, task) == (awaited[0].0, row.task));
        let tenant = if awaited.len() == pages && is_own {
            (first..first + pages).for_each(|frame| _ = waiting.awaited.remove(&frame));
            let tenant = memory.identity.reserve(pages);
            waiting.detached.entry(awaited[0].0).or_default().push(DetachedFrames { first, pages, tenant });
            tenant
        } else if awaited.is_empty() && (first..first + pages).all(|frame| memory.identity.get(frame).is_some()) {
            memory.move_out(first, pages)
        } else {
            return false;
        };
        drop(memory);
        let late = waiting.late.get_mut(&row.task).expect("the task is late");
        late.queue.push_back(Next::Free(Release { tenant, order, cpu, time: row.time }));
        if late.queue.len() == 1 {
            waiting.plan_next(row.task, row.time);
        }
        true
    }

    /// Returns the frames of a request that were freed while the request waited, and removes the request's other frames
    /// from the awaited ones.
    pub(crate) fn take_freed(&mut self, claim: &Claim) -> Vec<usize> {
        self.waiting().map(|waiting| waiting.take_freed(claim)).unwrap_or_default()
    }

    /// Frees a block of which some frames belong to waiting requests. Returns `false` and changes nothing if none does.
    pub(crate) fn frees_before_its_time(&mut self, recorded: usize, pages: usize) -> bool {
        if self.waiting().is_none_or(|waiting| waiting.awaited.is_empty()) {
            return false;
        }
        let there: Vec<usize> = (recorded..recorded + pages).filter(|&frame| !self.frees_awaited(frame)).collect();
        let is_partly = there.len() < pages;
        if is_partly {
            there.into_iter().for_each(|frame| self.free_page(frame));
        }
        is_partly
    }

    /// Returns whether a recorded frame belongs to a waiting request. If so, it is marked to be freed as soon as the
    /// request has its page.
    pub(crate) fn frees_awaited(&mut self, recorded: usize) -> bool {
        let Some(waiting) = self.waiting().filter(|waiting| !waiting.awaited.is_empty()) else { return false };
        let Some((row, _)) = waiting.awaited.remove(&recorded) else { return false };
        waiting.freed.entry(row).or_default().push(recorded);
        true
    }

    /// Maps the recorded frames of a request to its block, except the frames that were freed while the request waited.
    /// The pages for these frames are freed.
    pub(crate) fn serve_partly(&mut self, claim: Claim, pfn: Pfn, freed: &[usize]) {
        self.engine.platform().run_on(claim.cpu);
        if freed.len() == claim.frames().len() {
            return self.give_back(pfn, claim.order);
        }
        for (page, tenant) in (0..).zip(self.tenants_of(&claim, freed)) {
            let here = pfn.offset(page);
            if let Some(tenant) = tenant {
                self.set_page(tenant, here, claim.gfp, claim.cpu);
            } else {
                self.cut(pfn, claim.order, Order::ZERO);
                self.give_back(here, Order::ZERO);
            }
        }
    }

    /// Returns the tenant for each page of a request; `None` for pages that were freed while the request waited. May be
    /// called once for a request, since it removes the record of detached frames.
    pub(crate) fn tenants_of(&mut self, claim: &Claim, freed: &[usize]) -> Vec<Option<Tenant>> {
        let detached = self.waiting().and_then(|waiting| waiting.detached.remove(&claim.row)).unwrap_or_default();
        claim.frames().map(|frame| (!freed.contains(&frame)).then(|| tenant_of(frame, &detached))).collect()
    }
}

/// Returns the tenant that stands for a recorded frame.
fn tenant_of(frame: usize, detached: &[DetachedFrames]) -> Tenant {
    let frames = detached.iter().find(|frames| (frames.first..frames.first + frames.pages).contains(&frame));
    frames.map_or(frame, |frames| frames.tenant + frame - frames.first)
}
