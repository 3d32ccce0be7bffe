//! References to blocks, and splitting a block that is owned into single pages.
//!
//! linux: include/linux/mm.h:get_page, put_page; mm/page_alloc.c:split_page

use super::PageAllocator;
use super::error::FreeError;
use crate::base::frame::Lost;
use crate::base::word::{RANGE_ORDER_MIN, REFS_MAX, Word};
use crate::base::{Order, Pfn, State};
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// What a frame is at this moment; `None` if its memory is not online.
    pub fn state(&self, pfn: Pfn) -> Option<State> {
        let word = self.map.try_frame(pfn)?.word();
        (!word.is_absent()).then(|| word.state())
    }

    /// The allocated block that a frame is in: its head and order. At most eleven steps.
    pub fn allocated_block(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        self.map.block_around(pfn).filter(|(_, word)| word.is_allocated()).map(|(head, word)| (head, word.order()))
    }

    /// Adds a reference to a block on which the caller already holds one.
    ///
    /// # Errors
    /// If the frame is not the head of an allocated block with references, or they are as many as can be counted.
    pub fn get_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let one_more = |word: Word| {
            let countable = word.is_allocated() && (1..REFS_MAX).contains(&word.refs());
            countable.then(|| word.with_refs(word.refs() + 1))
        };
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        frame.step(one_more).map(drop).map_err(|word| unreferenced(pfn, word))
    }

    /// Drops a reference; the last one frees the block, whatever its order.
    ///
    /// # Errors
    /// As [`get_page`](Self::get_page).
    pub fn put_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let one_less = |word: Word| {
            let left = word.refs().checked_sub(1).filter(|_| word.is_allocated() && !word.is_ranged())?;
            Some(if left == 0 { word.claimed() } else { word.with_refs(left) })
        };
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        if frame.word().is_ranged() {
            self.leave_range(pfn);
        }
        let before = frame.step(one_less).map_err(|word| unreferenced(pfn, word))?;
        if before.refs() == 1 {
            self.free_claimed(pfn, before.order());
        }
        Ok(())
    }

    /// Makes single pages of an allocated block that is not compound. The first keeps the block's references, each
    /// other gets one; if the block is frozen, all are. Cost: one store a page. If there are 64 or more, and
    /// they cannot be migrated, they are pages of a range where ranges go back in batches: it does so at a store a page,
    /// and each 64th page that goes back by itself waits for the zone lock.
    ///
    /// # Errors
    /// If it is not the head of an allocated block of this order, or is compound.
    pub fn split_page(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.split_to(pfn, order, Order::ZERO)
    }

    /// Makes blocks of order `to` of an allocated block that is not compound.
    ///
    /// # Errors
    /// As [`split_page`](Self::split_page); also if `to` is above `order`.
    pub fn split_to(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), FreeError> {
        self.split_evenly(pfn, order, to, |word| !word.is_compound())
    }

    /// Splits a compound block of movable pages as a huge page is split: it stays allocated, as blocks of order `to`.
    /// linux: mm/huge_memory.c:split_huge_page
    ///
    /// # Errors
    /// If it is not the head of an allocated block of this order, or `to` is above `order`.
    pub fn split_compound(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), FreeError> {
        self.split_evenly(pfn, order, to, |_| true)
    }

    fn split_evenly(&self, pfn: Pfn, order: Order, to: Order, suits: fn(Word) -> bool) -> Result<(), FreeError> {
        loop {
            let (_, _, word) = self.allocated(pfn, order)?;
            if !suits(word) || to > order {
                return Err(FreeError::WrongOrder { pfn, given: to, state: word.state() });
            }
            let is_range = to == Order::ZERO && order >= RANGE_ORDER_MIN && !word.is_compound();
            let like = if is_range { self.word_in_range(word.with_order(to)) } else { word };
            if self.split_allocated(pfn, word, like, pfn.blocks_up_to(pfn.offset(order.pages()), to)).is_ok() {
                return Ok(());
            }
        }
    }

    /// Makes blocks of an allocated one, if it still is what it was seen as: the pieces that it is cut into, each with
    /// this word but for its order and its references, the first of which begins where the block does. From the step
    /// that makes the block's head the first piece's on, the rest is the caller's alone.
    pub(super) fn split_allocated(
        &self,
        pfn: Pfn,
        seen: Word,
        like: Word,
        pieces: impl Iterator<Item = (Pfn, Order)>,
    ) -> Result<(), Lost> {
        for (at, piece) in pieces {
            let frame = self.map.frame(at);
            let refs = if at == pfn { seen.refs() } else { seen.refs().min(1) };
            let mut fresh = like.healthy().with_order(piece).with_refs(refs);
            if self.any_poisoned(at, piece, seen) {
                fresh = fresh.poisoned();
            }
            if frame.word().is_broken() {
                fresh = fresh.broken();
            }
            if at == pfn {
                frame.claim(seen, fresh)?;
            } else {
                frame.set(fresh);
            }
        }
        Ok(())
    }
}

/// Why no reference of a block can be counted.
#[cold]
fn unreferenced(pfn: Pfn, word: Word) -> FreeError {
    match word.state() {
        State::Absent => FreeError::OutOfRange { pfn },
        state @ State::Allocated { slab: true, .. } => FreeError::Slab { pfn, state },
        state @ State::Allocated { refs: 0, .. } => FreeError::Frozen { pfn, state },
        state @ State::Allocated { .. } => FreeError::References { pfn, state },
        state => FreeError::NotAllocated { pfn, state },
    }
}
