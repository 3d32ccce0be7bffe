//! References to blocks, and splitting a block that is owned into single pages.
//!
//! linux: include/linux/mm.h:get_page, put_page; mm/page_alloc.c:split_page

use super::allocator::PageAllocator;
use super::contig::RANGE_ORDER_MIN;
use super::error::FreeError;
use crate::base::frame::Lost;
use crate::base::word::{REFS_MAX, Word};
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
    /// If the frame is not the head of an allocated block with references, or they are 131,071, which is as many as can
    /// be counted.
    pub fn get_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        frame.step(add_reference).map(drop).map_err(|word| unreferenced(pfn, word))
    }

    /// Drops a reference; the last one frees the block, whatever its order. Of a page of a range it waits for the zone
    /// lock, first.
    ///
    /// # Errors
    /// As [`get_page`](Self::get_page).
    pub fn put_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let before = loop {
            if frame.word().is_ranged() {
                self.leave_range(pfn);
            }
            match frame.step(drop_reference) {
                Ok(before) => break before,
                // The block was split meanwhile.
                Err(word) if word.is_ranged() => {}
                Err(word) => return Err(unreferenced(pfn, word)),
            }
        };
        if before.refs() == 1 {
            self.free_claimed(pfn, before.order());
        }
        Ok(())
    }

    /// Keeps an allocated block where it is, if its request was movable; says whether the frame heads an allocated block
    /// of this order. From then on compaction and ranges pass over the block, and a
    /// [`Moved`](crate::platform::Migrated::Moved) of a migration that was asked for before is not believed.
    #[cfg_attr(loom, expect(dead_code, reason = "handles are the kernel module's"))]
    pub(crate) fn pin(&self, pfn: Pfn, order: Order) -> bool {
        self.step_movable(pfn, order, Word::pinned)
    }

    /// Lets an allocated block move again, if its request was movable; says whether the frame heads an allocated block
    /// of this order.
    #[cfg_attr(loom, expect(dead_code, reason = "handles are the kernel module's"))]
    pub(crate) fn unpin(&self, pfn: Pfn, order: Order) -> bool {
        self.step_movable(pfn, order, Word::unpinned)
    }

    /// Changes the word of a block if its request was movable. Other words stay as they are: those of pages of a range
    /// are stored to by the holder of the zone lock.
    fn step_movable(&self, pfn: Pfn, order: Order, change: impl Fn(Word) -> Word) -> bool {
        let Some(frame) = self.map.try_frame(pfn) else { return false };
        let is_block = |word: Word| word.is_allocated_of(order) && !word.is_slab();
        let stepped = frame.step(|word| (is_block(word) && word.is_of_movable_request()).then(|| change(word)));
        stepped.is_ok() || stepped.is_err_and(is_block)
    }

    /// Makes single pages of an allocated block that is not compound. The first keeps the block's references, each
    /// other gets one; if the block is frozen, all are. Cost: one store a page.
    ///
    /// Where ranges are freed in batches, the pages of a block of 64 or more that cannot be migrated are pages of a
    /// range: freed as one they cost a store each; freed singly, one more atomic step each, and the zone lock for each
    /// 64.
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

    /// Makes blocks of order `to` of a slab's block: each is a slab's, and is given back by itself.
    pub(crate) fn split_slab_pages(&self, pfn: Pfn, order: Order, to: Order) {
        loop {
            let word = self.map.frame(pfn).word();
            debug_assert!(word.is_allocated_of(order) && word.is_slab(), "a slab's block is split by who allocated it");
            let pieces = pfn.blocks_up_to(pfn.offset(order.pages()), to);
            if to == order || self.split_allocated(pfn, word, word, pieces).is_ok() {
                return;
            }
        }
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
            let (_, _, word) = self.allocated_head(pfn, order)?;
            if !suits(word) || to > order {
                return Err(FreeError::WrongOrder { pfn, given: to, state: word.state() });
            }
            let is_range = to == Order::ZERO && order >= RANGE_ORDER_MIN && !word.is_compound();
            let piece = if is_range { self.word_in_range(word.with_order(to)) } else { word };
            if self.split_allocated(pfn, word, piece, pfn.blocks_up_to(pfn.offset(order.pages()), to)).is_ok() {
                return Ok(());
            }
        }
    }

    /// Makes blocks of an allocated one, if it still is what it was seen as: the pieces that it is cut into, the first
    /// of which begins where the block does. Each gets the word `piece`, but for its order, its references and its
    /// marks of broken frames. From the step that makes the block's head the first piece's on, the rest is the caller's
    /// alone.
    pub(super) fn split_allocated(
        &self,
        pfn: Pfn,
        seen: Word,
        piece: Word,
        pieces: impl Iterator<Item = (Pfn, Order)>,
    ) -> Result<(), Lost> {
        for (at, order) in pieces {
            let frame = self.map.frame(at);
            let refs = if at == pfn { seen.refs() } else { seen.refs().min(1) };
            let mut fresh = piece.healthy().with_order(order).with_refs(refs);
            if self.any_poisoned(at, order, seen) {
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

/// The word of an allocated block with one reference more; `None` if it has none, or as many as can be counted.
fn add_reference(word: Word) -> Option<Word> {
    let is_countable = word.is_allocated() && (1..REFS_MAX).contains(&word.refs());
    is_countable.then(|| word.with_refs(word.refs() + 1))
}

/// The word of an allocated block with one reference less, claimed if that was the last; `None` if it has none, or is a
/// page of a range.
fn drop_reference(word: Word) -> Option<Word> {
    let left = word.refs().checked_sub(1).filter(|_| word.is_allocated() && !word.is_ranged())?;
    Some(if left == 0 { word.claimed() } else { word.with_refs(left) })
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
