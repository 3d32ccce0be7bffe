//! References to blocks, and splitting an allocated block into smaller ones.
//!
//! A reference is counted by one atomic step on the word of the block's head. Only the drop of a reference to a page of
//! a range, and the split of such a page's block, take the zone lock first.
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
    /// Returns the current state of a frame, or `None` if its memory is not online.
    pub fn state(&self, pfn: Pfn) -> Option<State> {
        let word = self.map.try_frame(pfn)?.word();
        (!word.is_absent()).then(|| word.state())
    }

    /// Returns the head and the order of the allocated block that contains a frame, or `None` if the frame is in none.
    /// Cost: at most eleven steps.
    pub fn allocated_block(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        self.map.block_around(pfn).filter(|(_, word)| word.is_allocated()).map(|(head, word)| (head, word.order()))
    }

    /// Adds a reference to a block on which the caller already holds a reference.
    ///
    /// # Errors
    /// If the frame is not the head of an allocated block with references, or the block already has 131,071 references,
    /// the largest number that can be counted.
    pub fn get_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        frame.step(add_reference).map(drop).map_err(|word| unreferenced(pfn, word))
    }

    /// Drops a reference. The last reference frees the block, of any order. For a page of a range, the call first waits
    /// for the zone lock.
    ///
    /// # Errors
    /// See [`get_page`](Self::get_page).
    pub fn put_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let before = loop {
            if frame.word().is_ranged() {
                self.leave_range(pfn);
            }
            match frame.step(drop_reference) {
                Ok(before) => break before,
                // The block was split into pages of a range meanwhile.
                Err(word) if word.is_ranged() => {}
                Err(word) => return Err(unreferenced(pfn, word)),
            }
        };
        if before.refs() == 1 {
            self.free_claimed(pfn, before.order());
        }
        Ok(())
    }

    /// Splits an allocated block that is not compound into single pages. The first page keeps the block's references,
    /// and each other page gets one reference. If the block is frozen, all pages are. Cost: one store per page.
    ///
    /// If ranges are freed in batches, and the block has 64 pages or more and cannot be migrated, its pages become
    /// pages of a range. Freed together they cost one store each. Freed singly they cost one more atomic step each, and
    /// the zone lock once per 64 pages.
    ///
    /// # Errors
    /// If the frame is not the head of an allocated block of this order, or the block is compound.
    pub fn split_page(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.split_to(pfn, order, Order::ZERO)
    }

    /// Splits an allocated block that is not compound into blocks of order `to`, with references as in
    /// [`split_page`](Self::split_page).
    ///
    /// # Errors
    /// See [`split_page`](Self::split_page); also if `to` is above `order`.
    pub fn split_to(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), FreeError> {
        self.split_evenly(pfn, order, to, |word| !word.is_compound())
    }

    /// Splits a slab's block into blocks of order `to`, each of which belongs to a slab and is freed separately.
    pub(crate) fn split_slab_pages(&self, pfn: Pfn, order: Order, to: Order) {
        loop {
            let word = self.map.frame(pfn).word();
            debug_assert!(
                word.is_allocated_of(order) && word.is_slab(),
                "only an allocated block of a slab can be split"
            );
            let pieces = pfn.blocks_up_to(pfn.offset(order.pages()), to);
            if to == order || self.split_allocated(pfn, word, word, pieces).is_ok() {
                return;
            }
        }
    }

    /// Splits an allocated block into blocks of order `to` even if it is compound, as a huge page is split. The
    /// references are as in [`split_page`](Self::split_page). linux: include/linux/huge_mm.h:split_huge_page
    ///
    /// # Errors
    /// If the frame is not the head of an allocated block of this order, or `to` is above `order`.
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

    /// Splits an allocated block into `pieces`, if its word is still `seen`; otherwise fails and changes nothing. The
    /// first piece starts at the head of the block. Each piece gets the word `piece`, with its own order, references,
    /// and marks of broken frames. The first piece is set by an atomic step on the head's word. After this step, the
    /// rest of the block belongs to the caller alone.
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

/// Returns the word of an allocated block with one more reference, or `None` if the word is no allocated block's, or
/// has no reference or the largest number of them.
fn add_reference(word: Word) -> Option<Word> {
    let is_countable = word.is_allocated() && (1..REFS_MAX).contains(&word.refs());
    is_countable.then(|| word.with_refs(word.refs() + 1))
}

/// Returns the word of an allocated block with one reference less, claimed if that was the last. Returns `None` if the
/// word is no allocated block's, has no reference, or is a page of a range.
fn drop_reference(word: Word) -> Option<Word> {
    let left = word.refs().checked_sub(1).filter(|_| word.is_allocated() && !word.is_ranged())?;
    Some(if left == 0 { word.claimed() } else { word.with_refs(left) })
}

/// Returns the error for a block whose references cannot be changed.
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
