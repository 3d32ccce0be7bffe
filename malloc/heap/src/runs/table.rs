//! Boundary tags of runs: for each page, whether a run starts or ends there.
//!
//! The entry of a run's first page records the kind and the length of the run, for used and free runs alike. The entry
//! of its last page, if that is a different page, records the length as well. All entries but the first one state that
//! no run starts there. So a free checks by one lookup whether a run starts at an address, and a run finds its
//! neighbours by the entries of the adjacent pages.
//!
//! Pages in a [hole](crate::os::holes) of the range are in no run and have no entries. Runs on both sides of a hole are
//! no neighbours.

use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::io::Errno;

use super::PAGE;
use crate::os::holes::Holes;
use crate::os::mmap::{Region, Reservation};

/// Kind of a run, as recorded for its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// No run starts at this page.
    Inside = 0,
    /// The run is in use.
    Used = 1,
    /// The run is in a CPU's cache, or is being moved between two states by a thread.
    Claimed = 2,
    /// The run is free and has memory.
    Backed = 3,
    /// The run is free and has no memory: it reads as zeros.
    Empty = 4,
}

const KINDS: [Kind; 8] =
    [Kind::Inside, Kind::Used, Kind::Claimed, Kind::Backed, Kind::Empty, Kind::Inside, Kind::Inside, Kind::Inside];
/// Bits of a state that hold the kind. The other bits hold the time of the last free.
const KIND_BITS: u32 = 3;

/// Number that denotes no page.
pub(super) const NONE: u32 = u32::MAX;

/// Entry of a page.
#[derive(Debug)]
#[repr(C)]
struct Edge {
    /// Kind of the run, and for a backed run the time of its last free.
    state: AtomicU32,
    /// Pages of the run that starts here, or else of the run that ends here.
    pages: AtomicU32,
    /// Previous free run in the bin; `next` is the next one.
    previous: AtomicU32,
    next: AtomicU32,
}

/// Entries of all pages of a range. They are written under the lock of the range's space. The kind of a run that is in
/// use or claimed is an exception: its owner writes it without the lock.
#[derive(Debug)]
pub(super) struct Table {
    edges: Reservation,
    /// Pages before the first hole that have mapped entries.
    used: AtomicU32,
    /// Page up to which all pages have mapped entries, except for those in holes. The other pages have never been in a
    /// run.
    end: AtomicU32,
    /// Holes of the range.
    holes: Holes,
}

impl Table {
    /// Chooses addresses of a table for `pages` pages, none of which has a mapped entry yet.
    pub(super) fn new(pages: u32) -> Result<Table, Errno> {
        let edges = Reservation::growing(pages as usize * size_of::<Edge>(), PAGE, Region::Middle)?;
        Ok(Table { edges, used: AtomicU32::new(0), end: AtomicU32::new(0), holes: Holes::new() })
    }

    /// Returns the addresses of the entries, of [`EDGE`] bytes each, of the number of the page up to which pages have
    /// entries, and of the holes before that page.
    pub(super) fn addresses(&self) -> [u64; 3] {
        let (edges, end) = (self.edges.start().as_ptr().addr(), core::ptr::from_ref(&self.end).addr());
        [edges as u64, end as u64, self.holes.address()]
    }

    /// Returns whether a page has a mapped entry.
    #[inline]
    pub(super) fn has(&self, page: u32) -> bool {
        page < self.used.load(Acquire) || self.has_behind_hole(page)
    }

    #[cold]
    fn has_behind_hole(&self, page: u32) -> bool {
        page < self.end.load(Acquire) && !self.holes.is_empty() && !self.holes.overlap(page..page + 1)
    }

    /// Returns the bytes that are mapped when the table grows to `pages` pages.
    pub(super) fn growth(&self, pages: u32) -> usize {
        self.edges.growth(pages as usize * size_of::<Edge>())
    }

    /// Maps the entries of all pages before page `pages` and behind the last hole.
    pub(super) fn grow(&self, pages: u32) -> Result<(), Errno> {
        self.edges.grow(pages as usize * size_of::<Edge>())?;
        if self.holes.is_empty() {
            self.used.store(pages, Release);
        }
        self.end.store(pages, Release);
        Ok(())
    }

    /// Checks that entries of pages can be mapped, as [`Reservation::probe`] does.
    pub(super) fn probe(&self, pages: Range<u32>) -> Result<(), Errno> {
        self.edges.probe(pages.start as usize * size_of::<Edge>(), pages.end as usize * size_of::<Edge>())
    }

    /// Checks that another hole can be made.
    pub(super) fn reserve_hole(&self) -> Result<(), Errno> {
        self.holes.reserve().and_then(|()| self.edges.holes().reserve())
    }

