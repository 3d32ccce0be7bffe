//! Record of a frame: its owner, and its neighbours in a list. Twelve bytes.
//!
//! The owner is one packed word. For a block on one of the node's lists (`lists`), the owner names the list, and the
//! two links are its neighbours there. For a page of a task, the owner is the range and the page within it, so that
//! migration finds the entry to change. Only the head of a block has an owner.
//!
//! ```text
//! 31..29 kind    28 referenced    27 pinned    26..0 payload:
//!     file    0..4 order, 4 dirty
//!     task    9.. range, 0..9 page of it
//!     slab    0..4 order, 4.. objects left
//! ```

use std::cell::Cell;

use freehold::base::{Order, Pfn};

/// Link value at the end of a list.
const END: u32 = u32::MAX;
const KIND_SHIFT: u32 = 29;
const REFERENCED: u32 = 1 << 28;
const PINNED: u32 = 1 << 27;
const DIRTY: u32 = 1 << 4;
const ORDER_MASK: u32 = 0xf;
const SLAB_SHIFT: u32 = 4;
/// Pages of a range, as a power of two: those of a huge page.
pub(super) const RANGE_SHIFT: u32 = 9;
/// Maximum number of ranges: 512 GiB of tasks' memory.
pub(super) const RANGES_MAX: u32 = 1 << (27 - RANGE_SHIFT);

/// Kinds of owner besides the lists. The kind of a list is its number, counted from 1.
const KIND_TASK: u32 = 4;
const KIND_SLAB: u32 = 5;

/// A list of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Pages of files that were used at most once since they joined the list.
    InactiveFile,
    /// Pages of files that were used more often.
    ActiveFile,
    /// Pages of files under writeback.
    Writeback,
}

impl List {
    /// All lists.
    pub(super) const ALL: [List; 3] = [List::InactiveFile, List::ActiveFile, List::Writeback];
}

/// Owner of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(u32);

/// Position of a page within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the range.
    pub range: u32,
    /// Number of the page within the range.
    pub page: u32,
}

impl Owner {
    /// No owner known to the model: the block is free, or its holder refers to it by address.
    pub(super) const NOBODY: Owner = Owner(0);

    /// Returns the owner of a block in the page cache.
    pub(super) fn file(list: List, order: Order) -> Owner {
        Owner((list as u32 + 1) << KIND_SHIFT | u32::from(order.get()))
    }

    /// Returns the owner of a task's page.
    pub(super) fn task(place: Place) -> Owner {
        debug_assert!(place.range < RANGES_MAX && place.page < 1 << RANGE_SHIFT);
        Owner(KIND_TASK << KIND_SHIFT | place.range << RANGE_SHIFT | place.page)
    }

    /// Returns the owner of a slab with this number of objects, below 2^23.
    pub(super) fn slab(order: Order, objects: u32) -> Owner {
        debug_assert!(objects < PINNED >> SLAB_SHIFT);
        Owner(KIND_SLAB << KIND_SHIFT | objects << SLAB_SHIFT | u32::from(order.get()))
    }

    /// Returns the list that the block is on; `None` if it is not in the page cache.
    pub(super) fn list(self) -> Option<List> {
        List::ALL.get((self.0 >> KIND_SHIFT).wrapping_sub(1) as usize).copied()
    }

    /// Returns the position of a task's page; `None` if the block has another kind of owner.
    pub(super) fn place(self) -> Option<Place> {
        let body = self.0 & (PINNED - 1);
        (self.0 >> KIND_SHIFT == KIND_TASK)
            .then_some(Place { range: body >> RANGE_SHIFT, page: body & ((1 << RANGE_SHIFT) - 1) })
    }

    /// Returns the number of objects left on a slab; `None` if the block is not a slab.
    pub(super) fn objects(self) -> Option<u32> {
        (self.0 >> KIND_SHIFT == KIND_SLAB).then_some((self.0 & (PINNED - 1)) >> SLAB_SHIFT)
    }

    /// Returns the order of a block of a file or of a slab. The order of a task's block is recorded in its range.
    pub(super) fn order(self) -> Option<Order> {
        let is_known = self.list().is_some() || self.objects().is_some();
        is_known.then(|| Order::new((self.0 & ORDER_MASK) as u8))
    }

    /// Returns this owner with another list.
    pub(super) fn with_list(self, list: List) -> Owner {
        Owner(self.0 & !(7 << KIND_SHIFT) | (list as u32 + 1) << KIND_SHIFT)
    }

    /// Returns whether the page was used since the flag was last cleared.
    pub(super) fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    /// Returns this owner with the referenced flag set.
    pub(super) fn referenced(self) -> Owner {
        Owner(self.0 | REFERENCED)
    }

