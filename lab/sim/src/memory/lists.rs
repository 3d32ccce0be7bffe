//! The lists of a node: pages of the page cache, from the newest at the head to the oldest at the tail.
//!
//! Reclaim takes from the tail of the inactive list. What is used twice there goes to the active one, and from its tail
//! comes back when the inactive list has become short. What must be written first waits on a list of its own. A list is
//! linked through the frames' records: an insertion or removal touches two neighbours.
//!
//! linux: include/linux/mm_inline.h:lruvec_add_folio, mm/vmscan.c:inactive_is_low

use std::cell::Cell;

use freehold::base::Pfn;

use super::frames::{Frames, List, Owner};

/// Pages of a GiB, as a power of two.
const GIB_SHIFT: u32 = 18;

/// A node's lists.
#[derive(Default)]
pub(super) struct Lists([Ends; List::ALL.len()]);

/// The ends of one list.
#[derive(Default)]
struct Ends {
    head: Cell<Option<Pfn>>,
    tail: Cell<Option<Pfn>>,
    pages: Cell<u64>,
}

/// Where a block joins a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As the newest.
    Head,
    /// As the oldest.
    Tail,
}

impl Lists {
    /// Pages of one list.
    #[inline]
    pub(super) fn pages_of(&self, list: List) -> u64 {
        self.ends(list).pages.get()
    }

    /// Pages of all.
    pub(super) fn pages(&self) -> u64 {
        List::ALL.iter().map(|&list| self.pages_of(list)).sum()
    }

    /// The oldest block of a list.
    #[inline]
    pub(super) fn oldest(&self, list: List) -> Option<Pfn> {
        self.ends(list).tail.get()
    }

    /// Whether so much of the page cache is active that some of it should come down: with more than so many GiB, more
    /// than the root of ten times as many to one.
    pub(super) fn inactive_is_low(&self) -> bool {
        let [inactive, active] = [List::InactiveFile, List::ActiveFile].map(|list| self.pages_of(list));
        let gib = (inactive + active) >> GIB_SHIFT;
        let ratio = if gib == 0 { 1 } else { (10 * gib).isqrt() };
        inactive * ratio < active
    }

    /// Puts a block on the list that its owner names.
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

    /// Takes a block off its list, and leaves it to the caller.
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

    /// Puts another block of the same size where this one is.
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
    /// Makes neighbours of two blocks; of nothing and a block, an end of the list.
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
    owner.list().expect("only files' pages are on lists")
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

    /// A list from its tail to its head, and that the way back is the same.
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
    fn lists_keep_their_order_whoever_leaves() {
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
    fn a_list_of_one_has_two_ends() {
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
    fn the_larger_the_cache_the_more_of_it_may_be_active() {
        let (lists, frames) = (Lists::default(), Frames::new(1));
        lists.ends(List::InactiveFile).pages.set(100);
        lists.ends(List::ActiveFile).pages.set(100);
        assert!(!lists.inactive_is_low());
        lists.ends(List::ActiveFile).pages.set(101);
        assert!(lists.inactive_is_low());
        // 10 GiB, so up to ten to one.
        lists.ends(List::InactiveFile).pages.set(1 << GIB_SHIFT);
        lists.ends(List::ActiveFile).pages.set(9 << GIB_SHIFT);
        assert!(!lists.inactive_is_low());
        lists.ends(List::ActiveFile).pages.set(12 << GIB_SHIFT);
        assert!(lists.inactive_is_low());
        drop(frames);
    }
}
