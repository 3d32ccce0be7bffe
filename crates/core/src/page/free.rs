//! The way back: check the block, then give it to this CPU's list or to its zone.
//!
//! Every free is checked: the frame must be the head of an allocated block of the order given. Cost: from
//! cache, a few loads, one uncontended lock, one list link.
//!
//! linux: mm/page_alloc.c:__free_pages, free_unref_page, free_one_page, free_pages_prepare

use super::PageAllocator;
use super::error::FreeError;
use super::zone::Zone;
use crate::base::frame::{Frame, Word};
use crate::base::pageblock::Pageblock;
use crate::base::{Order, Pfn};
use crate::platform::Platform;

/// A block on its way back.
#[derive(Clone, Copy)]
pub(super) struct Freed<'f> {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// Metadata of its first frame.
    pub(super) frame: &'f Frame,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Drops the caller's reference to a block of `order`; the last one frees it.
    ///
    /// If others still hold references to a block that is not compound, all but its first frame is freed
    /// now, as blocks of the orders below `order`, and the first frame when the last reference goes.
    ///
    /// # Errors
    /// See [`FreeError`]; the block is as it was.
    #[inline]
    pub fn free_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (frame, block) = self.map.try_frame_and_pageblock(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        // The only reference is the caller's, so nobody else can be changing the word.
        if frame.word().is_held_of(order, 1) {
            self.free_healthy(block, Freed { pfn, order, frame });
            return Ok(());
        }
        self.free_specially(pfn, order)
    }

    /// What is not simply the last reference to a healthy block.
    #[cold]
    #[inline(never)]
    fn free_specially(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (frame, block, word) = self.allocated(pfn, order)?;
        match word.refs() {
            0 => return Err(FreeError::Frozen { pfn, state: word.state() }),
            1 => self.free_to(block, Freed { pfn, order, frame }, word),
            _ => self.drop_shared(pfn, frame, order),
        }
        Ok(())
    }

    /// Frees a block that has no references.
    ///
    /// # Errors
    /// See [`FreeError`]. A block that does have references is bad: somebody will still use it. It is withheld
    /// for ever, and reported as [`FreeError::Bad`].
    #[inline]
    pub fn free_frozen_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (frame, block, word) = self.allocated(pfn, order)?;
        if word.refs() > 0 {
            self.withhold_block(pfn, order);
            return Err(FreeError::Bad { pfn, state: word.state() });
        }
        self.free_to(block, Freed { pfn, order, frame }, word);
        Ok(())
    }

    /// The head of an allocated block of exactly this order, its pageblock, and its state.
    #[inline]
    pub(super) fn allocated(&self, pfn: Pfn, order: Order) -> Result<(&'m Frame, &'m Pageblock, Word), FreeError> {
        let (frame, block) = self.map.try_frame_and_pageblock(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let word = frame.word();
        if word.is_allocated_of(order) { Ok((frame, block, word)) } else { Err(refusal(pfn, order, word)) }
    }

    /// Frees a block that nobody refers to.
    pub(super) fn free_checked(&self, pfn: Pfn, order: Order, word: Word) {
        let freed = Freed { pfn, order, frame: self.map.frame(pfn) };
        self.free_to(self.map.pageblock(pfn), freed, word);
    }

    /// Frees a block that nobody refers to, whose pageblock is at hand.
    #[inline]
    fn free_to(&self, block: &Pageblock, freed: Freed<'_>, word: Word) {
        if word.is_poisoned() {
            return self.free_around_poison(freed.pfn, freed.order);
        }
        self.free_healthy(block, freed);
    }

    /// Frees a block that nobody refers to, without a look at its words. Always inline: called, it would be handed its
    /// arguments in memory.
    #[inline(always)]
    pub(super) fn free_healthy(&self, block: &Pageblock, freed: Freed<'_>) {
        let zone = &self.zones[usize::from(block.zone())];
        if !self.free_to_pcp(zone, freed, block) {
            self.free_to_zone(zone, freed.pfn, freed.order);
        }
    }

    /// Frees a block under the zone lock.
    #[cold]
    #[inline(never)]
    pub(super) fn free_to_zone(&self, zone: &Zone<P::Lock>, pfn: Pfn, order: Order) {
        self.lock_zone(zone).free_typed(pfn, order);
    }

    /// Drops one of several references.
    #[cold]
    fn drop_shared(&self, pfn: Pfn, frame: &Frame, order: Order) {
        let after = frame.put_by_owner();
        if after.refs() == 0 {
            return self.free_checked(pfn, after.order(), after);
        }
        if !after.is_compound() {
            self.free_tails(pfn, order, after);
        }
    }

    /// Frees all of a block but its first frame, which others still refer to: the upper half, then the upper half
    /// of the rest, and so on.
    fn free_tails(&self, pfn: Pfn, order: Order, head: Word) {
        for tail in Order::ZERO.to(order).rev().skip(1) {
            let chunk = pfn.offset(tail.pages());
            if head.is_poisoned() {
                self.free_around_poison(chunk, tail);
                continue;
            }
            let word = Word::allocated(tail);
            self.map.frame(chunk).set(word);
            self.free_checked(chunk, tail, word);
        }
    }
}

#[cold]
fn refusal(pfn: Pfn, given: Order, word: Word) -> FreeError {
    let state = word.state();
    if word.is_allocated() {
        FreeError::WrongOrder { pfn, given, state }
    } else {
        FreeError::NotAllocated { pfn, state }
    }
}
