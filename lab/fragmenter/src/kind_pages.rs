//! The pages of one kind, placed: allocated, released around what stays, thinned, and found again.

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

/// The part of the wanted pageblocks that may be too many.
const EXCESS_PART: u64 = 16;

/// The owner of the pages: they are free once it is dropped.
#[derive(Debug)]
enum Allocation {
    Exact(Exact),
    Tables(Boxes<Addresses>),
    Pipes(Boxes<PipesOrTables>),
    Sockets(Boxes<(OwnedFd, OwnedFd)>),
}

/// The pages of one kind.
#[derive(Debug)]
pub(crate) struct KindPages {
    /// The kind.
    pub kind: Kind,
    /// Pageblocks that were worked on.
    pub pageblocks: u64,
    /// Of these, the ones that were to hold something.
    pub wanted_pageblocks: u64,
    /// The pages that they were to hold.
    pub wanted_pages: u64,
    allocation: Allocation,
}

impl KindPages {
    /// Allocates the pages of this kind, and those around them for the time being.
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

    /// Frees what is around the pages that stay.
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        match &mut self.allocation {
            Allocation::Exact(exact) => exact.release()?,
            Allocation::Tables(filled) => filled.release(),
            Allocation::Pipes(filled) => filled.release(),
            Allocation::Sockets(filled) => filled.release(),
        }
        Ok(())
    }

    /// Holds pages of other pageblocks in place of the oldest, where pages are held by frame number: how many
    /// pageblocks.
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

    /// Frees some of the pages if they lie in more pageblocks than were wanted, by more than a few.
    pub(crate) fn thin(&mut self, found: u64) -> Option<()> {
        let wanted = self.wanted_pageblocks;
        if found <= wanted + wanted / EXCESS_PART {
            return None;
        }
        // A row of pages crosses a border of pageblocks as often as it is long.
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
