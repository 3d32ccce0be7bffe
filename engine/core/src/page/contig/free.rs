//! A range given back.
//!
//! Freed one by one, each page takes the way of a single page: checks, the CPU's list, some day a drain that merges it
//! with its neighbours. Freed as a batch, the pages meet here already:
//!
//! ```text
//! look      every block of the range is checked; if one is not the caller's, nothing has changed    a load a block
//! claim     pages of a range become interior frames under the zone lock, so many at a time           a store a page
//!           other blocks one by one                                                                  an atomic step
//! chunk     runs of claimed blocks go back as the largest blocks that fit                           a link a chunk
//! ```
//!
//! A block that others still refer to, or that is broken or bad, ends a run, and goes the way of single blocks. So does
//! what somebody else freed or changed since it was looked at: then there is an error to return, and the rest goes on.
//! No block crosses a memory section, so no chunk does.
//!
//! A range that is all pages of a range is not looked at before it is claimed: its words are all alike, so if one turns
//! out not to be the caller's, the others get theirs back. The floor under this is a load and a store a page: what is
//! not looked at is not checked, and the store holds off a free of the same page elsewhere. A range that is made of
//! large blocks is claimed by their heads, so that a whole pageblock takes one step.
//!
//! linux: mm/page_alloc.c:free_contig_range, and the proposal of March 2026 to free ranges in batches

use core::array::from_ref;
use core::ops::Range;

use crate::base::fault::{Fault, is_planted};
use crate::base::frame::Lost;
use crate::base::word::Word;
use crate::base::{Frame, Order, Pfn};
use crate::page::allocator::PageAllocator;
use crate::page::error::{FreeError, RangeError};
use crate::page::free::{ClaimedBlock, ClaimedRange};
use crate::platform::Platform;
use crate::policy::ContigPolicy;

/// Frames that are looked at together: two cache lines.
const GROUP: usize = 8;
/// Pages of large blocks that go back under one hold of the zone lock: those of a memory section, as Linux has them.
const HOLD_PAGES: u32 = 1 << 15;
/// Order of the smallest block whose pages are pages of a range once it is split. So many leave the range together,
/// too, when one of them goes back by itself.
pub(in crate::page) const RANGE_ORDER_MIN: Order = Order::new(if cfg!(loom) { 1 } else { 6 });
/// Pages of a range that are claimed under one hold: a few microseconds.
const CLAIM_PAGES: u32 = 1 << 12;

