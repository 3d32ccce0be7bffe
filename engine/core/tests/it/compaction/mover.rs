//! A platform that moves what it is asked to, but for what is pinned.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use freehold::base::{Gfp, Order, Pfn};
use freehold::platform::{FreePages, Migrated, Migration, Reclaim, Reclaimed, SplitBlock};

use crate::common::Hooks;
use crate::common::owners::Owners;
use crate::compaction::Engine;

/// The platform.
#[derive(Default)]
pub(super) struct Mover {
    owners: RefCell<Owners>,
    /// Owner of each block, by where it was at first.
    known: RefCell<BTreeMap<u32, u32>>,
    pinned: RefCell<Vec<u32>>,
    /// Every move that was made.
    pub moves: RefCell<Vec<Migration>>,
    pub refused: Cell<u32>,
    /// Whether blocks may be split.
    pub splits: Cell<bool>,
    /// Pages at these places are given back when reclaim is asked for, one for each call.
    pub cold: RefCell<Vec<u32>>,
}

impl Mover {
    /// Allocates exactly this page, movable, and owns it.
    pub(super) fn own(&self, engine: &Engine<'_, '_>, pfn: u32) {
        self.own_block(engine, pfn, Order::ZERO);
    }

    /// The same of a block.
    pub(super) fn own_block(&self, engine: &Engine<'_, '_>, pfn: u32, order: Order) {
        let head = Pfn::new(pfn);
        assert_eq!(engine.isolate_free_page(head, order, Gfp::HIGHUSER_MOVABLE | Gfp::COMP), Ok(true));
        let owner = self.owners.borrow_mut().add(head, order, 1);
        self.known.borrow_mut().insert(pfn, owner);
    }

    /// Frees pages by where they were at first, wherever they are now.
    pub(super) fn free(&self, engine: &Engine<'_, '_>, pages: impl IntoIterator<Item = u32>) {
        for pfn in pages {
            let owner = self.known.borrow_mut().remove(&pfn).expect("the page is owned");
            let (pfn, order) = self.owners.borrow_mut().remove(owner);
            engine.free_pages(pfn, order).expect("the page is allocated");
        }
    }

    /// Frees everything that is left.
    pub(super) fn free_all(&self, engine: &Engine<'_, '_>) {
        let left: Vec<u32> = self.known.borrow().keys().copied().collect();
        self.free(engine, left);
    }

    /// Frees the pages of blocks that were split, which are known by no place.
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

    /// Where the page is now that was here at first.
    pub(super) fn place(&self, pfn: u32) -> u32 {
        self.owners.borrow().place(self.known.borrow()[&pfn]).raw()
    }

    /// What lies here stays here.
    pub(super) fn pin(&self, pfn: u32) {
        self.pinned.borrow_mut().push(pfn);
    }

    pub(super) fn unpin_all(&self) {
        self.pinned.borrow_mut().clear();
    }

    /// From where pages were moved so far, and forgets it.
    pub(super) fn sources(&self) -> Vec<u32> {
        self.moves.take().iter().map(|migration| migration.from.raw()).collect()
    }
}

impl Hooks for Mover {
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
