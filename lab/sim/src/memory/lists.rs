//! The lists of a node: pages of the page cache, from the newest at the head to the oldest at the tail.
//!
//! Reclaim scans the inactive list from its tail. A page that is used twice there moves to the active list. When the
//! inactive list has become short, pages from the tail of the active list move back to it. Pages under writeback are on
//! a separate list. A list is linked through the frames' records: an insertion or removal touches two neighbours.
//!
//! linux: include/linux/mm_inline.h:lruvec_add_folio, mm/vmscan.c:inactive_is_low

use std::cell::Cell;

use freehold::base::Pfn;

use super::frames::{Frames, List, Owner};

/// Pages of a GiB, as a power of two.
const GIB_SHIFT: u32 = 18;

/// The lists of a node.
#[derive(Default)]
pub(super) struct Lists([Ends; List::ALL.len()]);

/// Head, tail and length of one list.
#[derive(Default)]
struct Ends {
    head: Cell<Option<Pfn>>,
    tail: Cell<Option<Pfn>>,
    pages: Cell<u64>,
}

/// End at which a block joins a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Head: the block becomes the newest.
    Head,
    /// Tail: the block becomes the oldest.
    Tail,
}

impl Lists {
    /// Returns the number of pages of one list.
    #[inline]
    pub(super) fn pages_of(&self, list: List) -> u64 {
        self.ends(list).pages.get()
    }

    /// Returns the number of pages of all lists.
    pub(super) fn pages(&self) -> u64 {
        List::ALL.iter().map(|&list| self.pages_of(list)).sum()
    }

    /// Returns the oldest block of a list.
    #[inline]
    pub(super) fn oldest(&self, list: List) -> Option<Pfn> {
        self.ends(list).tail.get()
    }

    /// Returns whether the inactive list is too short, so that active pages should be deactivated. The limit is the
    /// ratio of active to inactive pages: 1 below 1 GiB of page cache, otherwise the square root of ten times the GiB.
    pub(super) fn inactive_is_low(&self) -> bool {
        let [inactive, active] = [List::InactiveFile, List::ActiveFile].map(|list| self.pages_of(list));
        let gib = (inactive + active) >> GIB_SHIFT;
        let ratio = if gib == 0 { 1 } else { (10 * gib).isqrt() };
        inactive * ratio < active
    }

    /// Adds a block to the list that its owner names.
    #[inline]
    pub(super) fn add(&self, frames: &Frames, pfn: Pfn, owner: Owner, end: End) {
        let ends = self.ends(list_of(owner));
        frames.set_owner(pfn, owner);
        let (near, far) = match end {
            End::Head => (&ends.head, &ends.tail),
            End::Tail => (&ends.tail, &ends.head),
        };
        let neighbour = near.replace(Some(pfn));
        let (next, previous) = if end == End::Head { (neighbour, None) } else { (None, neighbour) };
        frames.set_next(pfn, next);
        frames.set_previous(pfn, previous);
        match (neighbour, end) {
            (None, _) => far.set(Some(pfn)),
            (Some(neighbour), End::Head) => frames.set_previous(neighbour, Some(pfn)),
            (Some(neighbour), End::Tail) => frames.set_next(neighbour, Some(pfn)),
        }
        ends.pages.set(ends.pages.get() + pages_of(owner));
    }

    /// Removes a block from its list; it has no owner then. Returns the previous owner.
    #[inline]
    pub(super) fn remove(&self, frames: &Frames, pfn: Pfn) -> Owner {
        let owner = frames.owner(pfn);
        let ends = self.ends(list_of(owner));
        let (next, previous) = (frames.next(pfn), frames.previous(pfn));
        ends.join(frames, previous, next);
        ends.pages.set(ends.pages.get() - pages_of(owner));
        frames.disown(pfn);
        owner
    }

    /// Replaces a block with another block of the same size, at the same position.
    pub(super) fn replace(&self, frames: &Frames, from: Pfn, to: Pfn) {
        let owner = frames.owner(from);
        let ends = self.ends(list_of(owner));
        let (next, previous) = (frames.next(from), frames.previous(from));
        frames.disown(from);
        frames.set_owner(to, owner);
        ends.join(frames, previous, Some(to));
        ends.join(frames, Some(to), next);
    }

