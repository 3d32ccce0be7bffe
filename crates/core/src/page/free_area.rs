//! Free lists by order and migratetype: what a zone's lock protects.

use crate::base::list::List;
use crate::base::lock::{Rank, Ranked};
use crate::base::{MigrateType, Order};

/// The lists of one order.
#[derive(Debug)]
pub struct FreeArea {
    lists: [List; MigrateType::COUNT],
}

impl FreeArea {
    const EMPTY: FreeArea = FreeArea { lists: [const { List::EMPTY }; MigrateType::COUNT] };

    /// The list of one type.
    pub fn list(&self, migratetype: MigrateType) -> &List {
        &self.lists[migratetype.index()]
    }

    /// The list of one type, to change.
    pub(super) fn list_mut(&mut self, migratetype: MigrateType) -> &mut List {
        &mut self.lists[migratetype.index()]
    }

    /// Free blocks of this order, of all types.
    pub fn nr_free(&self) -> u32 {
        self.lists.iter().map(List::len).sum()
    }

    /// Whether there is a block of this type.
    pub fn has(&self, migratetype: MigrateType) -> bool {
        !self.list(migratetype).is_empty()
    }
}

/// The lists of a zone.
#[derive(Debug)]
pub struct FreeAreas {
    areas: [FreeArea; Order::COUNT],
}

impl Ranked for FreeAreas {
    const RANK: Rank = Rank::Zone;
}

impl FreeAreas {
    pub(super) const EMPTY: FreeAreas = FreeAreas { areas: [const { FreeArea::EMPTY }; Order::COUNT] };

    /// The lists of one order.
    pub fn area(&self, order: Order) -> &FreeArea {
        &self.areas[order.index()]
    }

    pub(super) fn list_mut(&mut self, order: Order, migratetype: MigrateType) -> &mut List {
        self.areas[order.index()].list_mut(migratetype)
    }
}
