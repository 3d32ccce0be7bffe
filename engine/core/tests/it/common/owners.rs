//! Owners of movable blocks: the part of a kernel that page tables and reverse maps have. A move changes the place of
//! the owner's block. A free looks up the place here first.

use std::collections::BTreeMap;

use freehold::base::{Order, Pfn};
use freehold::platform::{Migrated, Migration};

/// A block that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    pfn: Pfn,
    order: Order,
    refs: u32,
}

/// All movable blocks, by owner and by place.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    blocks: BTreeMap<u32, Owned>,
    at: BTreeMap<u32, u32>,
    next: u32,
}

impl Owners {
    /// Adds a movable block. Returns the number of its owner.
    pub(crate) fn add(&mut self, pfn: Pfn, order: Order, refs: u32) -> u32 {
        self.next += 1;
        self.blocks.insert(self.next, Owned { pfn, order, refs });
        let before = self.at.insert(pfn.raw(), self.next);
        assert_eq!(before, None, "block {pfn} has two owners");
        self.next
    }

    /// Returns all owners.
    pub(crate) fn owners(&self) -> impl Iterator<Item = u32> {
        self.blocks.keys().copied()
    }

    /// Returns the current place of an owner's block.
    pub(crate) fn place(&self, owner: u32) -> Pfn {
        self.blocks[&owner].pfn
    }

    /// Removes a block before it is freed, so that it is not moved any more. Returns its place and order.
    pub(crate) fn remove(&mut self, owner: u32) -> (Pfn, Order) {
        let Owned { pfn, order, .. } = self.blocks.remove(&owner).expect("the owner must hold a block");
        self.at.remove(&pfn.raw());
        (pfn, order)
    }

    /// Replaces the owner of a block by owners of its single pages. The new owners get the next free numbers.
    pub(crate) fn split(&mut self, pfn: Pfn) {
        let owner = self.at[&pfn.raw()];
        let (pfn, order) = self.remove(owner);
        pfn.up_to(pfn.offset(order.pages())).for_each(|page| _ = self.add(page, Order::ZERO, 1));
    }

    /// Moves a block if the place, order and references match the request; refuses otherwise.
    pub(crate) fn migrate(&mut self, migration: &Migration) -> Migrated {
        let Migration { from, to, order, refs, .. } = *migration;
        let Some(&owner) = self.at.get(&from.raw()) else { return Migrated::Refused };
        if self.blocks[&owner] != (Owned { pfn: from, order, refs }) {
            return Migrated::Refused;
        }
        self.at.remove(&from.raw());
        self.at.insert(to.raw(), owner);
        self.blocks.insert(owner, Owned { pfn: to, order, refs });
        Migrated::Moved
    }
}
