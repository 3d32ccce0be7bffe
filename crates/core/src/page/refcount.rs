//! References to blocks, and splitting a block that is owned into single pages.
//!
//! linux: include/linux/mm.h:get_page, put_page; mm/page_alloc.c:split_page

use super::PageAllocator;
use super::error::FreeError;
use crate::base::frame::Word;
use crate::base::{Order, Pfn, State};
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// What a frame is at this moment; `None` if its memory was never online.
    pub fn state(&self, pfn: Pfn) -> Option<State> {
        Some(self.map.try_frame(pfn)?.word().state())
    }

    /// The allocated block that a frame is in: its head and order. At most eleven steps.
    pub fn allocated_block(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        self.map.block_around(pfn).filter(|(_, word)| word.is_allocated()).map(|(head, word)| (head, word.order()))
    }

    /// Adds a reference to a block on which the caller already holds one.
    ///
    /// # Errors
    /// If the frame is not the head of an allocated block with references.
    pub fn get_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let (frame, _) = self.referenced(pfn)?;
        frame.get();
        Ok(())
    }

    /// Drops a reference; the last one frees the block, whatever its order.
    ///
    /// # Errors
    /// As [`get_page`](Self::get_page).
    pub fn put_page(&self, pfn: Pfn) -> Result<(), FreeError> {
        let (frame, word) = self.referenced(pfn)?;
        let after = if word.refs() == 1 { word.with_refs(0) } else { frame.put() };
        if after.refs() == 0 {
            frame.set(after);
            self.free_checked(pfn, after.order(), after);
        }
        Ok(())
    }

    /// Makes single pages of an allocated block that is not compound. The first keeps the block's references, each
    /// other gets one; if the block is frozen, all are. Cost: one store a page.
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
        let (_, _, word) = self.allocated(pfn, order)?;
        if word.is_compound() || to > order {
            return Err(FreeError::WrongOrder { pfn, given: to, state: word.state() });
        }
        self.split_allocated(pfn, word, pfn.blocks_up_to(pfn.offset(order.pages()), to));
        Ok(())
    }

    /// Splits a compound block of movable pages as a huge page is split: it stays allocated, as blocks of order `to`.
    /// linux: mm/huge_memory.c:split_huge_page
    ///
    /// # Errors
    /// If it is not the head of an allocated block of this order, or `to` is above `order`.
    pub fn split_compound(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), FreeError> {
        let (_, _, word) = self.allocated(pfn, order)?;
        if to > order {
            return Err(FreeError::WrongOrder { pfn, given: to, state: word.state() });
        }
        self.split_allocated(pfn, word, pfn.blocks_up_to(pfn.offset(order.pages()), to));
        Ok(())
    }

    /// Makes blocks of an allocated one: the pieces that it is cut into.
    pub(super) fn split_allocated(&self, pfn: Pfn, word: Word, pieces: impl Iterator<Item = (Pfn, Order)>) {
        for (at, piece) in pieces {
            let frame = self.map.frame(at);
            let refs = if at == pfn { word.refs() } else { word.refs().min(1) };
            let mut fresh = word.healthy().with_order(piece).with_refs(refs);
            if self.any_poisoned(at, piece, word) {
                fresh = fresh.poisoned();
            }
            if frame.word().is_broken() {
                fresh = fresh.broken();
            }
            frame.set(fresh);
        }
    }

    fn referenced(&self, pfn: Pfn) -> Result<(&crate::base::Frame, Word), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let word = frame.word();
        match word.state() {
            State::Allocated { refs: 0, .. } => Err(FreeError::Frozen { pfn, state: word.state() }),
            State::Allocated { .. } => Ok((frame, word)),
            state => Err(FreeError::NotAllocated { pfn, state }),
        }
    }
}
