//! A range given back.
//!
//! Freed one by one, each page takes the way of a single page: checks, the CPU's list, some day a drain that merges it
//! with its neighbours. Freed as a batch, the pages meet here already:
//!
//! ```text
//! prepare   every block of the range is checked, and becomes an interior frame       one load, one store a block
//! chunk     runs of prepared blocks go back as the largest blocks that fit           a list link a chunk
//! ```
//!
//! A block that others still refer to, or that is broken or bad, is left out while the range is prepared and ends a
//! run; it then goes the way of single blocks. If any block turns out not to be the caller's, what was prepared is
//! restored and the range is as it was. No block crosses a memory section, so no chunk does.
//!
//! The floor under this is `prepare` without its store: a block that is not looked at is not checked. For single pages
//! that is a load each. A range that is made of large blocks is checked at their heads, so that a whole pageblock
//! takes one look.
//!
//! linux: mm/page_alloc.c:free_contig_range, and the proposal of March 2026 to free ranges in batches

use core::array::from_ref;
use core::ops::Range;

use super::error::RangeError;
use crate::base::frame::Word;
use crate::base::memmap::SECTION_PAGES;
use crate::base::{Frame, Order, Pfn};
use crate::page::free::Freed;
use crate::page::{FreeError, PageAllocator};
use crate::platform::Platform;
use crate::policy::ContigPolicy;

/// Frames that are checked together: two cache lines.
const GROUP: usize = 8;

/// What the caller says of the blocks that it gives back.
#[derive(Clone, Copy, Debug)]
pub(in crate::page) struct Terms {
    /// References that it holds on each: one, or none on frozen blocks.
    refs: u32,
    /// The largest of them.
    order_max: Order,
}

impl Terms {
    /// Blocks of any order, one reference on each.
    const REFERENCED: Terms = Terms { refs: 1, order_max: Order::MAX };
    /// Blocks of any order without references.
    const FROZEN: Terms = Terms { refs: 0, order_max: Order::MAX };
    /// Single pages, one reference on each.
    pub(in crate::page) const PAGES: Terms = Terms { refs: 1, order_max: Order::ZERO };

