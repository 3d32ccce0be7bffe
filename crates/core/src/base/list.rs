//! A list of block heads, threaded through the frames' own metadata: no memory of its own but its ends.
//!
//! A list is protected by whatever protects the structure it stands in (a zone's lock, a per-CPU list's
//! lock). All operations are constant in time and touch at most the frame and its two neighbours. The first frame's
//! backward link is not kept: whoever takes the first frame, as most do, need not touch the second.

use core::sync::atomic::Ordering::Relaxed;

use super::Pfn;
use super::frame::{Frame, Word};
use super::memmap::MemMap;

/// Ends of a list: no frame has this number.
const NIL: u32 = u32::MAX;

/// A doubly linked list of frames.
#[derive(Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List { head: NIL, tail: NIL, len: 0 };

    /// Number of frames on the list.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The first frame.
    #[inline]
    pub fn first(&self) -> Option<Pfn> {
        pfn(self.head)
    }

    /// The last frame.
    #[inline]
    pub fn last(&self) -> Option<Pfn> {
        pfn(self.tail)
    }

    /// Puts `pfn` first, in the state that names this list.
    #[inline]
    pub fn push_head(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        let frame = map.frame(pfn);
        frame.set(word);
        frame.next.store(self.head, Relaxed);
        match self.first() {
            Some(first) => map.frame(first).prev.store(pfn.raw(), Relaxed),
            None => self.tail = pfn.raw(),
        }
        self.head = pfn.raw();
        self.len += 1;
    }

    /// Puts `pfn` last, in the state that names this list.
    #[inline]
    pub fn push_tail(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        let frame = map.frame(pfn);
        frame.set(word);
        frame.next.store(NIL, Relaxed);
        frame.prev.store(self.tail, Relaxed);
        match self.last() {
            Some(last) => map.frame(last).next.store(pfn.raw(), Relaxed),
            None => self.head = pfn.raw(),
        }
        self.tail = pfn.raw();
        self.len += 1;
    }

    /// Takes `pfn`, which is on this list, off it; its state still names the list.
    #[inline]
    pub fn remove(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        if self.head == pfn.raw() {
            self.pop_head(map);
            return;
        }
        let frame = map.frame(pfn);
        let (next, prev) = (frame.next.load(Relaxed), frame.prev.load(Relaxed));
        map.frame(Pfn::new(prev)).next.store(next, Relaxed);
        match self::pfn(next) {
            Some(next) => map.frame(next).prev.store(prev, Relaxed),
            None => self.tail = prev,
        }
        self.len -= 1;
    }

    /// Takes the first frame; its state still names this list. Touches no other frame.
    #[inline]
    pub fn pop_head<'m>(&mut self, map: &MemMap<'m>) -> Option<(Pfn, &'m Frame)> {
        let first = self.first()?;
        let frame = map.frame(first);
        self.head = frame.next.load(Relaxed);
        if self.head == NIL {
            self.tail = NIL;
        }
        self.len -= 1;
        Some((first, frame))
    }

    /// Takes the last frame; its state still names this list.
    #[inline]
    pub fn pop_tail(&mut self, map: &MemMap<'_>) -> Option<Pfn> {
        let last = self.last()?;
        self.remove(map, last);
        Some(last)
    }

    /// The frames from first to last, for walkers. Ends after `len` frames even if the links run in a circle.
    pub fn iter<'l>(&'l self, map: &'l MemMap<'_>) -> impl Iterator<Item = Pfn> + 'l {
        let mut at = self.head;
        let mut left = self.len;
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let here = pfn(at)?;
            at = map.frame(here).next.load(Relaxed);
            Some(here)
        })
    }
}

#[inline]
fn pfn(raw: u32) -> Option<Pfn> {
    (raw != NIL).then_some(Pfn::new(raw))
}
