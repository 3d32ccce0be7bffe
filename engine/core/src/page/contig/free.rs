//! Freeing a range.
//!
//! If the pages of a range are freed one by one, each takes the path of a single page: it is checked, put on the CPU's
//! list, and merged with its neighbours in a later drain. If they are freed as a batch, they are merged here:
//!
//! ```text
//! check     every block of the range is checked; if one is not the caller's, nothing changes   one load per block
//! claim     pages of a range become Interior under the zone lock, a limited number per hold    one store per page
//!           other blocks one by one                                                            one atomic step each
//! chunk     runs of claimed blocks are freed as the largest blocks that fit                    one link per chunk
//! ```
//!
//! A block that has other references, or is poisoned or bad, ends a run and is freed like a single block. This also
//! applies to a block that another call freed or changed after the check. The call then returns an error, but frees the
//! rest. No block crosses the border of a memory section, so no chunk does.
//!
//! A range that consists of pages of a range is not checked before it is claimed. All of its words are equal, so if one
//! page turns out not to be the caller's, the claimed pages get their words back. One load and one store per page is
//! the lower bound: the load is the check, and the store prevents that another CPU frees the page at the same time. A
//! range of large blocks is claimed by their heads, so a whole pageblock takes one step.
//!
//! linux: mm/page_alloc.c:free_contig_range, and the proposal of March 2026 to free ranges in batches
//!
//! # Design
//!
//! *One function frees every kind of range.* It takes the caller's *terms*: the number of references that the caller
//! holds on each block, one or none. `free_contig_range` and `free_contig_frozen_range` only select the terms. The
//! author of the proposal asks whether these two wrappers should be removed. They stay, because only the caller knows
//! whether it holds a reference. A single entry would need the boolean argument that the review removed, or it would
//! have to guess from the count. A reference that is dropped twice would then pass for a frozen page.
//!
//! *The check and the count have the same granularity.* Pages with references are checked one by one, because each has
//! its own count; the batch adds one list link for each block of `Order::MAX`. A frozen range has no counts and is
//! checked at the heads of its blocks; a whole isolated pageblock is freed after one check. docs/findings/contig.md
//! compares all of these with their lower bounds.
//!
//! *Pages of a range.* Pages that were requested as a range, and pages of a block of 64 pages or more that was split,
//! are freed together, unless they can be migrated one by one. Their words mark them, and they are claimed under the
//! zone lock, 4096 per hold: one lock instead of one atomic step per page. A call that frees, drops or poisons one of
//! them alone takes that lock too. It first turns the page and its neighbours, up to 64 pages, into ordinary pages.
//! Pages that are freed one by one therefore take the lock for one page in 64. Under `contig=one-by-one` there are no
//! such pages.
//!
//! *Other ranges* are checked as a whole and then claimed block by block. A block that another call has claimed in the
//! meantime is reported, and the rest is freed.

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

/// Number of frames that are checked together: the words of half a cache line.
const GROUP: usize = 8;
/// Pages of large blocks that are freed under one hold of the zone lock: those of a memory section of Linux.
const HOLD_PAGES: u32 = 1 << 15;
/// Order of the smallest block whose pages become pages of a range when it is split. If one page of a range is freed by
/// itself, it leaves the range together with its neighbours in an aligned block of this order.
pub(in crate::page) const RANGE_ORDER_MIN: Order = Order::new(if cfg!(loom) { 1 } else { 6 });
/// Pages of a range that are claimed under one hold of the zone lock, which takes a few microseconds.
const CLAIM_PAGES: u32 = 1 << 12;

/// State that the caller expects of the blocks that it frees.
#[derive(Clone, Copy, Debug)]
pub(in crate::page) struct Terms {
    /// References that the caller holds on each block: one, or none on frozen blocks.
    refs: u32,
    /// Order of the largest of these blocks.
    order_max: Order,
}

