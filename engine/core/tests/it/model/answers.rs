//! The platform's answers during a request or a background task: it frees some blocks or none, moves blocks or refuses,
//! and sometimes lies about the number of freed pages. Each answer is recorded, and the reference gets the same
//! answers.

use freehold::base::{NodeId, ZoneKind};
use freehold::platform::{FreePages, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request};

use crate::common::Hooks;
use crate::model::reference::{Block, Call, Honesty};
use crate::model::runner::Runner;

/// Maximum number of calls in one request in which the platform helps.
const PATIENCE: u32 = 30;

impl Runner<'_, '_> {
    /// Frees up to `most` blocks on behalf of the platform, and returns them.
    fn sacrifice(&self, pages: &dyn FreePages, most: u32) -> Vec<Block> {
        let mut freed = Vec::new();
        let blocks = self.luck.borrow_mut().u32(0..=most);
        for _ in 0..blocks {
            let pick = self.luck.borrow_mut().u32(..);
            let Some(place) = self.frame_model.borrow().pick(pick) else { break };
            let live = self.frame_model.borrow().live[place].clone();
            if live.poisoned || live.refs != 1 {
                continue;
            }
            match live.order {
                0 => pages.free_pages_bulk(&[live.head()]),
                _ => pages.free_pages(live.head(), live.order()),
            }
            let mut frame_model = self.frame_model.borrow_mut();
            frame_model.live.swap_remove(place);
            freed.extend(frame_model.take_back(live.pfn, live.order));
        }
        freed
    }

    /// Counts a call. Returns whether the platform stops helping.
    fn is_spent(&self) -> bool {
        self.calls.set(self.calls.get() + 1);
        self.calls.get() > PATIENCE
    }

    fn note(&self, call: Call) {
        self.log.borrow_mut().push(call);
    }

    fn chance(&self, one_in: u32) -> bool {
        self.luck.borrow_mut().u32(0..one_in) == 0
    }
}

impl Hooks for Runner<'_, '_> {
    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let helps = !self.is_spent() && self.chance(3);
        let freed = if helps { self.sacrifice(pages, 6) } else { Vec::new() };
        let came: u64 = freed.iter().map(|&(_, order)| 1 << order).sum();
        let scanned = came + u64::from(self.luck.borrow_mut().u32(0..64));
        let honesty = if self.chance(8) { Honesty::Lie } else { Honesty::Truth };
        let said = if honesty == Honesty::Lie { came + 1 } else { came };
        self.note(Call::Reclaim(*wanted, freed, scanned, honesty));
        Reclaimed { pages: said, scanned }
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let Migration { from, to, order, effort, .. } = *migration;
        let refused = self.chance(6);
        let answer = if refused { Migrated::Refused } else { self.move_live(migration) };
        self.note(Call::Migrate((from, to, order, effort), answer));
        answer
    }

    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        self.reclaimable.get()
    }

    fn out_of_memory(&self, pages: &dyn FreePages, _request: &Request) -> OutOfMemory {
        let freed = if self.is_spent() { Vec::new() } else { self.sacrifice(pages, 3) };
        let honesty = if self.chance(4) { Honesty::Lie } else { Honesty::Truth };
        let claims = freed.is_empty() == (honesty == Honesty::Lie);
        self.note(Call::OutOfMemory(freed, honesty));
        if claims { OutOfMemory::Freed } else { OutOfMemory::NothingFreed }
    }

    fn wake_kswapd(&self, node: NodeId) {
        self.note(Call::Kswapd(node));
    }

    fn wake_kcompactd(&self, node: NodeId) {
        self.note(Call::Kcompactd(node));
    }

    fn relax(&self) -> Patience {
        let patience = if self.is_spent() { Patience::GiveUp } else { Patience::Wait };
        self.note(Call::Relax(patience));
        patience
    }
}

impl Runner<'_, '_> {
    /// Moves a live block if it is as described in the request and the target is free. Records a problem otherwise.
    fn move_live(&self, migration: &Migration) -> Migrated {
        let Migration { from, to, order, refs, .. } = *migration;
        let mut frame_model = self.frame_model.borrow_mut();
        let Some(live) = frame_model.live.iter_mut().find(|live| live.pfn == from.raw()) else {
            return self.complain(migration);
        };
        if (live.order(), live.refs, live.movable, live.poisoned) != (order, refs, true, false) {
            return self.complain(migration);
        }
        live.pfn = to.raw();
        if frame_model.relocate(from.raw(), to.raw(), order.get()) { Migrated::Moved } else { self.complain(migration) }
    }

    fn complain(&self, migration: &Migration) -> Migrated {
        self.problem.borrow_mut().get_or_insert(format!("there is no such move: {migration:?}"));
        Migrated::Refused
    }
}