    /// Whether a block is the caller's alone, and healthy.
    fn cover(&self, word: Word) -> bool {
        word.is_held_of(word.order(), self.refs)
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Drops the caller's reference to every block of a range, which may be single pages or larger blocks that lie in
    /// it whole; what nobody else refers to is freed. Cost: one step a block, and a list link for every [`Order::MAX`]
    /// of pages.
    ///
    /// # Errors
    /// See [`FreeError`]: the first frame that is not the caller's to free, and what it is; the range is as it was.
    pub fn free_contig_range(&self, range: Range<Pfn>) -> Result<(), FreeError> {
        self.free_range(range, Terms::REFERENCED)
    }

    /// Frees a range of blocks that have no references. It may begin and end inside a block that is not compound: the
    /// rest of that block stays allocated.
    ///
    /// # Errors
    /// As [`free_contig_range`](Self::free_contig_range). Blocks that do have references are bad: they are withheld
    /// for ever, the rest of the range is freed, and the first of them is reported as [`FreeError::Bad`]. That is a
    /// check of what is there: a holder that drops its reference while this runs is not found out.
    pub fn free_contig_frozen_range(&self, range: Range<Pfn>) -> Result<(), FreeError> {
        self.free_range(range, Terms::FROZEN)
    }

    pub(in crate::page) fn free_range(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        self.zone_of_range(&range)?;
        if terms.refs == 0 {
            self.split_at_borders(&range, terms)?;
        }
        match self.policy.contig {
            ContigPolicy::OneByOne => self.free_one_by_one(range, terms),
            ContigPolicy::Batched => self.free_batched(range, terms),
        }
    }

    fn free_one_by_one(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        self.expect_all_held(&range, terms)?;
        let (mut at, mut result) = (range.start, Ok(()));
        while at < range.end {
            let word = self.map.frame(at).word();
            if terms.refs == 0 && word.refs() == 0 && !word.is_compound() {
                self.split_allocated(at, word, at.blocks_up_to(at.offset(word.order().pages()), Order::ZERO));
            }
            let order = self.map.frame(at).word().order();
            result = result.and(self.free_by_itself(at, order, terms));
            at = at.offset(order.pages());
        }
        result
    }

    fn free_batched(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let (mut at, mut left_out) = (range.start, 0);
        loop {
            at = self.prepare_pages(at..range.end, terms);
            if at == range.end {
                break;
            }
            let word = self.expect_held(at, range.end, terms).inspect_err(|_| self.restore(range.start..at))?;
            if terms.cover(word) {
                self.map.frame(at).set(word.absorbed());
            } else {
                left_out += 1;
            }
            at = at.offset(word.order().pages());
        }
        if left_out == 0 {
            self.free_run(range);
            return Ok(());
        }
        self.free_between(range, terms)
    }

    /// Prepares single pages for as long as they are the caller's alone; returns the first frame that is something
    /// else.
    #[inline]
    fn prepare_pages(&self, range: Range<Pfn>, terms: Terms) -> Pfn {
        let mut prepared = 0;
        for frames in self.map.frames(&range) {
            let (groups, _) = frames.as_chunks::<GROUP>();
            let grouped = GROUP * groups.iter().take_while(|group| prepare(group, terms.refs)).count();
            let singly = frames[grouped..].iter().take_while(|&frame| prepare(from_ref(frame), terms.refs)).count();
            prepared += grouped + singly;
            if grouped + singly < frames.len() {
                break;
            }
        }
        range.start.offset(prepared as u32)
    }

    /// Refuses a range that is not made of blocks which the caller may give back.
    pub(super) fn expect_all_held(&self, range: &Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let mut at = range.start;
        while at < range.end {
            at = at.offset(self.expect_held(at, range.end, terms)?.order().pages());
        }
        Ok(())
    }

    /// A block that the caller may give back: allocated, held as it says, and ending within the range.
    fn expect_held(&self, pfn: Pfn, end: Pfn, terms: Terms) -> Result<Word, FreeError> {
        let word = self.map.frame(pfn).word();
        let state = word.state();
        if !word.is_allocated() {
            Err(FreeError::NotAllocated { pfn, state })
        } else if word.refs() < terms.refs {
            Err(FreeError::Frozen { pfn, state })
        } else if word.order() > terms.order_max {
            Err(FreeError::WrongOrder { pfn, given: terms.order_max, state })
        } else if end.raw() - pfn.raw() < word.order().pages() {
            Err(FreeError::CrossesEnd { pfn, state })
        } else {
            Ok(word)
        }
    }

    /// Makes allocated heads again of what was prepared; blocks that were left out still are.
    #[cold]
    fn restore(&self, prepared: Range<Pfn>) {
        let mut at = prepared.start;
        while at < prepared.end {
            let frame = self.map.frame(at);
            let word = frame.word();
            if word.is_interior() {
                frame.set(word.restored());
            }
            at = at.offset(word.order().pages());
        }
    }

    /// Frees the runs between blocks that were left out, and each of these by itself.
    #[cold]
    fn free_between(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let (mut run, mut at, mut result) = (range.start, range.start, Ok(()));
        while at < range.end {
            // A prepared frame still says how large its block was.
            let word = self.map.frame(at).word();
            let next = at.offset(word.order().pages());
            if !word.is_interior() {
                self.free_run(run..at);
                result = result.and(self.free_by_itself(at, word.order(), terms));
                run = next;
            }
            at = next;
        }
        self.free_run(run..range.end);
        result
    }

    /// Frees healthy frames that are on no list and inside no block, as the largest blocks that fit.
    pub(in crate::page) fn free_run(&self, run: Range<Pfn>) {
        let Range { start, end } = run;
        let is_long = end.raw() - start.raw() >= Order::MAX.pages() && self.map.pageblock_order() < Order::MAX;
        if !is_long {
            return self.free_chunks(run);
        }
        let (first, last) = (start.align_up(Order::MAX), end.align_down(Order::MAX));
        self.free_chunks(start..first);
        self.free_largest(first..last);
        self.free_chunks(last..end);
    }

    fn free_chunks(&self, run: Range<Pfn>) {
        for (pfn, order) in run.start.blocks_up_to(run.end, Order::MAX) {
            self.free_healthy(self.map.pageblock(pfn), Freed { pfn, order, frame: self.map.frame(pfn) });
        }
    }

    /// Frees blocks larger than a pageblock, which no CPU's list holds: a section's worth under each hold of the zone
    /// lock.
    fn free_largest(&self, run: Range<Pfn>) {
        let mut at = run.start;
        while at < run.end {
            let next = at.offset(SECTION_PAGES.min(run.end.raw() - at.raw()));
            let mut locked = self.lock_zone(self.zone_of(at));
            at.blocks_up_to(next, Order::MAX).for_each(|(pfn, order)| locked.free_typed(pfn, order));
            at = next;
        }
    }

    fn free_by_itself(&self, pfn: Pfn, order: Order, terms: Terms) -> Result<(), FreeError> {
        if terms.refs == 0 { self.free_frozen_pages(pfn, order) } else { self.free_pages(pfn, order) }
    }
}

/// Makes interior frames of single pages that are all the caller's alone; `false`, and nothing done, if one is not.
#[inline]
fn prepare<const N: usize>(frames: &[Frame; N], refs: u32) -> bool {
    let words = frames.each_ref().map(Frame::word);
    // One branch for all of them.
    let whole = words.iter().fold(true, |all, word| all & word.is_held_of(Order::ZERO, refs));
    if whole {
        frames.iter().zip(words).for_each(|(frame, word)| frame.set(word.absorbed()));
    }
    whole
}

impl From<RangeError> for FreeError {
    fn from(error: RangeError) -> FreeError {
        FreeError::Range(error)
    }
}