impl Terms {
    /// Blocks of any order, with one reference on each.
    const REFERENCED: Terms = Terms { refs: 1, order_max: Order::MAX };
    /// Blocks of any order, without references.
    const FROZEN: Terms = Terms { refs: 0, order_max: Order::MAX };
    /// Single pages, with one reference on each.
    pub(in crate::page) const PAGES: Terms = Terms { refs: 1, order_max: Order::ZERO };

    /// Returns whether a block has no other references than the caller's, and is healthy.
    fn cover(&self, word: Word) -> bool {
        word.is_held_of(word.order(), self.refs)
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Drops the caller's reference to every block of a range. The blocks may be single pages, or larger blocks that
    /// are wholly in the range. A block without other references is freed. Cost: one step per block, and one list link
    /// per [`Order::MAX`] of pages.
    ///
    /// # Errors
    /// See [`FreeError`], which names the first frame that the caller may not free, and its state. The range is
    /// unchanged then, unless another call changed one of its blocks after the check: the rest of the range is freed in
    /// this case.
    pub fn free_contig_range(&self, range: Range<Pfn>) -> Result<(), FreeError> {
        self.free_range(range, Terms::REFERENCED)
    }

    /// Frees a range of blocks that have no references. The range may start and end inside a block that is not
    /// compound; the rest of that block stays allocated.
    ///
    /// # Errors
    /// See [`free_contig_range`](Self::free_contig_range). Blocks that have references are bad: they are withheld for
    /// ever, the rest of the range is freed, and the first of them is reported as [`FreeError::Bad`]. The check sees
    /// the references at the time of the call, so a holder that drops its reference meanwhile is not detected.
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

    /// Frees a range that is one block without other references. Returns `false`, and changes nothing, if it is not.
    #[inline]
    fn free_as_one(&self, range: &Range<Pfn>, terms: Terms) -> bool {
        let (pfn, frame) = (range.start, self.map.frame(range.start));
        let seen = frame.word();
        let order = seen.order();
        let is_whole = terms.cover(seen) && order.pages() == range.end.raw() - pfn.raw();
        let is_mine = is_whole && frame.claim(seen, Word::claimed_of(order)).is_ok();
        if is_mine {
            self.free_unref_block(self.map.pageblock(pfn), ClaimedBlock { pfn, order }, frame);
        }
        is_mine
    }

    /// Frees a range that consists of pages of a range without other references. Returns `false`, and changes nothing,
    /// if one page is different. The pages are claimed without a check of the whole range before, because all words are
    /// equal: if the claim fails, the claimed pages get this word back.
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

    /// Frees the caller's blocks in a range of one zone, in batches. Returns the first error, but continues after it.
    pub(in crate::page) fn free_each(&self, range: Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let (mut run, mut result) = (range.start, Ok(()));
        loop {
            let at = self.claim_blocks(run..range.end, terms);
            self.free_run(run..at);
            if at >= range.end {
                return result;
            }
            // The block is shared, poisoned or bad, or another call has changed it since the range was checked.
            let (pages, freed) = match self.expect_held(at, range.end, terms) {
                Ok(word) => (word.order().pages(), self.free_by_itself(at, word.order(), terms)),
                Err(error) => (1, Err(error)),
            };
            result = result.and(freed);
            run = at.offset(pages);
        }
    }

    /// Turns blocks without other references into Interior frames, up to the first frame that is different. Returns
    /// that frame.
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

    /// Claims single pages like [`claim_blocks`](Self::claim_blocks).
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

    /// Claims pages of a range, which are added to `taken`, a limited number under each hold of the zone lock.
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
        // The lock is released last, because the probe is notified of the release and may panic.
        let Some(_locked) = self.lock_zone_of(part.start) else { return };
        let refused = self.first_refused(&part, |frames| claim_held(frames, |word| word.is_ranged_page_of(terms.refs)));
        taken.extend_to(refused);
    }

