//! A list of block heads, threaded through the frames' own metadata: no memory of its own but its ends.
//!
//! A list is protected by whatever protects the structure it stands in (a zone's lock, a per-CPU list's lock). All
//! operations are constant in time and touch at most the frame and its two neighbours. What the first frame's backward
//! link and the last one's forward link say means nothing: a call that takes a frame at an end, as most do, need not
//! touch another.
//!
//! Debug builds do: there the links at the ends say that they are ends, those of a frame that was taken off say
//! that, and every operation looks whether the frames that it touches lead to each other.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::frame::{Frame, Links};
use super::memmap::MemMap;
use super::word::Word;
use super::{Order, Pfn};

/// Ends of a list: no frame has this number.
pub(super) const NIL: u32 = u32::MAX;
/// Links of a frame that was taken off a list, in debug builds. No frame has this number: memory ends below it.
const OFF: u32 = u32::MAX - 1;

/// A doubly linked list of frames.
#[derive(Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl List {
    /// A list of no frames.
    pub(crate) const EMPTY: List = List { head: NIL, tail: NIL };

    /// Whether the list has no frame.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The list's first frame, if it has one.
    #[inline]
    pub fn first(&self) -> Option<Pfn> {
        pfn(self.head)
    }

    /// The list's last frame, if it has one.
    #[inline]
    pub fn last(&self) -> Option<Pfn> {
        pfn(self.tail)
    }

    /// Puts `pfn` first, in the state that names this list.
    #[inline]
    pub(crate) fn push_head(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        let frame = map.frame(pfn);
        expect_unlisted(pfn, frame, map.links(pfn), word);
        frame.set(word);
        self.link_head(map, pfn);
    }

    /// The same for a frame that is in that state already.
    #[inline]
    pub(crate) fn link_head(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        self.expect_room_for(map, pfn);
        map.links(pfn).next.store(self.head, Relaxed);
        match self.first() {
            Some(first) => map.links(first).prev.store(pfn.raw(), Relaxed),
            None => self.tail = pfn.raw(),
        }
        self.head = pfn.raw();
        self.mark_ends(map);
    }

    /// Puts blocks that follow each other first, in their order, in the state that names this list.
    #[inline]
    pub(crate) fn push_run(&mut self, map: &MemMap<'_>, run: Range<Pfn>, order: Order, word: Word) {
        self.expect_room_for(map, run.start);
        let pages = order.pages();
        let mut at = run.start.raw();
        for frame in map.frames(&run).flat_map(|frames| frames.iter().step_by(pages as usize)) {
            let links = map.links(Pfn::new(at));
            expect_unlisted(Pfn::new(at), frame, links, word);
            frame.set(word);
            links.prev.store(at.wrapping_sub(pages), Relaxed);
            at += pages;
            links.next.store(at, Relaxed);
        }
        let last = run.end.raw() - pages;
        map.links(Pfn::new(last)).next.store(self.head, Relaxed);
        match self.first() {
            Some(first) => map.links(first).prev.store(last, Relaxed),
            None => self.tail = last,
        }
        self.head = run.start.raw();
        self.mark_ends(map);
    }

    /// Puts `pfn` last, in the state that names this list.
    #[inline]
    pub(crate) fn push_tail(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        let (frame, links) = map.frame_and_links(pfn);
        expect_unlisted(pfn, frame, links, word);
        self.expect_room_for(map, pfn);
        frame.set(word);
        links.prev.store(self.tail, Relaxed);
        match self.last() {
            Some(last) => map.links(last).next.store(pfn.raw(), Relaxed),
            None => self.head = pfn.raw(),
        }
        self.tail = pfn.raw();
        self.mark_ends(map);
    }

    /// Takes `pfn`, which is on this list, off it; its state still names the list.
    #[inline]
    pub(crate) fn remove(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        if self.head == pfn.raw() {
            self.pop_head(map);
        } else if self.tail == pfn.raw() {
            self.pop_tail(map);
        } else {
            let links = map.links(pfn);
            let (next, prev) = (links.next.load(Relaxed), links.prev.load(Relaxed));
            expect_between(map, prev, pfn, next);
            map.links(Pfn::new(prev)).next.store(next, Relaxed);
            map.links(Pfn::new(next)).prev.store(prev, Relaxed);
            mark_off(links);
        }
    }

    /// Takes the first frame; its state still names this list. Touches no other frame.
    #[inline]
    pub(crate) fn pop_head<'m>(&mut self, map: &MemMap<'m>) -> Option<(Pfn, &'m Frame)> {
        let first = self.first()?;
        let (frame, links) = map.frame_and_links(first);
        self.expect_listed(first, frame);
        if self.head == self.tail {
            *self = List::EMPTY;
        } else {
            let next = links.next.load(Relaxed);
            expect_neighbours(map, first.raw(), next);
            self.head = next;
        }
        mark_off(links);
        self.mark_ends(map);
        Some((first, frame))
    }

    /// Takes the last frame, likewise.
    #[inline]
    pub(crate) fn pop_tail<'m>(&mut self, map: &MemMap<'m>) -> Option<(Pfn, &'m Frame)> {
        let last = self.last()?;
        let (frame, links) = map.frame_and_links(last);
        self.expect_listed(last, frame);
        if self.head == self.tail {
            *self = List::EMPTY;
        } else {
            let prev = links.prev.load(Relaxed);
            expect_neighbours(map, prev, last.raw());
            self.tail = prev;
        }
        mark_off(links);
        self.mark_ends(map);
        Some((last, frame))
    }

    /// Lets the list begin with `pfn`, which is on it: what came before it comes last.
    pub(crate) fn rotate_to(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        if self.head == pfn.raw() {
            return;
        }
        let prev = map.links(pfn).prev.load(Relaxed);
        expect_neighbours(map, prev, pfn.raw());
        map.links(Pfn::new(self.tail)).next.store(self.head, Relaxed);
        map.links(Pfn::new(self.head)).prev.store(self.tail, Relaxed);
        self.tail = prev;
        self.head = pfn.raw();
        self.mark_ends(map);
    }

    /// Whether a frame can join at either end, where the list is.
    #[inline]
    fn expect_room_for(&self, map: &MemMap<'_>, pfn: Pfn) {
        debug_assert!(pfn.raw() != self.head && pfn.raw() != self.tail, "list: frame {pfn} is at an end of it already");
        debug_assert!(
            self.is_empty() == self.last().is_none()
                && self.first().is_none_or(|first| before(map, first.raw()) == NIL),
            "list: frame {:#x} is the first, and not at an end",
            self.head
        );
        debug_assert!(
            self.last().is_none_or(|last| after(map, last.raw()) == NIL),
            "list: frame {:#x} is the last, and not at an end",
            self.tail
        );
    }

    /// Whether a frame at an end is on a list at all.
    #[inline]
    fn expect_listed(&self, pfn: Pfn, frame: &Frame) {
        debug_assert!(frame.word().is_listed(), "list: frame {pfn} is {:?}, on no list", frame.word());
        debug_assert!(self.is_empty() == self.last().is_none(), "list: it has one end, frame {pfn}");
    }

    /// In debug builds, lets the links at the ends say that they are.
    #[inline]
    fn mark_ends(&self, map: &MemMap<'_>) {
        if cfg!(debug_assertions)
            && let (Some(first), Some(last)) = (self.first(), self.last())
        {
            map.links(first).prev.store(NIL, Relaxed);
            map.links(last).next.store(NIL, Relaxed);
        }
    }

    /// Whether the frame after `pfn`, if it is not the last, leads back to it.
    pub(crate) fn leads_back(&self, map: &MemMap<'_>, pfn: Pfn) -> bool {
        if pfn.raw() == self.tail {
            return true;
        }
        let next = Pfn::new(map.links(pfn).next.load(Relaxed));
        map.try_links(next).is_some_and(|links| links.prev.load(Relaxed) == pfn.raw())
    }

    /// Writes the list's first and last frame, without any check.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_ends(&mut self, first: Option<Pfn>, last: Option<Pfn>) {
        (self.head, self.tail) = (first.map_or(NIL, Pfn::raw), last.map_or(NIL, Pfn::raw));
    }

    /// The frame after one of them; `None` after the last.
    pub fn after(&self, map: &MemMap<'_>, pfn: Pfn) -> Option<Pfn> {
        (pfn.raw() != self.tail).then(|| Pfn::new(map.links(pfn).next.load(Relaxed)))
    }

    /// The frames from last to first.
    pub fn iter_back<'l>(&'l self, map: &'l MemMap<'_>) -> impl Iterator<Item = Pfn> + 'l {
        core::iter::successors(self.last(), |&here| {
            (here.raw() != self.head).then(|| Pfn::new(map.links(here).prev.load(Relaxed)))
        })
    }

    /// The frames from first to last, for walkers; without end if the links run in a circle.
    pub fn iter<'l>(&'l self, map: &'l MemMap<'_>) -> impl Iterator<Item = Pfn> + 'l {
        core::iter::successors(self.first(), |&here| {
            let links = map.try_links(here).filter(|_| here.raw() != self.tail)?;
            Some(Pfn::new(links.next.load(Relaxed)))
        })
    }
}

