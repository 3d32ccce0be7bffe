//! The record of a frame: who has it, and its neighbours in the list that it is on. Twelve bytes.
//!
//! The owner is one packed word. What has a list of its own (`lists`) is named by that list; its neighbours are then
//! the two links. A page of a task says which page of which range it is, so that who moves it finds the entry to
//! change. Only the head of a block has an owner.
//!
//! ```text
//! 31..29 kind    28 referenced    27 pinned    26..0 what it is:
//!     file    0..4 order, 4 dirty
//!     task    9.. range, 0..9 page of it
//!     slab    0..4 order, 4.. objects left
//! ```

use std::cell::Cell;

use freehold::base::{Order, Pfn};

/// The end of a list.
const END: u32 = u32::MAX;
const KIND_SHIFT: u32 = 29;
const REFERENCED: u32 = 1 << 28;
const PINNED: u32 = 1 << 27;
const DIRTY: u32 = 1 << 4;
const ORDER_MASK: u32 = 0xf;
const SLAB_SHIFT: u32 = 4;
/// Pages of a range, as a power of two: those of a huge page.
pub(super) const RANGE_SHIFT: u32 = 9;
/// Ranges that have names: 512 GiB of tasks' memory.
pub(super) const RANGES_MAX: u32 = 1 << (27 - RANGE_SHIFT);

/// Kinds of owner beside the lists, whose kinds are their numbers from 1 up.
const KIND_TASK: u32 = 4;
const KIND_SLAB: u32 = 5;

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Files' pages that were used at most once since they came here.
    InactiveFile,
    /// Files' pages that were used more often.
    ActiveFile,
    /// Files' pages that are being written.
    Writeback,
}

impl List {
    /// All of them.
    pub(super) const ALL: [List; 3] = [List::InactiveFile, List::ActiveFile, List::Writeback];
}

/// Who has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(u32);

/// A page of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The range's number.
    pub range: u32,
    /// The page's, in it.
    pub page: u32,
}

impl Owner {
    /// Nobody that the model knows: free, or somebody's who holds it by its address.
    pub(super) const NOBODY: Owner = Owner(0);

    /// The page cache.
    pub(super) fn file(list: List, order: Order) -> Owner {
        Owner((list as u32 + 1) << KIND_SHIFT | u32::from(order.get()))
    }

    /// A task.
    pub(super) fn task(place: Place) -> Owner {
        debug_assert!(place.range < RANGES_MAX && place.page < 1 << RANGE_SHIFT);
        Owner(KIND_TASK << KIND_SHIFT | place.range << RANGE_SHIFT | place.page)
    }

    /// A slab with so many objects, at most 2^23.
    pub(super) fn slab(order: Order, objects: u32) -> Owner {
        debug_assert!(objects < PINNED >> SLAB_SHIFT);
        Owner(KIND_SLAB << KIND_SHIFT | objects << SLAB_SHIFT | u32::from(order.get()))
    }

    /// The list that it is on.
    pub(super) fn list(self) -> Option<List> {
        List::ALL.get((self.0 >> KIND_SHIFT).wrapping_sub(1) as usize).copied()
    }

    /// The place of a task's page.
    pub(super) fn place(self) -> Option<Place> {
        let body = self.0 & (PINNED - 1);
        (self.0 >> KIND_SHIFT == KIND_TASK)
            .then_some(Place { range: body >> RANGE_SHIFT, page: body & ((1 << RANGE_SHIFT) - 1) })
    }

    /// Objects left on a slab.
    pub(super) fn objects(self) -> Option<u32> {
        (self.0 >> KIND_SHIFT == KIND_SLAB).then_some((self.0 & (PINNED - 1)) >> SLAB_SHIFT)
    }

    /// Order of a block of a file or of a slab; ranges know that of tasks' blocks.
    pub(super) fn order(self) -> Option<Order> {
        let is_known = self.list().is_some() || self.objects().is_some();
        is_known.then(|| Order::new((self.0 & ORDER_MASK) as u8))
    }

    /// The same on another list.
    pub(super) fn with_list(self, list: List) -> Owner {
        Owner(self.0 & !(7 << KIND_SHIFT) | (list as u32 + 1) << KIND_SHIFT)
    }

    /// Whether it was used since that was last asked.
    pub(super) fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    /// The same, used.
    pub(super) fn referenced(self) -> Owner {
        Owner(self.0 | REFERENCED)
    }

    /// The same, not used.
    pub(super) fn unreferenced(self) -> Owner {
        Owner(self.0 & !REFERENCED)
    }

    /// Whether a device uses it.
    pub(super) fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }

    /// The same, pinned.
    pub(super) fn pinned(self) -> Owner {
        Owner(self.0 | PINNED)
    }

    /// The same, not pinned.
    pub(super) fn unpinned(self) -> Owner {
        Owner(self.0 & !PINNED)
    }

    /// Whether a page of a file has to be written before it can go.
    pub(super) fn is_dirty(self) -> bool {
        self.list().is_some() && self.0 & DIRTY != 0
    }

    /// A page of a file, to be written.
    pub(super) fn dirty(self) -> Owner {
        Owner(self.0 | DIRTY)
    }

    /// A page of a file, written.
    pub(super) fn clean(self) -> Owner {
        Owner(self.0 & !DIRTY)
    }
}

/// A frame's record.
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

/// Every frame's.
pub(super) struct Frames(Box<[Record]>);

impl Frames {
    /// So many frames, nobody's.
    pub(super) fn new(pages: u32) -> Frames {
        Frames((0..pages).map(|_| Record::new()).collect())
    }

    /// Iterates over all frames.
    pub(super) fn iter(&self) -> impl Iterator<Item = Pfn> + use<> {
        (0..self.0.len() as u32).map(Pfn::new)
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Who has a frame.
    #[inline]
    pub(super) fn owner(&self, pfn: Pfn) -> Owner {
        Owner(self.0[pfn.index()].owner.get())
    }

    /// Says who has it.
    #[inline]
    pub(super) fn set_owner(&self, pfn: Pfn, owner: Owner) {
        self.0[pfn.index()].owner.set(owner.0);
    }

    /// Says that nobody has it.
    #[inline]
    pub(super) fn disown(&self, pfn: Pfn) {
        self.set_owner(pfn, Owner::NOBODY);
    }

    /// The next frame of its list.
    #[inline]
    pub(super) fn next(&self, pfn: Pfn) -> Option<Pfn> {
        link(&self.0[pfn.index()].next)
    }

    /// The one before it.
    #[inline]
    pub(super) fn previous(&self, pfn: Pfn) -> Option<Pfn> {
        link(&self.0[pfn.index()].previous)
    }

    /// Says which is next.
    #[inline]
    pub(super) fn set_next(&self, pfn: Pfn, next: Option<Pfn>) {
        self.0[pfn.index()].next.set(next.map_or(END, Pfn::raw));
    }

    /// Says which was before.
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
    fn a_word_says_what_was_put_into_it() {
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
