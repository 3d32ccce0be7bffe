//! A doubly linked list of block heads, threaded through the frames' own metadata. Only the ends need memory of their
//! own.
//!
//! The lock of the structure that contains a list, a zone or a CPU's lists, protects the list. An operation on one
//! frame takes constant time and touches at most the frame and its two neighbours. The backward link of the first frame
//! and the forward link of the last one are undefined in release builds. An operation that takes a frame off an end, as
//! most do, therefore touches no other frame.
//!
//! In debug builds the links at the ends hold an end mark, and those of a removed frame hold an off-list mark. Every
//! operation asserts that the frames that it touches link to each other.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::frame::{Frame, Links};
use super::memmap::MemMap;
use super::word::Word;
use super::{Order, Pfn};

/// Link value at the ends of a list; no frame has this number.
pub(super) const NIL: u32 = u32::MAX;
/// Link value of a frame that was taken off a list, in debug builds. No frame has this number, because memory ends
/// below it.
const OFF: u32 = u32::MAX - 1;

/// A doubly linked list of frames.
#[derive(Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl List {
    /// An empty list.
    pub(crate) const EMPTY: List = List { head: NIL, tail: NIL };

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Returns the first frame, or `None` if the list is empty.
    #[inline]
    pub fn first(&self) -> Option<Pfn> {
        pfn(self.head)
    }

    /// Returns the last frame, or `None` if the list is empty.
    #[inline]
    pub fn last(&self) -> Option<Pfn> {
        pfn(self.tail)
    }

    /// Puts `pfn` at the head and stores the word of its new state.
    #[inline(never)]
    pub(crate) fn push_head(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        let frame = map.frame(pfn);
        expect_unlisted(pfn, frame, map.links(pfn), word);
        frame.set(word);
        self.link_head(map, pfn);
    }

    /// Puts `pfn` at the head; its word already has the new state.
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

    /// Puts consecutive blocks of one order at the head, lowest first, and stores the word of their new state. Costs a
    /// step per block.
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

    /// Puts `pfn` at the tail and stores the word of its new state.
    #[inline(never)]
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

    /// Removes `pfn`, which is on this list. Its word is not changed.
    #[inline(never)]
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

    /// Takes the first frame off, or returns `None` if the list is empty. The frame's word is not changed. Touches no
    /// other frame in release builds.
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

    /// Takes the last frame off, or returns `None` if the list is empty. The frame's word is not changed. Touches no
    /// other frame in release builds.
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

    /// Rotates the list so that it begins with `pfn`, which is on it. The frames before `pfn` move to the tail.
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

    /// Asserts in debug builds that a frame can join at either end.
    #[inline]
    fn expect_room_for(&self, map: &MemMap<'_>, pfn: Pfn) {
        debug_assert!(
            pfn.raw() != self.head && pfn.raw() != self.tail,
            "list: frame {pfn} is already an end of the list"
        );
        debug_assert!(
            self.is_empty() == self.last().is_none()
                && self.first().is_none_or(|first| before(map, first.raw()) == NIL),
            "list: the head, frame {:#x}, has a predecessor",
            self.head
        );
        debug_assert!(
            self.last().is_none_or(|last| after(map, last.raw()) == NIL),
            "list: the tail, frame {:#x}, has a successor",
            self.tail
        );
    }

    /// Asserts in debug builds that a frame at an end of the list is in a listed state.
    #[inline]
    fn expect_listed(&self, pfn: Pfn, frame: &Frame) {
        debug_assert!(frame.word().is_listed(), "list: frame {pfn} is on no list: {:?}", frame.word());
        debug_assert!(
            self.is_empty() == self.last().is_none(),
            "list: only one end of the list is set, at frame {pfn}"
        );
    }

    /// In debug builds, stores `NIL` in the first frame's `prev` link and in the last frame's `next` link.
    #[inline]
    fn mark_ends(&self, map: &MemMap<'_>) {
        if cfg!(debug_assertions)
            && let (Some(first), Some(last)) = (self.first(), self.last())
        {
            map.links(first).prev.store(NIL, Relaxed);
            map.links(last).next.store(NIL, Relaxed);
        }
    }

    /// Returns whether the frame after `pfn` links back to it; `true` for the last frame.
    pub(crate) fn leads_back(&self, map: &MemMap<'_>, pfn: Pfn) -> bool {
        if pfn.raw() == self.tail {
            return true;
        }
        let next = Pfn::new(map.links(pfn).next.load(Relaxed));
        map.try_links(next).is_some_and(|links| links.prev.load(Relaxed) == pfn.raw())
    }

    /// Overwrites the list's first and last frame, without any check.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_ends(&mut self, first: Option<Pfn>, last: Option<Pfn>) {
        (self.head, self.tail) = (first.map_or(NIL, Pfn::raw), last.map_or(NIL, Pfn::raw));
    }

    /// Returns the frame after `pfn`, which is on this list; `None` after the last.
    pub fn after(&self, map: &MemMap<'_>, pfn: Pfn) -> Option<Pfn> {
        (pfn.raw() != self.tail).then(|| Pfn::new(map.links(pfn).next.load(Relaxed)))
    }

    /// Returns the frames from last to first.
    pub fn iter_back<'l>(&'l self, map: &'l MemMap<'_>) -> impl Iterator<Item = Pfn> + 'l {
        core::iter::successors(self.last(), |&here| {
            (here.raw() != self.head).then(|| Pfn::new(map.links(here).prev.load(Relaxed)))
        })
    }

    /// Returns the frames from first to last, for checkers. The iterator does not end if the links form a cycle.
    pub fn iter<'l>(&'l self, map: &'l MemMap<'_>) -> impl Iterator<Item = Pfn> + 'l {
        core::iter::successors(self.first(), |&here| {
            let links = map.try_links(here).filter(|_| here.raw() != self.tail)?;
            Some(Pfn::new(links.next.load(Relaxed)))
        })
    }
}