/// What the caller says of the blocks that it gives back.
#[derive(Clone, Copy, Debug)]
pub(in crate::page) struct Terms {
    /// References that it holds on each: one, or none on frozen blocks.
    refs: u32,
    /// Order of the largest of these blocks.
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
        match self.rules().contig {
            ContigPolicy::OneByOne => self.free_one_by_one(range, terms),
            ContigPolicy::Batched => self.free_batched(range, terms),
        }
    }

    fn free_one_by_one(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        self.expect_all_held(&range, terms)?;
        let (mut at, mut result) = (range.start, Ok(()));
        while at < range.end {
            let (pages, freed) = match self.expect_held(at, range.end, terms) {
                Ok(word) if terms.refs == 0 && terms.cover(word) && !word.is_compound() => {
                    (word.order().pages(), self.free_by_pages(at, word))
                }
                Ok(word) => (word.order().pages(), self.free_by_itself(at, word.order(), terms)),
                Err(error) => (1, Err(error)),
            };
            result = result.and(freed);
            at = at.offset(pages);
        }
        result
    }

    /// Frees a frozen block page by page.
    fn free_by_pages(&self, pfn: Pfn, seen: Word) -> Result<(), FreeError> {
        let frame = self.map.frame(pfn);
        frame.claim(seen, seen.claimed()).map_err(|Lost| self.not_allocated_error(pfn))?;
        let mut rest = ClaimedRange::new(&self.map, pfn..pfn.offset(seen.order().pages()));
        for page in rest.frames() {
            rest.keep_before(page.offset(1));
            self.map.frame(page).set(Word::claimed_of(Order::ZERO));
            self.free_claimed(page, Order::ZERO);
        }
        Ok(())
    }

    fn free_batched(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        if self.free_as_one(&range, terms) || self.free_ranged(&range, terms) {
            return Ok(());
        }
        self.expect_all_held(&range, terms)?;
        self.free_each(range, terms)
    }

    /// Frees a range that is one block of the caller's alone; `false`, and nothing done, if it is not.
    #[inline]
    fn free_as_one(&self, range: &Range<Pfn>, terms: Terms) -> bool {
        let (pfn, frame) = (range.start, self.map.frame(range.start));
        let seen = frame.word();
        let order = seen.order();
        let is_whole = terms.cover(seen) && order.pages() == range.end.raw() - pfn.raw();
        let is_mine = is_whole && frame.claim(seen, Word::claimed_of(order)).is_ok();
        if is_mine {
            self.free_unref_page(self.map.pageblock(pfn), ClaimedBlock { pfn, order }, frame);
        }
        is_mine
    }

    /// Frees pages of a range that are the caller's alone to the last; `false`, and nothing changed, if one is not.
    /// They are claimed without a look at all of them before, since all words are alike, and what was claimed in vain
    /// gets its back.
    fn free_ranged(&self, range: &Range<Pfn>, terms: Terms) -> bool {
        let mut taken = ClaimedRange::new(&self.map, range.start..range.start);
        self.claim_ranged(&mut taken, range.end, terms);
        let claimed = range.start..taken.end();
        taken.keep_all();
        if claimed == *range {
            self.free_run(claimed);
            return true;
        }
        let page = Word::allocated(Order::ZERO).ranged().with_refs(terms.refs);
        self.map.frames(&claimed).flatten().for_each(|frame| frame.set(page));
        false
    }

    /// Frees what is the caller's of a range that lies in one zone, in batches; the first error is returned.
    pub(in crate::page) fn free_each(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let (mut run, mut result) = (range.start, Ok(()));
        loop {
            let at = self.claim_blocks(run..range.end, terms);
            self.free_run(run..at);
            if at >= range.end {
                return result;
            }
            // Shared, broken or bad; or somebody else's by now, whatever it was when the range was looked over.
            let (pages, freed) = match self.expect_held(at, range.end, terms) {
                Ok(word) => (word.order().pages(), self.free_by_itself(at, word.order(), terms)),
                Err(error) => (1, Err(error)),
            };
            result = result.and(freed);
            run = at.offset(pages);
        }
    }

    /// Makes interior frames of blocks for as long as they are the caller's alone; returns the first frame that is
    /// something else.
    #[inline]
    fn claim_blocks(&self, range: Range<Pfn>, terms: Terms) -> Pfn {
        let mut taken = ClaimedRange::new(&self.map, range.start..range.start);
        loop {
            self.claim_ranged(&mut taken, range.end, terms);
            let at = self.claim_pages(taken.end()..range.end, terms);
            if at > taken.end() {
                // Pages of a range may follow.
                taken.extend_to(at);
                continue;
            }
            let own = self.expect_held(at, range.end, terms).ok().filter(|&word| terms.cover(word));
            let Some(word) = own else {
                taken.keep_all();
                return at;
            };
            if self.map.frame(at).claim(word, Word::INTERIOR).is_ok() {
                taken.extend_to(at.offset(word.order().pages()));
            }
        }
    }

    /// The same for a range of single pages.
    #[inline]
    fn claim_pages(&self, range: Range<Pfn>, terms: Terms) -> Pfn {
        let mut claimed = 0;
        for frames in self.map.frames(&range) {
            let here = frames.iter().take_while(|frame| claim_page(frame, terms.refs)).count();
            claimed += here;
            if here < frames.len() {
                break;
            }
        }
        range.start.offset(claimed as u32)
    }

    /// The same for pages of a range, which join what was taken already: so many under each hold of the zone lock.
    #[inline]
    fn claim_ranged(&self, taken: &mut ClaimedRange<'_, '_>, end: Pfn, terms: Terms) {
        while taken.end() < end && self.map.frame(taken.end()).word().is_ranged() {
            let at = taken.end();
            self.claim_ranged_under_lock(taken, at.offset(CLAIM_PAGES.min(end.raw() - at.raw())), terms);
            if taken.end() == at {
                break;
            }
        }
    }

    #[inline(never)]
    fn claim_ranged_under_lock(&self, taken: &mut ClaimedRange<'_, '_>, end: Pfn, terms: Terms) {
        let part = taken.end()..end;
        // Opened last: the probe hears of it, and may panic.
        let Some(_locked) = self.lock_zone_of(part.start) else { return };
        let refused = self.first_refused(&part, |frames| claim_held(frames, |word| word.is_ranged_page_of(terms.refs)));
        taken.extend_to(refused);
    }

    /// The word of a page among many that are given out together: one of a range, where that goes back as a batch. What
    /// may be moved can leave its owner's hands one page at a time, and is claimed so.
    pub(in crate::page) fn word_in_range(&self, page: Word) -> Word {
        let is_range = self.rules().contig == ContigPolicy::Batched && !page.is_movable();
        if is_range { page.ranged() } else { page }
    }

    /// Makes a page of a range one by itself, which is claimed as such; and its neighbours, since they will be next.
    #[cold]
    pub(in crate::page) fn leave_range(&self, pfn: Pfn) {
        let order = RANGE_ORDER_MIN.min(self.map.pageblock_order());
        let first = pfn.align_down(order);
        // Memory that went offline meanwhile has no pages of a range.
        let Some(locked) = self.lock_zone_of(pfn) else { return };
        let _locked = (!is_planted(Fault::LeavesRangeUnlocked)).then_some(locked);
        let range = first..first.offset(order.pages());
        for frame in self.map.frames(&range).flatten().filter(|frame| frame.word().is_ranged()) {
            // Another holder of a reference may be counting references.
            let _other = frame.step(|word| word.is_ranged().then(|| word.unranged()));
        }
    }

    /// The first frame of a range that is not a single page of the caller's alone.
    #[inline]
    fn pages_held(&self, range: &Range<Pfn>, terms: Terms) -> Pfn {
        self.first_refused(range, |frames| are_held(frames, terms.refs))
    }

    /// The first frame of a range that is refused: frames are asked for in groups, and one by one where that fails.
    #[inline(always)]
    fn first_refused(&self, range: &Range<Pfn>, take: impl Fn(&[Frame]) -> bool) -> Pfn {
        let mut taken = 0;
        for frames in self.map.frames(range) {
            let (groups, _) = frames.as_chunks::<GROUP>();
            let grouped = GROUP * groups.iter().take_while(|&group| take(group)).count();
            let singly = frames[grouped..].iter().take_while(|&frame| take(from_ref(frame))).count();
            taken += grouped + singly;
            if grouped + singly < frames.len() {
                break;
            }
        }
        range.start.offset(taken as u32)
    }

    /// Refuses a range that is not made of blocks which the caller may give back.
    pub(super) fn expect_all_held(&self, range: &Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let mut at = range.start;
        loop {
            at = self.pages_held(&(at..range.end), terms);
            if at >= range.end {
                return Ok(());
            }
            at = at.offset(self.expect_held(at, range.end, terms)?.order().pages());
        }
    }

    /// A block that the caller may give back: allocated, held as it says, and ending within the range.
    fn expect_held(&self, pfn: Pfn, end: Pfn, terms: Terms) -> Result<Word, FreeError> {
        if pfn >= end {
            return Err(RangeError::Empty { start: pfn }.into());
        }
        let word = self.map.frame(pfn).word();
        let state = word.state();
        if word.is_absent() {
            Err(RangeError::OutOfRange { pfn }.into())
        } else if !word.is_allocated() {
            Err(FreeError::NotAllocated { pfn, state })
        } else if word.is_slab() {
            Err(FreeError::Slab { pfn, state })
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

    /// Frees healthy frames that are on no list and inside no block, as the largest blocks that fit. They are the
    /// caller's alone.
    pub(in crate::page) fn free_run(&self, run: Range<Pfn>) {
        let Range { start, end } = run;
        let is_long = end.raw() - start.raw() >= Order::MAX.pages() && self.map.pageblock_order() < Order::MAX;
        if !is_long {
            return self.free_chunks(run, Order::MAX);
        }
        let (first, last) = (start.align_up(Order::MAX), end.align_down(Order::MAX));
        let mut rest = ClaimedRange::new(&self.map, first..end);
        self.free_chunks(start..first, Order::MAX);
        rest.keep_before(last);
        self.free_largest(first..last);
        rest.keep_all();
        self.free_chunks(last..end, Order::MAX);
    }

    /// As [`free_run`](Self::free_run), by blocks of this order at most that a CPU's list or the zone takes one by one.
    pub(in crate::page) fn free_chunks(&self, run: Range<Pfn>, order_max: Order) {
        let mut rest = ClaimedRange::new(&self.map, run.clone());
        for (pfn, order) in run.start.blocks_up_to(run.end, order_max) {
            rest.keep_before(pfn.offset(order.pages()));
            let frame = self.map.frame(pfn);
            frame.set(Word::claimed_of(order));
            self.free_unref_page(self.map.pageblock(pfn), ClaimedBlock { pfn, order }, frame);
        }
    }

    /// Frees blocks larger than a pageblock, which no CPU's list holds: so many pages under each hold of the zone
    /// lock.
    fn free_largest(&self, run: Range<Pfn>) {
        let mut rest = ClaimedRange::new(&self.map, run.clone());
        let mut at = run.start;
        while at < run.end {
            let next = at.offset(HOLD_PAGES.min(run.end.raw() - at.raw()));
            rest.keep_before(next);
            let mut locked = self.lock_zone(self.zone_of(at));
            at.blocks_up_to(next, Order::MAX).for_each(|(pfn, order)| locked.split_large_buddy(pfn, order));
            at = next;
        }
    }

    fn free_by_itself(&self, pfn: Pfn, order: Order, terms: Terms) -> Result<(), FreeError> {
        if terms.refs == 0 { self.free_frozen_pages(pfn, order) } else { self.free_pages(pfn, order) }
    }
}

/// Whether single pages are all the caller's alone.
#[inline(always)]
fn are_held(frames: &[Frame], refs: u32) -> bool {
    // One branch for all of them.
    frames.iter().fold(true, |all, frame| all & frame.word().is_page_of(refs))
}

/// Makes interior frames of pages that are all held so; `false`, and nothing done, if one is not. Under the zone lock.
#[inline(always)]
fn claim_held(frames: &[Frame], is_held: impl Fn(Word) -> bool) -> bool {
    let all = frames.iter().fold(true, |all, frame| all & is_held(frame.word()));
    if all {
        frames.iter().for_each(|frame| frame.set(Word::INTERIOR));
    }
    all
}

/// Makes an interior frame of a single page that is the caller's alone; `false`, and nothing done, if it is not.
#[inline]
fn claim_page(frame: &Frame, refs: u32) -> bool {
    let word = frame.word();
    word.is_held_of(Order::ZERO, refs) && frame.claim(word, Word::INTERIOR).is_ok()
}