    /// Returns this owner with the referenced flag cleared.
    pub(super) fn unreferenced(self) -> Owner {
        Owner(self.0 & !REFERENCED)
    }

    /// Returns whether a device uses the page.
    pub(super) fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }

    /// Returns this owner with the pinned flag set.
    pub(super) fn pinned(self) -> Owner {
        Owner(self.0 | PINNED)
    }

    /// Returns this owner with the pinned flag cleared.
    pub(super) fn unpinned(self) -> Owner {
        Owner(self.0 & !PINNED)
    }

    /// Returns whether a page of a file must be written back before it can be freed.
    pub(super) fn is_dirty(self) -> bool {
        self.list().is_some() && self.0 & DIRTY != 0
    }

    /// Returns this owner of a page of a file with the dirty flag set.
    pub(super) fn dirty(self) -> Owner {
        Owner(self.0 | DIRTY)
    }

    /// Returns this owner of a page of a file with the dirty flag cleared.
    pub(super) fn clean(self) -> Owner {
        Owner(self.0 & !DIRTY)
    }
}

/// Record of a frame.
struct Record {
    owner: Cell<u32>,
    next: Cell<u32>,
    previous: Cell<u32>,
}

const _: () = assert!(size_of::<Record>() == 12);

impl Record {
    fn new() -> Record {
        Record { owner: Cell::new(0), next: Cell::new(END), previous: Cell::new(END) }
    }
}

/// Records of all frames.
pub(super) struct Frames(Box<[Record]>);

impl Frames {
    /// Creates `pages` records without an owner.
    pub(super) fn new(pages: u32) -> Frames {
        Frames((0..pages).map(|_| Record::new()).collect())
    }

    /// Iterates over all frames.
    pub(super) fn iter(&self) -> impl Iterator<Item = Pfn> + use<> {
        (0..self.0.len() as u32).map(Pfn::new)
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns the owner of a frame.
    #[inline]
    pub(super) fn owner(&self, pfn: Pfn) -> Owner {
        Owner(self.0[pfn.index()].owner.get())
    }

    /// Sets the owner of a frame.
    #[inline]
    pub(super) fn set_owner(&self, pfn: Pfn, owner: Owner) {
        self.0[pfn.index()].owner.set(owner.0);
    }

    /// Clears the owner of a frame.
    #[inline]
    pub(super) fn disown(&self, pfn: Pfn) {
        self.set_owner(pfn, Owner::NOBODY);
    }

    /// Returns the head of the next block of the list, towards the tail; `None` at the tail.
    #[inline]
    pub(super) fn next(&self, pfn: Pfn) -> Option<Pfn> {
        link(&self.0[pfn.index()].next)
    }

    /// Returns the head of the previous block of the list, towards the head; `None` at the head.
    #[inline]
    pub(super) fn previous(&self, pfn: Pfn) -> Option<Pfn> {
        link(&self.0[pfn.index()].previous)
    }

    /// Sets the next frame of the list.
    #[inline]
    pub(super) fn set_next(&self, pfn: Pfn, next: Option<Pfn>) {
        self.0[pfn.index()].next.set(next.map_or(END, Pfn::raw));
    }

    /// Sets the previous frame of the list.
    #[inline]
    pub(super) fn set_previous(&self, pfn: Pfn, previous: Option<Pfn>) {
        self.0[pfn.index()].previous.set(previous.map_or(END, Pfn::raw));
    }
}

#[inline]
fn link(cell: &Cell<u32>) -> Option<Pfn> {
    Pfn::from_u64(u64::from(cell.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_word_round_trips() {
        let place = Place { range: RANGES_MAX - 1, page: 511 };
        let task = Owner::task(place).pinned();
        assert_eq!((task.place(), task.list(), task.objects(), task.order()), (Some(place), None, None, None));
        assert!(task.is_pinned() && !task.is_referenced() && !task.is_dirty());
        let slab = Owner::slab(Order::new(3), 168);
        assert_eq!((slab.objects(), slab.order(), slab.list()), (Some(168), Some(Order::new(3)), None));
        for list in List::ALL {
            let file = Owner::file(list, Order::new(2)).dirty().referenced();
            assert_eq!((file.list(), file.order(), file.place()), (Some(list), Some(Order::new(2)), None));
            assert!(file.is_dirty() && file.is_referenced() && !file.clean().is_dirty());
            assert_eq!(
                file.with_list(List::ActiveFile).unreferenced(),
                Owner::file(List::ActiveFile, Order::new(2)).dirty()
            );
        }
        assert_eq!((Owner::NOBODY.list(), Owner::NOBODY.order()), (None, None));
    }
}
