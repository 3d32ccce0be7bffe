//! The way back: check the block, then give it to this CPU's list or to its zone.
//!
//! Every free is checked, and the check is a claim: one atomic step takes the block from the state that it was seen in,
//! head of an allocated block of the order given, to *claimed*, which keeps everybody else off until a list or the zone
//! has it; pages of a range are claimed together, under the zone lock (`contig`). The claim comes before the list's
//! lock: of the two orders, the other one waits for each step in turn. Cost: from cache, a few loads, that step, one
//! uncontended lock, one list link.
//!
//! linux: mm/page_alloc.c:__free_pages, free_unref_page, free_one_page, free_pages_prepare

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

/// A claimed block on its way back. It fits a register; its frame's metadata is handed on beside it, where it is at
/// hand.
#[derive(Clone, Copy)]
pub(super) struct ClaimedBlock {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Drops the caller's reference to a block of `order`; the last one frees it.
    ///
    /// If others still hold references to a block that is not compound, all but its first frame is freed
    /// now, as blocks of the orders below `order`, and the first frame when the last reference goes.
    ///
    /// Of two calls that free a block at once, one does; the other is told that the block is not allocated.
    ///
    /// # Errors
    /// See [`FreeError`]; the block is as it was.
    #[inline(always)]
    pub fn free_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if order == Order::ZERO { self.free_page(pfn) } else { self.free_pages_of_order(pfn, order) }
    }

    /// As [`free_pages`](Self::free_pages) for a single page, all that an order decides being decided when the program
    /// is built. linux: include/linux/gfp.h:__free_page
    ///
    /// # Errors
    /// As there.
    #[inline(never)]
    pub fn free_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        self.free_pages_inlined(pfn, Order::ZERO)
    }

    #[inline(never)]
    fn free_pages_of_order(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_pages_inlined(pfn, order)
    }

    #[inline(always)]
    fn free_pages_inlined(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (frame, block) = self.map.try_frame_and_pageblock(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let seen = frame.word();
        if seen.is_held_of(order, 1) && frame.claim(seen, Word::claimed_of(order)).is_ok() {
            self.free_unref_page(block, ClaimedBlock { pfn, order }, frame);
            return Ok(());
        }
        self.free_pages_slowpath(pfn, order)
    }

    /// Drops a reference to a block that is shared, broken, or changed by another call meanwhile.
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
            // Somebody counted a reference or marked the block meanwhile, or freed it: the next look tells.
            if done.is_ok() {
                return Ok(());
            }
        }
    }

    /// Frees a block that has no references.
    ///
    /// # Errors
    /// See [`FreeError`]. A block that does have references is bad: somebody will still use it. It is withheld
    /// for ever, and reported as [`FreeError::Bad`].
    #[inline]
    pub fn free_frozen_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_frozen(pfn, order, Self::allocated_head)
    }

    /// Frees a block of a slab's, by that slab.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn free_slab_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free_frozen(pfn, order, |allocator, pfn, order| {
            let (frame, block, word) = allocator.metadata(pfn)?;
            let is_slab = word.is_allocated_of(order) && word.is_slab();
            if is_slab { Ok((frame, block, word)) } else { Err(free_error(pfn, order, word)) }
        })
    }

    /// Frees blocks of one order that lie side by side and were slabs', as the largest blocks that fit, up to a
    /// pageblock. Cost: an atomic step a block, and a list link for each that goes back.
    pub(crate) fn free_slabs_pages(&self, range: Range<Pfn>, order: Order) {
        let mut run = range.start;
        for (pfn, _) in range.start.blocks_up_to(range.end, order) {
            let frame = self.map.frame(pfn);
            let seen = frame.word();
            if seen.is_slab_of(order) && frame.claim(seen, Word::INTERIOR).is_ok() {
                continue;
            }
            // Marked as broken when its frames were somebody else's, or being marked now.
            self.free_chunks(run..pfn, self.map.pageblock_order());
            let freed = self.free_slab_pages(pfn, order);
            debug_assert!(freed.is_ok(), "a slab's pages are its own: {freed:?}");
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

    /// Returns the metadata of a frame that is online and of its pageblock, and the frame's state.
    #[inline]
    fn metadata(&self, pfn: Pfn) -> Result<Metadata<'m>, FreeError> {
        let (frame, block) = self.map.try_frame_and_pageblock(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        Ok((frame, block, frame.word()))
    }

    /// Finds the head of an allocated block of exactly this order that is no slab's; returns its metadata, its
    /// pageblock and its state.
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
        debug_assert_eq!(word.state(), State::Claimed { order }, "frame {pfn} is not in the hands of its free");
        self.free_claimed_in(self.map.pageblock(pfn), ClaimedBlock { pfn, order }, frame, word);
    }

    /// Frees a claimed block, whose pageblock is at hand, by what its word says of broken frames.
    #[inline]
    fn free_claimed_in(&self, block: &Pageblock, freed: ClaimedBlock, frame: &Frame, word: Word) {
        if word.is_poisoned() {
            return self.free_around_poison(freed.pfn, freed.order);
        }
        self.free_unref_page(block, freed, frame);
    }

    /// Frees a claimed block without a look at its words. Always inline: called, it would be handed its arguments in
    /// memory. linux: mm/page_alloc.c:free_unref_page
    #[inline(always)]
    pub(super) fn free_unref_page(&self, block: &Pageblock, freed: ClaimedBlock, frame: &Frame) {
        let zone = self.zone_around(block);
        if !self.try_free_to_pcp(zone, freed, frame, block) {
            self.free_to_zone(zone, freed.pfn, freed.order);
        }
    }

    /// Frees a claimed block for which Linux has no list: under the zone lock, unless this CPU has a list for parts.
    #[cold]
    #[inline(never)]
    pub(super) fn free_to_zone(&self, zone: &Zone<P::Lock>, pfn: Pfn, order: Order) {
        if order <= Order::COSTLY || !self.free_part_to_pcp(zone, ClaimedBlock { pfn, order }) {
            self.free_one_page(zone, pfn, order);
        }
    }

    /// Frees a block under the zone lock. Not inlined, so that its callers need no stack frame. linux:
    /// mm/page_alloc.c:free_one_page
    #[inline(never)]
    fn free_one_page(&self, zone: &Zone<P::Lock>, pfn: Pfn, order: Order) {
        self.lock_zone(zone).split_large_buddy(pfn, order);
    }

    /// Drops one of several references. If what is left refers to a block that is not compound, that is its first frame
    /// alone from now on, and the rest is free.
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

    /// Frees all of a block but its first frame, which others still refer to: the upper half, then the upper half
    /// of the rest, and so on.
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

/// Metadata of a frame and of its pageblock, and the state that the frame was seen in.
type Metadata<'m> = (&'m Frame, &'m Pageblock, Word);

/// Frames inside no block that are in the hands of a call. Dropped early, by a panic of the probe's, they become
/// claimed pages, which are lost but not in anybody's way.
pub(super) struct ClaimedRange<'a, 'm> {
    map: &'a MemMap<'m>,
    range: Range<Pfn>,
}

impl<'a, 'm> ClaimedRange<'a, 'm> {
    pub(super) fn new(map: &'a MemMap<'m>, range: Range<Pfn>) -> ClaimedRange<'a, 'm> {
        ClaimedRange { map, range }
    }

    /// Numbers of the frames that are left.
    pub(super) fn frames(&self) -> impl Iterator<Item = Pfn> + use<> {
        self.range.start.up_to(self.range.end)
    }

    /// The frame after the last of them.
    pub(super) fn end(&self) -> Pfn {
        self.range.end
    }

    /// All of them have become blocks, or something else that is not the call's.
    pub(super) fn keep_all(mut self) {
        self.range.start = self.range.end;
    }

    /// What comes before a frame has become a block, or is about to.
    pub(super) fn keep_before(&mut self, pfn: Pfn) {
        self.range.start = pfn;
    }

    /// Moves the end of the frames that are left.
    pub(super) fn extend_to(&mut self, end: Pfn) {
        self.range.end = end;
    }
}

impl Drop for ClaimedRange<'_, '_> {
    fn drop(&mut self) {
        for frame in self.map.frames(&self.range).flatten().filter(|frame| frame.word().is_interior()) {
            frame.set(Word::claimed_of(Order::ZERO));
        }
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
