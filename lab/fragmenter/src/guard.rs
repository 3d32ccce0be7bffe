//! Checks between steps: whether the user has interrupted the program, and whether the machine has enough free memory.

use freehold_record::Interrupts;
use freehold_report::room::{self, Need};

use super::error::Error;
use super::page_set::PAGE;
use super::zones;

/// Pages of a MiB.
const PAGES_PER_MIB: u64 = (1 << 20) / PAGE as u64;
/// Pages that are taken between two checks.
const STRIDE: u64 = 4096;

/// A guard that checks every few thousand pages.
#[derive(Debug)]
pub(crate) struct Guard<'i> {
    interrupts: Option<&'i Interrupts>,
    /// Free pages that are left to the machine.
    floor: u64,
    since: u64,
}

impl<'i> Guard<'i> {
    /// Creates a guard that leaves `floor` pages free.
    pub(crate) fn new(interrupts: &'i Interrupts, floor: u64) -> Guard<'i> {
        Guard { interrupts: Some(interrupts), floor, since: 0 }
    }

    /// Creates a guard that checks free memory but not interrupts.
    pub(crate) fn of_machine(floor: u64) -> Guard<'i> {
        Guard { interrupts: None, floor, since: 0 }
    }

    /// Records that pages were taken, and checks if enough were taken since the last check.
    pub(crate) fn took(&mut self, pages: u64) -> Result<(), Error> {
        self.since += pages;
        if self.since < STRIDE {
            return Ok(());
        }
        self.since = 0;
        self.check()
    }

    /// Returns whether `pages` more pages can be taken, considering free memory and the limits of this process.
    pub(crate) fn has_room(&self, pages: u64) -> Result<bool, Error> {
        let bytes = pages * PAGE as u64;
        let is_allowed = room::expect(&Need { memory: bytes, addresses: bytes }).is_ok();
        Ok(is_allowed && zones::free_pages()? >= self.floor + pages)
    }

    /// Returns an error if the user has interrupted the program, or if fewer pages are free than must be left to the
    /// machine.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.interrupts.map_or(Ok(()), Interrupts::check)?;
        let free = zones::free_pages()?;
        if free >= self.floor {
            return Ok(());
        }
        Err(Error::Short { free: free / PAGES_PER_MIB, floor: self.floor / PAGES_PER_MIB })
    }
}
