//! Freeing blocks: the block is checked, then put on a per-CPU list (`pcp`) or given to its zone (`zone`). The list is
//! this CPU's or, if CPUs own pageblocks, the owner's.
//!
//! The check is a claim. One compare-and-exchange takes the block's word from the state that was read, the head of an
//! allocated block of the given order, to *claimed*. No other call can change a claimed block until it is on a list or
//! in the zone. A batch of pages of a range is instead claimed by stores under the zone lock (`contig`); a page of a range
//! that is freed alone first becomes an ordinary page. A block with other references is not claimed: its count is
//! lowered. The block is claimed before the list's lock is taken, so that one CPU does not execute the two locked
//! instructions one directly after the other. Cost with the metadata in cache: a few loads, the compare-and-exchange, one uncontended lock, one list link.
//!
//! linux: mm/page_alloc.c:__free_pages, free_unref_page, free_one_page, free_pages_prepare
//!
//! # Design
//!
//! A single page is freed by a function of its own, in which no instruction tests the order.

use core::ops::Range;

use super::allocator::PageAllocator;
use super::error::FreeError;
use super::zone::Zone;
use crate::base::frame::{Frame, Lost};
use crate::base::memmap::MemMap;
use crate::base::pageblock::Pageblock;
use crate::base::word::Word;
use crate::base::{Order, Pfn, State};
use crate::platform::Platform;

