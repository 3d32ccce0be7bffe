//! Address range divided into runs, under one lock.
//!
//! ```text
//! | used | backed | used | empty | used ...                  | never used |
//! 0                                                         end          pages
//! ```
//!
//! If a mapping of the program blocks the growth of the range or of its table, the range continues behind that mapping,
//! and the pages between are a hole: in no run, without entries in the table, and charged to no budget.
//!
//! The allocation uses boundary tags (Knuth). linux: mm/vma.c solves the same problem for the address space.

use rustix::io::Errno;

use super::bins::Bins;
use super::table::{Kind, NONE, Table};
use super::{Claimed, HUGE, PAGE};
use crate::os::budget::MemoryBudget;
use crate::os::holes::find_behind;
use crate::os::mmap::Reservation;

/// Divisor of the used part of the range that gives the pages by which it grows, from 2 MiB to 32 MiB: few system
/// calls, and little memory that a program with a limit cannot use otherwise.
const GROWTH_SHARE: u32 = 16;
const GROWTH_MAX: u32 = 32 << 8;

/// Divisor of a request's pages: a backed run is extended for the request only if it has at least this share of them.
const STRETCHED: u32 = 4;

/// Free runs of the range, and its extent.
#[derive(Debug)]
pub(super) struct Space {
    backed: Bins,
    empty: Bins,
    /// First page that has never been in a run.
    end: u32,
    /// Pages of the range.
    pages: u32,
    usage: Usage,
    /// Budget of the pages that are not empty, and of the table.
    budget: &'static MemoryBudget,
}

/// Bytes of a range by their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of runs that are in use or cached by CPUs.
    pub used: usize,
    /// Bytes of free runs that have memory.
    pub backed: usize,
    /// Bytes of free runs that have no memory: it was returned to the system, or was never used.
    pub empty: usize,
}

/// A run that was just allocated.
#[derive(Debug)]
pub(super) struct Allocation {
    pub first: u32,
    pub is_empty: bool,
}