    fn ends(&self, list: List) -> &Ends {
        &self.0[list as usize]
    }
}

impl Ends {
    /// Links two blocks as neighbours. `None` stands for an end of the list.
    #[inline]
    fn join(&self, frames: &Frames, previous: Option<Pfn>, next: Option<Pfn>) {
        match previous {
            Some(previous) => frames.set_next(previous, next),
            None => self.head.set(next),
        }
        match next {
            Some(next) => frames.set_previous(next, previous),
            None => self.tail.set(previous),
        }
    }
}

fn list_of(owner: Owner) -> List {
    owner.list().expect("every page on a list belongs to a file")
}

fn pages_of(owner: Owner) -> u64 {
    owner.order().map_or(0, |order| u64::from(order.pages()))
}

#[cfg(test)]
mod tests {
    use freehold::base::Order;

    use super::*;

    fn file(list: List) -> Owner {
        Owner::file(list, Order::ZERO)
    }

    /// Returns a list from its tail to its head, and asserts that the other direction gives the same blocks.
    fn read(lists: &Lists, frames: &Frames, list: List) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = lists.oldest(list);
        while let Some(pfn) = at {
            found.push(pfn.raw());
            at = frames.previous(pfn);
            assert_eq!(at.and_then(|before| frames.next(before)), at.and(Some(pfn)));
        }
        found
    }

    #[test]
    fn page_lists_keep_their_order_after_removals() {
        let (lists, frames) = (Lists::default(), Frames::new(16));
        for pfn in 0..6 {
            lists.add(&frames, Pfn::new(pfn), file(List::InactiveFile), End::Head);
        }
        lists.add(&frames, Pfn::new(9), file(List::InactiveFile), End::Tail);
        for pfn in [0, 3, 5] {
            assert_eq!(lists.remove(&frames, Pfn::new(pfn)), file(List::InactiveFile));
        }
        assert_eq!(read(&lists, &frames, List::InactiveFile), [9, 1, 2, 4]);
        lists.replace(&frames, Pfn::new(2), Pfn::new(15));
        lists.replace(&frames, Pfn::new(9), Pfn::new(14));
        lists.replace(&frames, Pfn::new(4), Pfn::new(13));
        assert_eq!(read(&lists, &frames, List::InactiveFile), [14, 1, 15, 13]);
        assert_eq!((lists.pages(), frames.owner(Pfn::new(2))), (4, Owner::NOBODY));
    }

    #[test]
    fn single_page_list_works_at_both_ends() {
        let (lists, frames) = (Lists::default(), Frames::new(4));
        for end in [End::Head, End::Tail] {
            lists.add(&frames, Pfn::new(1), file(List::Writeback), end);
            assert_eq!(read(&lists, &frames, List::Writeback), [1]);
            lists.replace(&frames, Pfn::new(1), Pfn::new(2));
            lists.remove(&frames, Pfn::new(2));
            assert_eq!((read(&lists, &frames, List::Writeback), lists.pages()), (vec![], 0));
        }
    }

    #[test]
    fn active_share_grows_with_the_page_cache() {
        let (lists, frames) = (Lists::default(), Frames::new(1));
        lists.ends(List::InactiveFile).pages.set(100);
        lists.ends(List::ActiveFile).pages.set(100);
        assert!(!lists.inactive_is_low());
        lists.ends(List::ActiveFile).pages.set(101);
        assert!(lists.inactive_is_low());
        // 10 GiB, so the limit is a ratio of 10.
        lists.ends(List::InactiveFile).pages.set(1 << GIB_SHIFT);
        lists.ends(List::ActiveFile).pages.set(9 << GIB_SHIFT);
        assert!(!lists.inactive_is_low());
        lists.ends(List::ActiveFile).pages.set(12 << GIB_SHIFT);
        assert!(lists.inactive_is_low());
        drop(frames);
    }
}