    /// Leaves a hole of pages, which have no entries. The hole begins where the used part of the range ends.
    pub(super) fn skip(&self, hole: Range<u32>) -> Result<(), Errno> {
        let (start, to) = (hole.start, hole.end);
        self.edges.skip_to(to as usize * size_of::<Edge>())?;
        self.holes.push(hole)?;
        self.used.fetch_min(start, Release);
        self.end.store(to, Release);
        Ok(())
    }

    /// Returns the page behind a run, unless the range ends there or a hole begins there. It ends at page `end`.
    pub(super) fn next(&self, first: u32, pages: u32, end: u32) -> Option<u32> {
        let next = first + pages;
        (next < end && !self.holes.begin_at(next)).then_some(next)
    }

    /// Returns the first page of the run that ends right before `page`, which a run starts at or the range ends at.
    /// Returns `None` if the range begins there, or a hole ends there.
    pub(super) fn before(&self, page: u32) -> Option<u32> {
        (page > 0 && !self.holes.end_at(page)).then(|| self.run_before(page))
    }

    #[inline]
    fn edge(&self, page: u32) -> &Edge {
        assert!(self.has(page), "the page is beyond the used part of the range");
        // SAFETY: the entry is inside the reservation and mapped, as just asserted. Zeroed memory is a valid entry,
        // and all words of an entry are atomic.
        unsafe { self.edges.start().cast::<Edge>().add(page as usize).as_ref() }
    }

    /// Returns the kind and the length of the run that starts at a page.
    #[inline]
    pub(super) fn run_at(&self, first: u32) -> (Kind, u32) {
        let edge = self.edge(first);
        (kind_of(edge.state.load(Relaxed)), edge.pages.load(Relaxed))
    }

    /// Returns the hole that begins at a page.
    pub(super) fn hole_at(&self, page: u32) -> Option<Range<u32>> {
        self.holes.iter().find(|hole| hole.start == page)
    }

    /// Returns the range of the entries.
    #[cfg(test)]
    pub(super) fn edges(&self) -> &Reservation {
        &self.edges
    }

    fn run_before(&self, page: u32) -> u32 {
        let last = page - 1;
        match self.run_at(last) {
            (Kind::Inside, pages) => page - pages,
            _ => last,
        }
    }

    /// Returns the time at which a backed run, or the last freed part of it, was freed.
    pub(super) fn since(&self, first: u32) -> u32 {
        self.edge(first).state.load(Relaxed) >> KIND_BITS
    }

    /// Writes the entries of a run's first and last page.
    pub(super) fn write(&self, first: u32, pages: u32, kind: Kind, since: u32) {
        let edge = self.edge(first);
        edge.pages.store(pages, Relaxed);
        edge.state.store(kind as u32 | since << KIND_BITS, Release);
        if pages > 1 {
            let last = self.edge(first + pages - 1);
            last.pages.store(pages, Relaxed);
            last.state.store(Kind::Inside as u32, Relaxed);
        }
    }

    /// Records that no run starts at a page any more.
    pub(super) fn forget(&self, first: u32) {
        self.edge(first).state.store(Kind::Inside as u32, Relaxed);
    }

    /// Claims a run in use for a thread that frees it. If two threads free the same run, one of them succeeds. Returns
    /// the pages of the run.
    ///
    /// # Errors
    /// The kind of the page, if no run in use starts there.
    #[inline]
    pub(super) fn claim(&self, first: u32) -> Result<u32, Kind> {
        let edge = self.edge(first);
        let claimed = edge.state.compare_exchange(Kind::Used as u32, Kind::Claimed as u32, AcqRel, Relaxed);
        claimed.map(|_| edge.pages.load(Relaxed)).map_err(kind_of)
    }

    /// Sets the kind of a run. Only the owner of a run that is in use or claimed may call this.
    #[inline]
    pub(super) fn set_kind(&self, first: u32, kind: Kind) {
        self.edge(first).state.store(kind as u32, Release);
    }

    /// Returns the neighbours of a free run in its bin.
    pub(super) fn links(&self, first: u32) -> Links {
        let edge = self.edge(first);
        Links { previous: edge.previous.load(Relaxed), next: edge.next.load(Relaxed) }
    }

    /// Sets the neighbours of a free run in its bin.
    pub(super) fn set_links(&self, first: u32, links: Links) {
        let edge = self.edge(first);
        edge.previous.store(links.previous, Relaxed);
        edge.next.store(links.next, Relaxed);
    }
}

/// Free runs before and after a run in its bin; [`NONE`] at the ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub previous: u32,
    pub next: u32,
}

/// Bytes of a page's entry.
pub const EDGE: usize = size_of::<Edge>();

/// Returns the kind and the length of the run that starts at a page, from the first two words of the page's entry.
pub fn decode_edge([state, pages]: [u32; 2]) -> (Kind, u32) {
    (kind_of(state), pages)
}

fn kind_of(state: u32) -> Kind {
    KINDS[(state & ((1 << KIND_BITS) - 1)) as usize]
}
