//! Frames that are withheld for ever: broken memory, and blocks that were freed while they had references.
//!
//! A broken frame that is free is cut out of its block at once. A broken frame that is allocated is marked. When its
//! block is freed, the frame is withheld, and the rest is freed as the largest blocks that fit around it.
//!
//! linux: mm/memory-failure.c:memory_failure, mm/page_alloc.c:take_page_off_buddy, free_pages_prepare

use super::allocator::PageAllocator;
use super::error::FreeError;
use super::free::ClaimedRange;
use crate::base::word::Word;
use crate::base::{Order, Pfn};
use crate::platform::{Event, Platform};

/// Attempts of [`PageAllocator::poison`] to take a frame that other calls keep claiming.
const LOOKS_MAX: u32 = 64;

impl<P: Platform> PageAllocator<'_, P> {
    /// Withholds a frame: at once if it is free, else when its block is freed. A frame that is withheld already stays
    /// so. Cost: each attempt drains every CPU's lists, even if the frame is on none of them.
    ///
    /// Other calls may allocate, free, split and move the frame's block at the same time. If such a call interferes,
    /// the attempt is repeated.
    ///
    /// # Errors
    /// If the frame's memory is not online, or was never released or adopted; if the frame belongs to a slab, which
    /// does not give up single frames. [`FreeError::Busy`] if another call had claimed the frame at every attempt; the
    /// caller may try again.
    pub fn poison(&self, pfn: Pfn) -> Result<(), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        for _ in 0..LOOKS_MAX {
            let word = frame.word();
            if word == Word::WITHHELD {
                return Ok(());
            }
            if word.is_absent() {
                return Err(FreeError::OutOfRange { pfn });
            }
            if word.is_reserved() {
                return Err(FreeError::NotAllocated { pfn, state: word.state() });
            }
            // A frame on a per-CPU list is drained to its zone first. If a CPU takes the frame again before the zone is
            // locked, the next iteration drains again.
            self.drain_all_pages();
            let mut locked = self.lock_zone_of(pfn).ok_or(FreeError::OutOfRange { pfn })?;
            let is_cut_out = locked.take_page_off_buddy(pfn, Order::ZERO, Word::WITHHELD);
            drop(locked);
            if is_cut_out {
                self.report(Event::Withheld { pfn });
                return Ok(());
            }
            if self.mark(pfn)? {
                return Ok(());
            }
            let _patience = self.platform.relax();
        }
        Err(FreeError::Busy { pfn, state: frame.word().state() })
    }

    /// Marks a frame of an allocated block as broken, and the block as poisoned. Returns `false` if the frame is in no
    /// allocated block, or left the block meanwhile, and an error if the block belongs to a slab.
    fn mark(&self, pfn: Pfn) -> Result<bool, FreeError> {
        let Some((head, word)) = self.map.block_around(pfn).filter(|(_, word)| word.is_allocated()) else {
            return Ok(false);
        };
        if word.is_slab() {
            return Err(FreeError::Slab { pfn, state: word.state() });
        }
        if word.is_ranged() {
            self.leave_range(pfn);
        }
        let (frame, order) = (self.map.frame(pfn), word.order());
        // The frame is marked before the block, because a free that finds the block marked searches it for marked
        // frames.
        Ok(frame.mark_broken() && self.map.frame(head).mark_poisoned(order) && frame.word().is_broken())
    }

    /// Frees the healthy frames of a block that the caller has claimed, and withholds the broken ones. Cost: one step
    /// per frame.
    #[cold]
    pub(super) fn free_around_poison(&self, pfn: Pfn, order: Order) {
        let end = pfn.offset(order.pages());
        let mut rest = ClaimedRange::new(&self.map, pfn..end);
        let mut run = pfn;
        for at in pfn.up_to(end) {
            if self.map.frame(at).word().is_broken() {
                rest.keep_before(at.offset(1));
                self.map.frame(at).set(Word::WITHHELD);
                self.free_run(run..at);
                self.report(Event::Withheld { pfn: at });
                run = at.offset(1);
            }
        }
        rest.keep_before(end);
        self.free_run(run..end);
    }

    /// Returns whether any frame of a piece of a block is broken. `block` is the block's word; without the mark that
    /// the block is poisoned the answer is no.
    pub(super) fn any_poisoned(&self, at: Pfn, piece: Order, block: Word) -> bool {
        block.is_poisoned() && at.up_to(at.offset(piece.pages())).any(|pfn| self.map.frame(pfn).word().is_broken())
    }

    /// Withholds a whole block, which the caller has claimed.
    pub(super) fn withhold_block(&self, pfn: Pfn, order: Order) {
        let end = pfn.offset(order.pages());
        pfn.up_to(end).for_each(|at| self.map.frame(at).set(Word::WITHHELD));
        pfn.up_to(end).for_each(|at| self.report(Event::Withheld { pfn: at }));
    }
}
