//! Pages of one kind: their allocation, the release of the pages around them, thinning, and their location.

use std::collections::BTreeSet;

use super::census::{Census, Reader};
use super::error::Error;
use super::exact::Exact;
use super::guard::Guard;
use super::kind::Kind;
use super::order::{self, Boxes};
use super::page_set::{PAGEBLOCK_PAGES, PageSet, totals};
use super::stores::{Addresses, Buffers, Pipes, PipesOrTables, Tables};

use std::os::fd::OwnedFd;

/// Part of the wanted pageblocks by which the number of found pageblocks may be too large.
const EXCESS_PART: u64 = 16;

/// Owner of the pages, which are freed when it is dropped.
#[derive(Debug)]
enum Allocation {
    Exact(Exact),
    Tables(Boxes<Addresses>),
    Pipes(Boxes<PipesOrTables>),
    Sockets(Boxes<(OwnedFd, OwnedFd)>),
}

/// Pages of one kind.
#[derive(Debug)]
pub(crate) struct KindPages {
    /// The kind.
    pub kind: Kind,
    /// Pageblocks for which pages were allocated.
    pub pageblocks: u64,
    /// Pageblocks that are to hold pages of this kind.
    pub wanted_pageblocks: u64,
    /// Pages that they are to hold.
    pub wanted_pages: u64,
    allocation: Allocation,
}

impl KindPages {
    /// Allocates the pages of this kind, and temporarily the pages around them.
    pub(crate) fn place(
        kind: Kind,
        wanted: &[PageSet],
        flags: &Reader,
        guard: &mut Guard<'_>,
    ) -> Result<KindPages, Error> {
        let allocation = match kind {
            Kind::Pins | Kind::Movable => Allocation::Exact(Exact::place(kind, wanted, flags, guard)?),
            Kind::PageTables => Allocation::Tables(order::fill(&Tables, wanted, guard)?),
            Kind::Pipes => Allocation::Pipes(order::fill(&Pipes, wanted, guard)?),
            Kind::Sockets => Allocation::Sockets(order::fill(&Buffers::BLOCKS, wanted, guard)?),
            Kind::Slab => Allocation::Sockets(order::fill(&Buffers::SLABS, wanted, guard)?),
        };
        let (wanted_pageblocks, wanted_pages) = totals(wanted);
        Ok(KindPages { kind, pageblocks: wanted.len() as u64, wanted_pageblocks, wanted_pages, allocation })
    }

    /// Frees the temporary pages.
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        match &mut self.allocation {
            Allocation::Exact(exact) => exact.release()?,
            Allocation::Tables(filled) => filled.release(),
            Allocation::Pipes(filled) => filled.release(),
            Allocation::Sockets(filled) => filled.release(),
        }
        Ok(())
    }

    /// Holds pages of other pageblocks in place of the oldest, for kinds that are held by frame number. Returns the
    /// number of these pageblocks.
    pub(crate) fn renew(&mut self, wanted: &[PageSet], flags: &Reader, guard: &mut Guard<'_>) -> Result<u64, Error> {
        match &mut self.allocation {
            Allocation::Exact(exact) => exact.renew(wanted, flags, guard),
            _ => Ok(0),
        }
    }

    /// Returns the pageblocks that were empty and hold pages of this kind now, and the number of these pages.
    pub(crate) fn locate(&self, before: &Census, now: &Census) -> (BTreeSet<u64>, u64) {
        if let Allocation::Exact(exact) = &self.allocation {
            let pageblocks = exact.frames().map(|frame| frame / PAGEBLOCK_PAGES as u64).collect();
            return (pageblocks, exact.frames().count() as u64);
        }
        let pages = now.gained(before, self.kind).map(|(_, pages)| u64::from(pages)).sum();
        (now.gained(before, self.kind).map(|(number, _)| number).collect(), pages)
    }

    /// Frees some of the pages if they are in considerably more pageblocks than wanted. Returns `None` if no pages are to
    /// be freed: the number of pageblocks is near the wanted one, or the pages are placed by frame number. `Some` does
    /// not mean that pages were freed, since a minimum is always kept ([`Boxes::thin`](super::order::Boxes::thin)).
    pub(crate) fn thin(&mut self, found: u64) -> Option<()> {
        let wanted = self.wanted_pageblocks;
        if found <= wanted + wanted / EXCESS_PART {
            return None;
        }
        // A row of pages crosses a pageblock border with a probability proportional to its length. This is the number
        // of rows that occupy `wanted` pageblocks, including those crossings.
        let least =
            wanted * wanted * PAGEBLOCK_PAGES as u64 / (wanted * PAGEBLOCK_PAGES as u64 + self.wanted_pages).max(1);
        match &mut self.allocation {
            Allocation::Exact(_) => return None,
            Allocation::Tables(filled) => filled.thin(wanted, found, least),
            Allocation::Pipes(filled) => filled.thin(wanted, found, least),
            Allocation::Sockets(filled) => filled.thin(wanted, found, least),
        }
        Some(())
    }
}
