//! What each page is the edge of.
//!
//! The first page of every run, in use or free, says what the run is and how long; its last page, if that is another,
//! says how long as well, and like all pages between it says that no run begins there. So a free finds out in one look
//! whether a run begins at an address, and a run finds its neighbours by the pages on both sides of it.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::io::Errno;

use super::PAGE;
use crate::os::mmap::Reservation;

/// What a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Of no run the edge.
    Inside = 0,
    /// Somebody has it.
    Used = 1,
    /// A CPU has cached it, or it is on its way.
    Claimed = 2,
    /// Free, with memory.
    Backed = 3,
    /// Free, without memory: zeros.
    Empty = 4,
}

const KINDS: [Kind; 8] =
    [Kind::Inside, Kind::Used, Kind::Claimed, Kind::Backed, Kind::Empty, Kind::Inside, Kind::Inside, Kind::Inside];
/// Bits of a state that are the kind; the others are when it became so.
const KIND_BITS: u32 = 3;

/// No page.
pub(super) const NONE: u32 = u32::MAX;

/// What is known of a page.
#[derive(Debug)]
#[repr(C)]
struct Edge {
    /// The kind, and for a backed run the moment of its last free.
    state: AtomicU32,
    /// Of the run that begins here, or else of the one that ends here.
    pages: AtomicU32,
    /// Links among free runs of about this size.
    previous: AtomicU32,
    next: AtomicU32,
}

/// The edges of a range. Who holds the lock of its space writes them; but for the kind of a run in use or claimed,
/// which its owner writes.
#[derive(Debug)]
pub(super) struct Table {
    edges: Reservation,
    /// Pages that may have edges: the others have never been in a run.
    used: AtomicU32,
}

impl Table {
    /// For so many pages, of which none is in use yet.
    pub(super) fn new(pages: u32) -> Result<Table, Errno> {
        let edges = Reservation::inaccessible(pages as usize * size_of::<Edge>(), PAGE)?;
        Ok(Table { edges, used: AtomicU32::new(0) })
    }

    /// Addresses of the edges, [`EDGE`] bytes a page, and of the number of pages that may have them.
    pub(super) fn addresses(&self) -> [u64; 2] {
        [self.edges.start().as_ptr().addr() as u64, core::ptr::from_ref(&self.used).addr() as u64]
    }

    /// Pages that may have edges.
    #[inline]
    pub(super) fn used(&self) -> u32 {
        self.used.load(Acquire)
    }

    /// Lets all pages before this one have edges.
    pub(super) fn commit(&self, pages: u32) -> Result<(), Errno> {
        let [from, to] = [self.used(), pages].map(|pages| (pages as usize * size_of::<Edge>()).next_multiple_of(PAGE));
        self.edges.commit(from, to - from)?;
        self.used.store(pages, Release);
        Ok(())
    }

    #[inline]
    fn edge(&self, page: u32) -> &Edge {
        assert!(page < self.used(), "a page of a run has been in the range's use");
        // SAFETY: within the table and accessible; zeros are an edge, and all of its words are atomic.
        unsafe { self.edges.start().cast::<Edge>().add(page as usize).as_ref() }
    }

    /// Kind and length of the run that begins here.
    #[inline]
    pub(super) fn run_at(&self, first: u32) -> (Kind, u32) {
        let edge = self.edge(first);
        (kind_of(edge.state.load(Relaxed)), edge.pages.load(Relaxed))
    }

    /// Where the run begins that ends right before this page, which begins one.
    pub(super) fn before(&self, page: u32) -> u32 {
        let last = page - 1;
        match self.run_at(last) {
            (Kind::Inside, pages) => page - pages,
            _ => last,
        }
    }

    /// When a backed run was freed.
    pub(super) fn since(&self, first: u32) -> u32 {
        self.edge(first).state.load(Relaxed) >> KIND_BITS
    }

    /// Writes down a run.
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

    /// No run begins here any more.
    pub(super) fn forget(&self, first: u32) {
        self.edge(first).state.store(Kind::Inside as u32, Relaxed);
    }

    /// Takes a run in use from whoever gives it back: of two who do, one gets it. Returns its pages.
    ///
    /// # Errors
    /// What the page is instead.
    #[inline]
    pub(super) fn claim(&self, first: u32) -> Result<u32, Kind> {
        let edge = self.edge(first);
        let claimed = edge.state.compare_exchange(Kind::Used as u32, Kind::Claimed as u32, AcqRel, Relaxed);
        claimed.map(|_| edge.pages.load(Relaxed)).map_err(kind_of)
    }

    /// Changes what the owner of a run, in use or claimed, says of it.
    #[inline]
    pub(super) fn set_kind(&self, first: u32, kind: Kind) {
        self.edge(first).state.store(kind as u32, Release);
    }

    /// Neighbours of a free run among those of about its size.
    pub(super) fn links(&self, first: u32) -> Links {
        let edge = self.edge(first);
        Links { previous: edge.previous.load(Relaxed), next: edge.next.load(Relaxed) }
    }

    /// Sets them.
    pub(super) fn set_links(&self, first: u32, links: Links) {
        let edge = self.edge(first);
        edge.previous.store(links.previous, Relaxed);
        edge.next.store(links.next, Relaxed);
    }
}

/// The free runs before and after one in its bin; [`NONE`] at the ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub previous: u32,
    pub next: u32,
}

/// Bytes of what is known of a page.
pub const EDGE: usize = size_of::<Edge>();

/// Kind and length of the run that begins at a page, from the first two words that are known of it.
pub fn decode_edge([state, pages]: [u32; 2]) -> (Kind, u32) {
    (kind_of(state), pages)
}

fn kind_of(state: u32) -> Kind {
    KINDS[(state & ((1 << KIND_BITS) - 1)) as usize]
}