/// Whether a frame may be pushed: a block of the word's order begins there, and it is on no list.
#[inline]
fn expect_unlisted(pfn: Pfn, frame: &Frame, links: &Links, word: Word) {
    debug_assert!(pfn.is_aligned(word.order()), "list: no block of order {} begins at frame {pfn}", word.order().get());
    debug_assert!(
        !frame.word().is_listed() || links.next.load(Relaxed) == OFF,
        "list: frame {pfn} is on a list already, {:?}",
        frame.word()
    );
}

/// Whether two frames lead to each other.
#[inline]
fn expect_neighbours(map: &MemMap<'_>, first: u32, second: u32) {
    debug_assert!(
        after(map, first) == second && before(map, second) == first,
        "list: frames {first:#x} and {second:#x} do not lead to each other"
    );
}

/// Whether a frame inside a list is between those that its links name.
#[inline]
fn expect_between(map: &MemMap<'_>, prev: u32, pfn: Pfn, next: u32) {
    debug_assert!(next != OFF, "list: frame {pfn} is on no list");
    debug_assert!(prev != NIL && next != NIL, "list: frame {pfn} is at an end of another list");
    expect_neighbours(map, prev, pfn.raw());
    expect_neighbours(map, pfn.raw(), next);
}

/// In debug builds, lets the links of a frame say that it is on no list.
#[inline]
fn mark_off(links: &Links) {
    if cfg!(debug_assertions) {
        links.next.store(OFF, Relaxed);
        links.prev.store(OFF, Relaxed);
    }
}