impl Space {
    pub(super) const fn new(pages: u32, budget: &'static MemoryBudget) -> Space {
        let usage = Usage { used: 0, backed: 0, empty: 0 };
        Space { backed: Bins::EMPTY, empty: Bins::EMPTY, end: 0, pages, usage, budget }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Allocates a run of `pages` pages at an address that is a multiple of `align` pages. Runs with memory are
    /// preferred.
    ///
    /// # Errors
    /// If the range has no room, or the system or the budget refuses memory.
    pub(super) fn take(
        &mut self,
        table: &Table,
        range: &Reservation,
        pages: u32,
        align: u32,
    ) -> Result<Allocation, Errno> {
        let wide = pages.checked_add(align - 1).ok_or(Errno::NOMEM)?;
        let run = match self.backed.find(table, wide) {
            Some(run) => run,
            None => {
                if align == 1
                    && let Some(first) = self.stretch(table, pages)
                {
                    return Ok(Allocation { first, is_empty: false });
                }
                self.take_empty(table, range, pages, wide)?
            }
        };
        let (kind, size) = table.run_at(run);
        let since = table.since(run);
        self.unlist(table, run, kind, size);
        let start = range.start().as_ptr().addr() / PAGE % align as usize;
        let first = (run + start as u32).next_multiple_of(align) - start as u32;
        // The remainders on both sides were part of a free run, so their other neighbours are not free runs of the same
        // kind.
        self.list(table, run, first - run, kind, since);
        self.list(table, first + pages, run + size - first - pages, kind, since);
        table.write(first, pages, Kind::Used, 0);
        self.usage.used += pages as usize * PAGE;
        Ok(Allocation { first, is_empty: kind == Kind::Empty })
    }

    /// Charges `pages` pages, and returns an empty run of at least `wide` pages. The range grows if it has none.
    ///
    /// # Errors
    /// If the range has no room, or the system or the budget refuses memory.
    fn take_empty(&mut self, table: &Table, range: &Reservation, pages: u32, wide: u32) -> Result<u32, Errno> {
        self.budget.charge(pages as usize * PAGE)?;
        let run = self.empty.find(table, wide).map_or_else(|| self.grow(table, range, wide), Ok);
        run.inspect_err(|_| self.budget.release(pages as usize * PAGE))
    }

    /// Allocates a backed run that is too short together with the missing pages of an adjacent empty run. Otherwise
    /// memory in small free runs would stay unused, and the request would take additional memory. Returns `None` if
    /// there are no such two runs among those that are tried.
    fn stretch(&mut self, table: &Table, pages: u32) -> Option<u32> {
        let mut beside = None;
        let end = self.end;
        let run = self.backed.largest(table, |run| {
            let size = table.run_at(run).1;
            // A run that is only a small part of the request is not worth a search of its neighbours.
            let is_worth_it = (pages / STRETCHED..pages).contains(&size);
            let missing = pages.saturating_sub(size);
            beside = is_worth_it.then_some(()).and_then(|()| {
                let after = table.next(run, size, end).filter(|&next| is_empty(table, next, missing));
                after.or_else(|| table.before(run).filter(|&before| is_empty(table, before, missing)))
            });
            beside.is_some()
        })?;
        let (beside, size) = (beside?, table.run_at(run).1);
        let (other, missing) = (table.run_at(beside).1, pages - size);
        self.budget.charge(missing as usize * PAGE).ok()?;
        self.unlist(table, run, Kind::Backed, size);
        self.unlist(table, beside, Kind::Empty, other);
        let first = if beside > run { run } else { run - missing };
        if beside > run {
            table.forget(beside);
            self.list(table, run + pages, other - missing, Kind::Empty, 0);
        } else {
            table.forget(run);
            self.list(table, beside, other - missing, Kind::Empty, 0);
        }
        table.write(first, pages, Kind::Used, 0);
        self.usage.used += pages as usize * PAGE;
        Some(first)
    }

    /// Frees a claimed run that has memory.
    pub(super) fn put(&mut self, table: &Table, first: u32, pages: u32, now: u32) {
        self.usage.used -= pages as usize * PAGE;
        self.join(table, first, pages, Kind::Backed, now);
    }

    /// Frees a run in use that its caller has not written to. It has no memory if `is_empty`.
    pub(super) fn put_unused(&mut self, table: &Table, first: u32, pages: u32, is_empty: bool) {
        if !is_empty {
            return self.put(table, first, pages, 0);
        }
        self.uncharge(pages);
        self.put_held(table, first, pages);
    }

    /// Frees a claimed run that has lost its memory and is not charged any more.
    pub(super) fn put_held(&mut self, table: &Table, first: u32, pages: u32) {
        self.usage.used -= pages as usize * PAGE;
        self.join(table, first, pages, Kind::Empty, 0);
    }

    /// Ends the charge of pages that have lost their memory and that no request can use yet.
    pub(super) fn uncharge(&self, pages: u32) {
        self.budget.release(pages as usize * PAGE);
    }

    /// Shortens a run in use to `pages` pages, and frees the rest.
    pub(super) fn cut(&mut self, table: &Table, first: u32, pages: u32, now: u32) {
        let (_, old) = table.run_at(first);
        if pages < old {
            table.write(first, pages, Kind::Used, 0);
            self.put(table, first + pages, old - pages, now);
        }
    }

    /// Extends a run in use to `pages` pages from the free run behind it; returns whether that was possible.
    pub(super) fn extend(&mut self, table: &Table, range: &Reservation, first: u32, pages: u32) -> bool {
        let (_, old) = table.run_at(first);
        let (next, wanted) = (first + old, pages - old);
        if next == self.end && self.extend_range(table, range, wanted).is_err() {
            return false;
        }
        let Some(next) = table.next(first, old, self.end) else { return false };
        let (kind, size) = table.run_at(next);
        if !matches!(kind, Kind::Backed | Kind::Empty) || size < wanted {
            return false;
        }
        if kind == Kind::Empty && self.budget.charge(wanted as usize * PAGE).is_err() {
            return false;
        }
        let since = table.since(next);
        self.unlist(table, next, kind, size);
        table.forget(next);
        self.list(table, next + wanted, size - wanted, kind, since);
        table.write(first, pages, Kind::Used, 0);
        self.usage.used += wanted as usize * PAGE;
        true
    }

    /// Claims the last huge page, or the remainder of one, of the largest backed run that was freed no later than
    /// `until`. Returns `None` if there is no such run among those that are tried.
    pub(super) fn take_backed(&mut self, table: &Table, until: u32) -> Option<Claimed> {
        let run = self.backed.largest(table, |run| table.since(run) <= until)?;
        let (kind, size) = table.run_at(run);
        let since = table.since(run);
        self.unlist(table, run, kind, size);
        let first = ((run + size - 1) / HUGE * HUGE).max(run);
        self.list(table, run, first - run, kind, since);
        let pages = run + size - first;
        table.write(first, pages, Kind::Claimed, 0);
        Some(Claimed { first, pages })
    }

    /// Frees a run that [`take_backed`](Self::take_backed) claimed, with or without memory.
    pub(super) fn put_taken(&mut self, table: &Table, first: u32, pages: u32, is_empty: bool, since: u32) {
        if is_empty {
            self.budget.release(pages as usize * PAGE);
        }
        self.join(table, first, pages, if is_empty { Kind::Empty } else { Kind::Backed }, since);
    }

    /// Unmaps the free run at the end of the used part of the range, if it has no memory.
    pub(super) fn unmap_end(&mut self, table: &Table, range: &Reservation) {
        let Some(run) = table.before(self.end) else { return };
        let (kind, pages) = table.run_at(run);
        // SAFETY: the run is free, so its pages are not accessed before the range grows again.
        if kind == Kind::Empty && unsafe { range.shrink(run as usize * PAGE) }.is_ok() {
            self.unlist(table, run, kind, pages);
            table.forget(run);
            self.end = run;
        }
    }

    /// Returns an empty run of at least `pages` pages at the end of the used part of the range, which is extended, or
    /// continues behind mappings that block its way.
    ///
    /// # Errors
    /// If the range has no room, or the system refuses memory.
    fn grow(&mut self, table: &Table, range: &Reservation, pages: u32) -> Result<u32, Errno> {
        match self.extend_range(table, range, pages) {
            Err(Errno::EXIST) => {
                self.skip(table, range, pages)?;
                self.extend_range(table, range, pages)
            }
            result => result,
        }
    }

    /// Leaves a hole at the end of the used part of the range, behind which `pages` pages and their entries can be
    /// mapped. Costs about four system calls for each place that is tried ([`find_behind`]).
    ///
    /// # Errors
    /// If there is no such place, or the system refuses for another reason.
    #[cold]
    fn skip(&mut self, table: &Table, range: &Reservation, pages: u32) -> Result<(), Errno> {
        table.reserve_hole()?;
        range.holes().reserve()?;
        let last = self.pages.checked_sub(pages).ok_or(Errno::NOMEM)?;
        let to = find_behind(self.end, last, |page| {
            range.probe(page as usize * PAGE, (page + pages) as usize * PAGE)?;
            table.probe(page..page + pages)
        })?;
        range.skip_to(to as usize * PAGE)?;
        table.skip(self.end..to)?;
        self.end = to;
        Ok(())
    }

    /// Extends the used part of the range, and returns an empty run of at least `pages` pages at its end.
    ///
    /// # Errors
    /// [`Errno::EXIST`] if another mapping is in the way. Another error if the range has no room, or the system refuses
    /// memory.
    fn extend_range(&mut self, table: &Table, range: &Reservation, pages: u32) -> Result<u32, Errno> {
        let before = table.before(self.end).filter(|&run| table.run_at(run).0 == Kind::Empty);
        let there = before.map_or(0, |run| table.run_at(run).1);
        let missing = pages.saturating_sub(there);
        let left = self.pages - self.end;
        if missing > left {
            return Err(Errno::NOMEM);
        }
        // If little of the range or of the system's limit is left, only the missing pages are added.
        let growth = (self.end / GROWTH_SHARE).next_multiple_of(HUGE).clamp(HUGE, GROWTH_MAX);
        let step = missing.checked_next_multiple_of(growth).unwrap_or(left).min(left);
        let step = match self.map(table, range, step) {
            Err(_) if step > missing => self.map(table, range, missing).map(|()| missing)?,
            result => result.map(|()| step)?,
        };
        let first = self.end;
        self.end += step;
        Ok(self.join(table, first, step, Kind::Empty, 0))
    }

    /// Maps more pages of the range, and their entries before, which take far less memory. The entries are charged.
    fn map(&self, table: &Table, range: &Reservation, pages: u32) -> Result<(), Errno> {
        let (end, bytes) = (self.end + pages, table.growth(self.end + pages));
        self.budget.charge(bytes)?;
        table.grow(end).inspect_err(|_| self.budget.release(bytes))?;
        range.grow(end as usize * PAGE)
    }

    /// Frees a run, merges it with adjacent free runs of its kind, and returns the first page of the result.
    fn join(&mut self, table: &Table, mut first: u32, mut pages: u32, kind: Kind, mut since: u32) -> u32 {
        if let Some(next) = table.next(first, pages, self.end)
            && table.run_at(next).0 == kind
        {
            let size = table.run_at(next).1;
            since = since.max(table.since(next));
            self.unlist(table, next, kind, size);
            table.forget(next);
            pages += size;
        }
        if let Some(before) = table.before(first)
            && table.run_at(before).0 == kind
        {
            let size = table.run_at(before).1;
            since = since.max(table.since(before));
            self.unlist(table, before, kind, size);
            table.forget(first);
            (first, pages) = (before, pages + size);
        }
        self.list(table, first, pages, kind, since);
        first
    }

    fn list(&mut self, table: &Table, first: u32, pages: u32, kind: Kind, since: u32) {
        if pages == 0 {
            return;
        }
        table.write(first, pages, kind, since);
        match kind {
            Kind::Backed => {
                self.usage.backed += pages as usize * PAGE;
                self.backed.insert(table, first, pages);
            }
            _ => {
                self.usage.empty += pages as usize * PAGE;
                self.empty.insert(table, first, pages);
            }
        }
    }

    fn unlist(&mut self, table: &Table, first: u32, kind: Kind, pages: u32) {
        debug_assert!(first != NONE && matches!(kind, Kind::Backed | Kind::Empty), "the run is not free");
        match kind {
            Kind::Backed => {
                self.usage.backed -= pages as usize * PAGE;
                self.backed.remove(table, first, pages);
            }
            _ => {
                self.usage.empty -= pages as usize * PAGE;
                self.empty.remove(table, first, pages);
            }
        }
    }

    /// Walks the range and returns the first violated invariant.
    pub(super) fn check(&self, table: &Table) -> Result<(), &'static str> {
        let (mut page, mut last, mut usage) = (0, Kind::Used, Usage::default());
        while page < self.end {
            if let Some(hole) = table.hole_at(page) {
                (page, last) = (hole.end, Kind::Used);
                continue;
            }
            let (kind, pages) = table.run_at(page);
            if kind == Kind::Inside || pages == 0 || page + pages > self.end {
                return Err("a run does not begin where the previous one ends");
            }
            if (page + 1..page + pages).any(|inside| table.run_at(inside).0 != Kind::Inside) {
                return Err("a run begins inside of another");
            }
            if table.before(page).is_some_and(|before| table.run_at(before).0 != last) {
                return Err("the end of a run does not lead to its start");
            }
            if kind == last && matches!(kind, Kind::Backed | Kind::Empty) {
                return Err("adjacent free runs of one kind are not joined");
            }
            match kind {
                Kind::Backed => usage.backed += pages as usize * PAGE,
                Kind::Empty => usage.empty += pages as usize * PAGE,
                _ => usage.used += pages as usize * PAGE,
            }
            (page, last) = (page + pages, kind);
        }
        if usage == self.usage { Ok(()) } else { Err("the counters do not match the runs") }
    }
}

/// Returns whether an empty run of at least `pages` pages starts at page `run`.
fn is_empty(table: &Table, run: u32, pages: u32) -> bool {
    matches!(table.run_at(run), (Kind::Empty, size) if size >= pages)
}
