//! The pages of one kind, placed: allocated, released around what stays, thinned, and found again.

use std::collections::BTreeSet;

use super::census::{Census, Reader};
use super::error::Error;
use super::exact::Exact;
use super::guard::Guard;
use super::kind::Kind;
use super::order::{self, Filled};
use super::stores::{Addresses, Buffers, Pipes, PipesOrTables, Tables};
use super::wanted::{PAGEBLOCK_PAGES, Wanted, totals};

use std::os::fd::OwnedFd;

/// The part of the wanted pageblocks that may be too many.
const EXCESS_PART: u64 = 16;

/// What holds the pages. Dropped, they are free.
#[derive(Debug)]
enum Held {
    Exact(Exact),
    Tables(Filled<Addresses>),
    Pipes(Filled<PipesOrTables>),
    Sockets(Filled<(OwnedFd, OwnedFd)>),
}

/// The pages of one kind.
#[derive(Debug)]
pub struct Placed {
    /// The kind.
    pub kind: Kind,
    /// Pageblocks that were worked on.
    pub pageblocks: u64,
    /// Of these, the ones that were to hold something.
    pub wanted_pageblocks: u64,
    /// The pages that they were to hold.
    pub wanted_pages: u64,
    held: Held,
}

impl Placed {
    /// Allocates the pages of this kind, and those around them for the time being.
    pub fn place(kind: Kind, wanted: &[Wanted], flags: &Reader, guard: &mut Guard<'_>) -> Result<Placed, Error> {
        let held = match kind {
            Kind::Pins | Kind::Movable => Held::Exact(Exact::place(kind, wanted, flags, guard)?),
            Kind::PageTables => Held::Tables(order::fill(&Tables, wanted, guard)?),
            Kind::Pipes => Held::Pipes(order::fill(&Pipes, wanted, guard)?),
            Kind::Sockets => Held::Sockets(order::fill(&Buffers::BLOCKS, wanted, guard)?),
            Kind::Slab => Held::Sockets(order::fill(&Buffers::SLABS, wanted, guard)?),
        };
        let (wanted_pageblocks, wanted_pages) = totals(wanted);
        Ok(Placed { kind, pageblocks: wanted.len() as u64, wanted_pageblocks, wanted_pages, held })
    }

    /// Frees what is around the pages that stay.
    pub fn release(&mut self) -> Result<(), Error> {
        match &mut self.held {
            Held::Exact(exact) => exact.release()?,
            Held::Tables(filled) => filled.release(),
            Held::Pipes(filled) => filled.release(),
            Held::Sockets(filled) => filled.release(),
        }
        Ok(())
    }

    /// Holds pages of other pageblocks in place of the oldest, where pages are held by frame number: how many
    /// pageblocks.
    pub fn renew(&mut self, wanted: &[Wanted], flags: &Reader, guard: &mut Guard<'_>) -> Result<u64, Error> {
        match &mut self.held {
            Held::Exact(exact) => exact.renew(wanted, flags, guard),
            _ => Ok(0),
        }
    }

    /// The pageblocks that were empty and hold pages of this kind now, and how many pages.
    pub fn found(&self, before: &Census, now: &Census) -> (BTreeSet<u64>, u64) {
        if let Held::Exact(exact) = &self.held {
            let pageblocks = exact.frames().map(|frame| frame / PAGEBLOCK_PAGES as u64).collect();
            return (pageblocks, exact.frames().count() as u64);
        }
        let pages = now.gained(before, self.kind).map(|(_, pages)| u64::from(pages)).sum();
        (now.gained(before, self.kind).map(|(number, _)| number).collect(), pages)
    }

    /// Frees some of the pages if they lie in more pageblocks than were wanted, by more than a few.
    pub fn thin(&mut self, found: u64) -> Option<()> {
        let wanted = self.wanted_pageblocks;
        if found <= wanted + wanted / EXCESS_PART {
            return None;
        }
        // A row of pages crosses a border of pageblocks as often as it is long.
        let least =
            wanted * wanted * PAGEBLOCK_PAGES as u64 / (wanted * PAGEBLOCK_PAGES as u64 + self.wanted_pages).max(1);
        match &mut self.held {
            Held::Exact(_) => return None,
            Held::Tables(filled) => filled.thin(wanted, found, least),
            Held::Pipes(filled) => filled.thin(wanted, found, least),
            Held::Sockets(filled) => filled.thin(wanted, found, least),
        }
        Some(())
    }
}