/// A claimed block that is being freed. It fits a register. The frame's metadata is passed beside it if the caller has
/// looked it up already.
#[derive(Clone, Copy)]
pub(super) struct ClaimedBlock {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Drops the caller's reference to a block of `order`. The last reference frees the block.
    ///
    /// If other references to a block that is not compound remain, all frames but the first are freed now, as blocks of
    /// the orders below `order`. The first frame is freed when the last reference is dropped.
    ///
    /// If two calls drop the only reference to a block at the same time, one succeeds; the other returns an error,
    /// because the block is no longer allocated. A free after the block was allocated again is not noticed, unless the
    /// order differs.
    ///
    /// # Errors
    /// See [`FreeError`]. The block is unchanged.
    #[inline(always)]
    pub fn free_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if order == Order::ZERO { self.free_page(pfn) } else { self.free_pages_of_order(pfn, order) }
    }

    /// Frees a single page like [`free_pages`](Self::free_pages). The order is a compile-time constant, so no code
    /// depends on it. linux: include/linux/gfp.h:__free_page
    ///
    /// # Errors
    /// See [`free_pages`](Self::free_pages).
    #[inline(never)]
    pub fn free_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let order = Order::ZERO;
        let Some((frame, block)) = self.claim_held(pfn, order)? else { return self.free_pages_slowpath(pfn, order) };
        self.free_unref_page(block, ClaimedBlock { pfn, order }, frame);
        Ok(())
    }

    #[inline(never)]
    fn free_pages_of_order(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let Some((frame, block)) = self.claim_held(pfn, order)? else { return self.free_pages_slowpath(pfn, order) };
        self.free_unref_page(block, ClaimedBlock { pfn, order }, frame);
        Ok(())
    }

    /// Claims a block without other references than the caller's. Returns `None` if the short path cannot free it.
    #[inline(always)]
    fn claim_held(&self, pfn: Pfn, order: Order) -> Result<Option<(&'m Frame, &'m Pageblock)>, FreeError> {
        let (frame, block) = self.map.try_frame_and_pageblock(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let seen = frame.word();
        let is_claimed = seen.is_held_of(order, 1) && frame.claim(seen, Word::claimed_of(order)).is_ok();
        Ok(is_claimed.then_some((frame, block)))
    }

    /// Drops a reference in the cases that the short path does not handle: the block is shared, has a broken frame, is
    /// a page of a range, or was changed by another call meanwhile, or the frame is not the head of such a block.
    #[cold]
    #[inline(never)]
    fn free_pages_slowpath(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        loop {
            let (frame, block, seen) = self.allocated_head(pfn, order)?;
            let done = match seen.refs() {
                0 => return Err(FreeError::Frozen { pfn, state: seen.state() }),
                1 => frame
                    .claim(seen, seen.claimed())
                    .map(|()| self.free_claimed_in(block, ClaimedBlock { pfn, order }, frame, seen)),
                _ => self.drop_shared(ClaimedBlock { pfn, order }, frame, seen),
            };
            // On failure, another call has changed the references or the marks of the block, or has freed it. The next
            // iteration reads the new state.
            if done.is_ok() {
                return Ok(());
            }
        }
    }

    /// Frees a block that has no references.
    ///
    /// # Errors
    /// See [`FreeError`]. If the block has references, its holders still use it. The block is then withheld for ever
    /// and reported as [`FreeError::Bad`].
    #[inline]
    pub fn free_frozen_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_frozen(pfn, order, Self::allocated_head)
    }

    /// Frees a block of a slab, on behalf of that slab.
    ///
    /// # Errors
    /// If the frame is not the head of a block of this order that belongs to a slab.
    pub(crate) fn free_slab_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_frozen(pfn, order, |allocator, pfn, order| {
            let (frame, block, word) = allocator.metadata(pfn)?;
            let is_slab = word.is_allocated_of(order) && word.is_slab();
            if is_slab { Ok((frame, block, word)) } else { Err(free_error(pfn, order, word)) }
        })
    }

    /// Frees adjacent blocks of one order that belong to slabs, merged into the largest blocks that fit, up to a
    /// pageblock. Cost: one atomic step per block, and a free without this step for each merged block.
    pub(crate) fn free_slabs_pages(&self, range: Range<Pfn>, order: Order) {
        let mut run = range.start;
        for (pfn, _) in range.start.blocks_up_to(range.end, order) {
            let frame = self.map.frame(pfn);
            let seen = frame.word();
            if seen.is_slab_of(order) && frame.claim(seen, Word::INTERIOR).is_ok() {
                continue;
            }
            // The block was marked as poisoned by a call that looked at its frames before the slab got them, or is
            // being marked now.
            self.free_chunks(run..pfn, self.map.pageblock_order());
            let freed = self.free_slab_pages(pfn, order);
            debug_assert!(freed.is_ok(), "the free of a slab's pages failed: {freed:?}");
            run = pfn.offset(order.pages());
        }
        self.free_chunks(run..range.end, self.map.pageblock_order());
    }

    #[inline]
    fn free_frozen(
        &self,
        pfn: Pfn,
        order: Order,
        look: impl Fn(&Self, Pfn, Order) -> Result<Metadata<'m>, FreeError>,
    ) -> Result<(), FreeError> {
        loop {
            let (frame, block, seen) = look(self, pfn, order)?;
            if frame.claim(seen, seen.claimed()).is_err() {
                continue;
            }
            if seen.refs() > 0 {
                self.withhold_block(pfn, order);
                return Err(FreeError::Bad { pfn, state: seen.state() });
            }
            self.free_claimed_in(block, ClaimedBlock { pfn, order }, frame, seen);
            return Ok(());
        }
    }

    /// Returns the error for a block that another call has freed.
    #[cold]
    pub(super) fn not_allocated_error(&self, pfn: Pfn) -> FreeError {
        FreeError::NotAllocated { pfn, state: self.map.frame(pfn).word().state() }
    }

    /// Returns the metadata of a frame and of its pageblock, and the frame's word.
    #[inline]
    fn metadata(&self, pfn: Pfn) -> Result<Metadata<'m>, FreeError> {
        let (frame, block) = self.map.try_frame_and_pageblock(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        Ok((frame, block, frame.word()))
    }

    /// Returns the metadata, the pageblock and the word of the head of an allocated block of exactly this order that
    /// does not belong to a slab. Otherwise returns the error. If the frame is a page of a range, it becomes an
    /// ordinary page first.
    #[inline]
    pub(super) fn allocated_head(&self, pfn: Pfn, order: Order) -> Result<Metadata<'m>, FreeError> {
        let (frame, block, word) = self.metadata(pfn)?;
        if word.is_ranged() {
            self.leave_range(pfn);
            return self.allocated_head(pfn, order);
        }
        if word.is_allocated_of(order) && !word.is_slab() {
            Ok((frame, block, word))
        } else {
            Err(free_error(pfn, order, word))
        }
    }

    /// Frees a block that the caller has claimed.
    pub(super) fn free_claimed(&self, pfn: Pfn, order: Order) {
        let frame = self.map.frame(pfn);
        let word = frame.word();
        debug_assert_eq!(word.state(), State::Claimed { order }, "frame {pfn} is not claimed by its free");
        self.free_claimed_in(self.map.pageblock(pfn), ClaimedBlock { pfn, order }, frame, word);
    }

    /// Frees a claimed block, whose pageblock is known. If the block's word marks it as poisoned, the broken frames are
    /// withheld.
    #[inline]
    fn free_claimed_in(&self, block: &Pageblock, freed: ClaimedBlock, frame: &Frame, word: Word) {
        if word.is_poisoned() {
            return self.free_around_poison(freed.pfn, freed.order);
        }
        self.free_unref_block(block, freed, frame);
    }

    /// Frees a claimed block of any order like [`free_unref_page`](Self::free_unref_page), by a call.
    #[inline(never)]
    pub(super) fn free_unref_block(&self, block: &Pageblock, freed: ClaimedBlock, frame: &Frame) {
        self.free_unref_page(block, freed, frame);
    }

    /// Frees a claimed block to a per-CPU list or its zone, without reading the block's word. Inlined in the
    /// frees of a page and of a block, and called by the others. linux: mm/page_alloc.c:free_unref_page
    #[inline(always)]
    fn free_unref_page(&self, block: &Pageblock, freed: ClaimedBlock, frame: &Frame) {
        let zone = self.zone_around(block);
        if !self.try_free_to_pcp(zone, freed, frame, block) {
            self.free_to_zone(zone, freed.pfn, freed.order);
        }
    }

    /// Frees a claimed block that was not put on one of Linux's per-CPU lists. The block is freed to the zone, unless
    /// it is above [`Order::COSTLY`] and this CPU's list for parts of pageblocks takes it.
    #[cold]
    #[inline(never)]
    pub(super) fn free_to_zone(&self, zone: &Zone<P::Lock>, pfn: Pfn, order: Order) {
        if order <= Order::COSTLY || !self.free_part_to_pcp(zone, ClaimedBlock { pfn, order }) {
            self.free_one_page(zone, pfn, order);
        }
    }

    /// Frees a block under the zone lock. Not inlined, so that its callers need no stack frame.
    /// linux: mm/page_alloc.c:free_one_page
    #[inline(never)]
    fn free_one_page(&self, zone: &Zone<P::Lock>, pfn: Pfn, order: Order) {
        self.lock_zone(zone).split_large_buddy(pfn, order);
    }

    /// Drops one of several references. If the block is not compound, the remaining references refer to its first frame
    /// alone, and all other frames are freed. Fails, and changes nothing, if the block's word is no longer `seen`.
    #[cold]
    fn drop_shared(&self, freed: ClaimedBlock, frame: &Frame, seen: Word) -> Result<(), Lost> {
        let ClaimedBlock { pfn, order } = freed;
        let left = seen.with_refs(seen.refs() - 1);
        let after = if left.is_compound() { left } else { left.with_order(Order::ZERO) };
        frame.claim(seen, after)?;
        if !after.is_compound() {
            self.free_tails(pfn, order, after);
        }
        Ok(())
    }

    /// Frees all frames of a block but the first, which has references: first the upper half, then the upper half of
    /// the rest, and so on.
    fn free_tails(&self, pfn: Pfn, order: Order, head: Word) {
        let mut rest = ClaimedRange::new(&self.map, pfn.offset(1)..pfn.offset(order.pages()));
        for tail in Order::ZERO.to(order).rev().skip(1) {
            let chunk = pfn.offset(tail.pages());
            rest.extend_to(chunk);
            if head.is_poisoned() {
                self.free_around_poison(chunk, tail);
                continue;
            }
            self.map.frame(chunk).set(Word::claimed_of(tail));
            self.free_claimed(chunk, tail);
        }
    }
}