/// Asserts in debug builds that a frame may be pushed: it is aligned to the order of the word, and on no list.
#[inline]
fn expect_unlisted(pfn: Pfn, frame: &Frame, links: &Links, word: Word) {
    debug_assert!(pfn.is_aligned(word.order()), "list: no block of order {} begins at frame {pfn}", word.order().get());
    debug_assert!(
        !frame.word().is_listed() || links.next.load(Relaxed) == OFF,
        "list: frame {pfn} is already on a list: {:?}",
        frame.word()
    );
}

/// Asserts in debug builds that two frames link to each other.
#[inline]
fn expect_neighbours(map: &MemMap<'_>, first: u32, second: u32) {
    debug_assert!(
        after(map, first) == second && before(map, second) == first,
        "list: frames {first:#x} and {second:#x} do not link to each other"
    );
}

/// Asserts in debug builds that a frame inside a list is between the two frames that its links name.
#[inline]
fn expect_between(map: &MemMap<'_>, prev: u32, pfn: Pfn, next: u32) {
    debug_assert!(next != OFF, "list: frame {pfn} is on no list");
    debug_assert!(prev != NIL && next != NIL, "list: frame {pfn} is an end of another list");
    expect_neighbours(map, prev, pfn.raw());
    expect_neighbours(map, pfn.raw(), next);
}

/// Stores off-list marks in the links of a frame, in debug builds.
#[inline]
fn mark_off(links: &Links) {
    if cfg!(debug_assertions) {
        links.next.store(OFF, Relaxed);
        links.prev.store(OFF, Relaxed);
    }
}

/// Returns the backward link of a frame; [`OFF`] if the frame has no metadata.
fn before(map: &MemMap<'_>, raw: u32) -> u32 {
    map.try_links(Pfn::new(raw)).map_or(OFF, |links| links.prev.load(Relaxed))
}

/// Returns the forward link of a frame; [`OFF`] if the frame has no metadata.
fn after(map: &MemMap<'_>, raw: u32) -> u32 {
    map.try_links(Pfn::new(raw)).map_or(OFF, |links| links.next.load(Relaxed))
}

/// Returns the frame that a link refers to; `None` for an end.
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
    fn list_matches_a_deque_and_removes_any_frame() {
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
                        let gone = queue.remove(rng.usize(0..queue.len())).expect("the index is below the length");
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
    fn push_run_inserts_before_existing_blocks() {
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