/// What comes before a frame; [`OFF`] if there is no such frame.
fn before(map: &MemMap<'_>, raw: u32) -> u32 {
    map.try_links(Pfn::new(raw)).map_or(OFF, |links| links.prev.load(Relaxed))
}

/// The frame after this one, or after the list's anchor, likewise.
fn after(map: &MemMap<'_>, raw: u32) -> u32 {
    map.try_links(Pfn::new(raw)).map_or(OFF, |links| links.next.load(Relaxed))
}

/// The frame that a link leads to.
#[inline]
pub(super) fn pfn(raw: u32) -> Option<Pfn> {
    (raw != NIL).then_some(Pfn::new(raw))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::VecDeque;

    use super::*;
    use crate::base::MigrateType;
    use crate::base::testing::{PAGES, with_map};

    #[test]
    fn a_list_is_a_queue_from_which_any_frame_can_be_taken() {
        with_map(|map| {
            let word = Word::zone_free(Order::ZERO, MigrateType::Movable);
            let mut list = List::EMPTY;
            let mut queue = VecDeque::new();
            let mut rng = fastrand::Rng::with_seed(4);
            for _ in 0..20_000 {
                let pfn = rng.u32(0..PAGES / 512);
                let at = queue.iter().position(|&other| other == pfn);
                match (rng.u8(0..5), at) {
                    (0, None) => {
                        list.push_head(map, Pfn::new(pfn), word);
                        queue.push_front(pfn);
                    }
                    (1, None) => {
                        list.push_tail(map, Pfn::new(pfn), word);
                        queue.push_back(pfn);
                    }
                    (2, _) => {
                        let found = list.pop_head(map).map(|(pfn, _)| pfn.raw());
                        assert_eq!(found, queue.pop_front());
                    }
                    (3, _) => assert_eq!(list.pop_tail(map).map(|(pfn, _)| pfn.raw()), queue.pop_back()),
                    (4, Some(at)) => {
                        list.rotate_to(map, Pfn::new(pfn));
                        queue.rotate_left(at);
                    }
                    _ if !queue.is_empty() => {
                        let gone = queue.remove(rng.usize(0..queue.len())).expect("the place exists");
                        list.remove(map, Pfn::new(gone));
                    }
                    _ => {}
                }
                assert_eq!(list.is_empty(), queue.is_empty());
                assert_eq!(list.last().map(Pfn::raw), queue.back().copied());
                assert!(list.iter(map).map(Pfn::raw).eq(queue.iter().copied()));
                assert!(list.iter_back(map).map(Pfn::raw).eq(queue.iter().rev().copied()));
            }
        });
    }

    #[test]
    fn a_run_comes_before_what_was_there() {
        with_map(|map| {
            let word = Word::zone_free(Order::new(1), MigrateType::Movable);
            let mut list = List::EMPTY;
            for run in [64..70, 32..34, 0..8] {
                list.push_run(map, Pfn::new(run.start)..Pfn::new(run.end), Order::new(1), word);
            }
            let order = [0, 2, 4, 6, 32, 64, 66, 68].map(Pfn::new);
            assert!(list.iter(map).eq(order) && list.iter_back(map).eq(order.into_iter().rev()));
            assert!(order.iter().all(|&pfn| map.frame(pfn).word() == word && list.leads_back(map, pfn)));
        });
    }
}