/// Metadata of a frame and of its pageblock, and the frame's word when it was read.
type Metadata<'m> = (&'m Frame, &'m Pageblock, Word);

/// Frames that are in no block and belong to a call in progress. If the value is dropped early because the probe
/// panicked, the frames become claimed pages, which are lost but do not block other calls.
pub(super) struct ClaimedRange<'a, 'm> {
    map: &'a MemMap<'m>,
    range: Range<Pfn>,
}

impl<'a, 'm> ClaimedRange<'a, 'm> {
    pub(super) fn new(map: &'a MemMap<'m>, range: Range<Pfn>) -> ClaimedRange<'a, 'm> {
        ClaimedRange { map, range }
    }

    /// Returns the numbers of the frames that are left.
    pub(super) fn frames(&self) -> impl Iterator<Item = Pfn> + use<> {
        self.range.start.up_to(self.range.end)
    }

    /// Returns the frame after the last frame that is left.
    pub(super) fn end(&self) -> Pfn {
        self.range.end
    }

    /// Removes all frames from the range, because they have become blocks or belong to another part by now.
    pub(super) fn keep_all(mut self) {
        self.range.start = self.range.end;
    }

    /// Removes the frames before `pfn` from the range, because they have become blocks or are about to.
    pub(super) fn keep_before(&mut self, pfn: Pfn) {
        self.range.start = pfn;
    }

    /// Moves the end of the range to `end`.
    pub(super) fn extend_to(&mut self, end: Pfn) {
        self.range.end = end;
    }
}

impl Drop for ClaimedRange<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if self.range.start < self.range.end {
            give_up_frames(self.map, &self.range);
        }
    }
}

/// Turns the Interior frames of a range into claimed pages.
#[cold]
#[inline(never)]
fn give_up_frames(map: &MemMap<'_>, range: &Range<Pfn>) {
    for frame in map.frames(range).flatten().filter(|frame| frame.word().is_interior()) {
        frame.set(Word::claimed_of(Order::ZERO));
    }
}

#[cold]
fn free_error(pfn: Pfn, given: Order, word: Word) -> FreeError {
    let state = word.state();
    if word.is_absent() {
        FreeError::OutOfRange { pfn }
    } else if word.is_allocated() && word.is_slab() {
        FreeError::Slab { pfn, state }
    } else if word.is_allocated() {
        FreeError::WrongOrder { pfn, given, state }
    } else {
        FreeError::NotAllocated { pfn, state }
    }
}
