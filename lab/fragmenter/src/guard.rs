//! What is looked at between two steps: whether the user has had enough, and whether the machine has.

use freehold_record::Interrupts;
use freehold_report::room::{self, Need};

use super::error::Error;
use super::page_set::PAGE;
use super::zones;

/// Pages of a MiB.
const PAGES_PER_MIB: u64 = (1 << 20) / PAGE as u64;
/// Pages that are taken between two looks.
const STRIDE: u64 = 4096;

/// Looks every few thousand pages.
#[derive(Debug)]
pub(crate) struct Guard<'i> {
    interrupts: Option<&'i Interrupts>,
    /// Free pages that are left to the machine.
    floor: u64,
    since: u64,
}

impl<'i> Guard<'i> {
    /// One that leaves so many pages free.
    pub(crate) fn new(interrupts: &'i Interrupts, floor: u64) -> Guard<'i> {
        Guard { interrupts: Some(interrupts), floor, since: 0 }
    }

    /// One that looks after the machine alone.
    pub(crate) fn of_machine(floor: u64) -> Guard<'i> {
        Guard { interrupts: None, floor, since: 0 }
    }

    /// So many pages were taken.
    pub(crate) fn took(&mut self, pages: u64) -> Result<(), Error> {
        self.since += pages;
        if self.since < STRIDE {
            return Ok(());
        }
        self.since = 0;
        self.check()
    }

    /// Whether so many more pages can be taken, by the machine and by what limits this process.
    pub(crate) fn has_room(&self, pages: u64) -> Result<bool, Error> {
        let bytes = pages * PAGE as u64;
        let is_allowed = room::expect(&Need { memory: bytes, addresses: bytes }).is_ok();
        Ok(is_allowed && zones::free_pages()? >= self.floor + pages)
    }

    /// Whether it may go on.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.interrupts.map_or(Ok(()), Interrupts::check)?;
        let free = zones::free_pages()?;
        if free >= self.floor {
            return Ok(());
        }
        Err(Error::Short { free: free / PAGES_PER_MIB, floor: self.floor / PAGES_PER_MIB })
    }
}
