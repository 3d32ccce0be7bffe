//! Platform that moves all blocks as requested, except for pinned ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use freehold::base::{Gfp, Order, Pfn};
use freehold::platform::{FreePages, Isolation, Migrated, Migration, Reclaim, Reclaimed, SplitBlock};

use crate::common::Hooks;
use crate::common::owners::Owners;
use crate::compaction::Engine;

/// Platform that owns and moves pages.
#[derive(Default)]
pub(super) struct Mover {
    owners: RefCell<Owners>,
    /// Owner of each block, by the block's original place.
    known: RefCell<BTreeMap<u32, u32>>,
    pinned: RefCell<Vec<u32>>,
    /// Whether all pages belong to files, so that requests without FS may not move them.
    pub files: Cell<bool>,
    /// All requests to isolate a block so far.
    pub asked: RefCell<Vec<Isolation>>,
    /// All moves so far.
    pub moves: RefCell<Vec<Migration>>,
    pub refused: Cell<u32>,
    /// Whether blocks may be split.
    pub splits: Cell<bool>,
    /// Pages that reclaim frees, one per call, by their original place.
    pub cold: RefCell<Vec<u32>>,
}

impl Mover {
    /// Allocates this page as movable, and becomes its owner.
    pub(super) fn own(&self, engine: &Engine<'_, '_>, pfn: u32) {
        self.own_block(engine, pfn, Order::ZERO);
    }

    /// Allocates a block as movable, and becomes its owner.
    pub(super) fn own_block(&self, engine: &Engine<'_, '_>, pfn: u32, order: Order) {
        let head = Pfn::new(pfn);
        assert_eq!(engine.isolate_free_page(head, order, Gfp::HIGHUSER_MOVABLE | Gfp::COMP), Ok(true));
        let owner = self.owners.borrow_mut().add(head, order, 1);
        self.known.borrow_mut().insert(pfn, owner);
    }

    /// Frees pages, named by their original place, from their current place.
    pub(super) fn free(&self, engine: &Engine<'_, '_>, pages: impl IntoIterator<Item = u32>) {
        for pfn in pages {
            let owner = self.known.borrow_mut().remove(&pfn).expect("the page is owned");
            let (pfn, order) = self.owners.borrow_mut().remove(owner);
            engine.free_pages(pfn, order).expect("the page is allocated");
        }
    }

    /// Frees all pages that are left.
    pub(super) fn free_all(&self, engine: &Engine<'_, '_>) {
        let left: Vec<u32> = self.known.borrow().keys().copied().collect();
        self.free(engine, left);
    }

    /// Frees the pages of blocks that were split. These pages have no original place.
    pub(super) fn forget_split(&self, engine: &Engine<'_, '_>) {
        let known = self.known.borrow();
        let split = self
            .owners
            .borrow()
            .owners()
            .filter(|owner| !known.values().any(|known| known == owner))
            .collect::<Vec<_>>();
        drop(known);
        for owner in split {
            let (pfn, order) = self.owners.borrow_mut().remove(owner);
            engine.free_pages(pfn, order).expect("the page is allocated");
        }
        let owners = self.owners.borrow();
        self.known.borrow_mut().retain(|_, owner| owners.owners().any(|left| left == *owner));
    }

    /// Returns the current place of the page that was originally at `pfn`.
    pub(super) fn place(&self, pfn: u32) -> u32 {
        self.owners.borrow().place(self.known.borrow()[&pfn]).raw()
    }

    /// Pins the page at `pfn`: its moves are refused.
    pub(super) fn pin(&self, pfn: u32) {
        self.pinned.borrow_mut().push(pfn);
    }

    pub(super) fn unpin_all(&self) {
        self.pinned.borrow_mut().clear();
    }

    /// Returns the sources of all moves so far, and clears the list of moves.
    pub(super) fn sources(&self) -> Vec<u32> {
        self.moves.take().iter().map(|migration| migration.from.raw()).collect()
    }
}

impl Hooks for Mover {
    fn can_isolate(&self, isolation: &Isolation) -> bool {
        self.asked.borrow_mut().push(*isolation);
        !self.files.get() || isolation.gfp.contains(Gfp::FS)
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let stays = self.pinned.borrow().contains(&migration.from.raw());
        let answer = if stays { Migrated::Refused } else { self.owners.borrow_mut().migrate(migration) };
        match answer {
            Migrated::Moved => self.moves.borrow_mut().push(*migration),
            Migrated::Refused => self.refused.set(self.refused.get() + 1),
        }
        answer
    }

    fn split(&self, block: &dyn SplitBlock) {
        if self.splits.get() && block.split() {
            self.owners.borrow_mut().split(block.pfn());
        }
    }

    fn reclaim(&self, pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let Some(pfn) = self.cold.borrow_mut().pop() else { return Reclaimed::default() };
        let owner = self.known.borrow_mut().remove(&pfn).expect("a cold page is owned");
        let (at, order) = self.owners.borrow_mut().remove(owner);
        pages.free_pages(at, order);
        Reclaimed { pages: 1, scanned: 1 }
    }
}