    /// Returns the word of a page that is allocated together with many others. It is a page of a range if the policy
    /// frees ranges in batches. A movable page is an ordinary page, because a migration can free it separately.
    pub(in crate::page) fn word_in_range(&self, page: Word) -> Word {
        let is_range = self.rules().contig == ContigPolicy::Batched && !page.is_movable();
        if is_range { page.ranged() } else { page }
    }

    /// Turns a page of a range into an ordinary page, which is claimed separately. The same happens to its neighbours,
    /// because they are likely to be freed next.
    #[cold]
    pub(in crate::page) fn leave_range(&self, pfn: Pfn) {
        let order = RANGE_ORDER_MIN.min(self.map.pageblock_order());
        let first = pfn.align_down(order);
        // If the memory went offline meanwhile, there are no pages of a range.
        let Some(locked) = self.lock_zone_of(pfn) else { return };
        let _locked = (!is_planted(Fault::LeavesRangeUnlocked)).then_some(locked);
        let range = first..first.offset(order.pages());
        for frame in self.map.frames(&range).flatten().filter(|frame| frame.word().is_ranged()) {
            // Another holder of a reference may be changing the number of references.
            let _other = frame.step(|word| word.is_ranged().then(|| word.unranged()));
        }
    }

    /// Returns the first frame of a range that is not a single page without other references.
    #[inline]
    fn pages_held(&self, range: &Range<Pfn>, terms: Terms) -> Pfn {
        self.first_refused(range, |frames| are_held(frames, terms.refs))
    }

    /// Returns the first frame of a range that `take` refuses. Frames are passed to `take` in groups, and one by one
    /// after the first group that is refused.
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

    /// Refuses a range unless all of its blocks are the caller's to free.
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

    /// Returns the word of a block that the caller may free: it is allocated, has the caller's references, and ends
    /// within the range.
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

    /// Frees healthy frames that are on no list and in no block, as the largest blocks that fit. The frames belong to
    /// the caller alone.
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

    /// Frees frames like [`free_run`](Self::free_run), as blocks of at most this order, each of which is freed
    /// separately to a CPU's list or to the zone.
    pub(in crate::page) fn free_chunks(&self, run: Range<Pfn>, order_max: Order) {
        let mut rest = ClaimedRange::new(&self.map, run.clone());
        for (pfn, order) in run.start.blocks_up_to(run.end, order_max) {
            rest.keep_before(pfn.offset(order.pages()));
            let frame = self.map.frame(pfn);
            frame.set(Word::claimed_of(order));
            self.free_unref_block(self.map.pageblock(pfn), ClaimedBlock { pfn, order }, frame);
        }
    }

    /// Frees blocks that are larger than a pageblock, which no per-CPU list holds, [`HOLD_PAGES`] pages under each hold
    /// of the zone lock.
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

/// Returns whether all of the frames are single pages without other references.
#[inline(always)]
fn are_held(frames: &[Frame], refs: u32) -> bool {
    // The fold does not stop early, so there is one branch for all frames.
    frames.iter().fold(true, |all, frame| all & frame.word().is_page_of(refs))
}

/// Turns pages into Interior frames if `is_held` returns true for all of them. Otherwise returns `false` and changes
/// nothing. The caller holds the zone lock.
#[inline(always)]
fn claim_held(frames: &[Frame], is_held: impl Fn(Word) -> bool) -> bool {
    let all = frames.iter().fold(true, |all, frame| all & is_held(frame.word()));
    if all {
        frames.iter().for_each(|frame| frame.set(Word::INTERIOR));
    }
    all
}

/// Turns a single page without other references into an Interior frame. Otherwise returns `false` and changes nothing.
#[inline]
fn claim_page(frame: &Frame, refs: u32) -> bool {
    let word = frame.word();
    word.is_held_of(Order::ZERO, refs) && frame.claim(word, Word::INTERIOR).is_ok()
}
