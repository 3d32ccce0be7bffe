//! Frames taken out of use for ever: broken memory, and blocks freed while somebody still refers to them.
//!
//! A broken frame that is free is cut out of its block at once. One that is allocated is marked; when its block is
//! freed, the frame is kept and the rest goes back as the largest blocks that fit around it.
//!
//! linux: mm/memory-failure.c:memory_failure, mm/page_alloc.c:take_page_off_buddy, free_pages_prepare

use super::allocator::PageAllocator;
use super::error::FreeError;
use super::free::ClaimedRange;
use crate::base::word::Word;
use crate::base::{Order, Pfn};
use crate::platform::{Event, Platform};

/// Looks for a frame that others have in hand whenever it is looked for.
const LOOKS_MAX: u32 = 64;

impl<P: Platform> PageAllocator<'_, P> {
    /// Takes a frame out of use: now if it is free, else when its block is freed. Drains every CPU's lists.
    ///
    /// Others may allocate, free, split and move the frame's block meanwhile: where that comes between, the frame is
    /// looked for again.
    ///
    /// # Errors
    /// If the frame's memory is not online, or was never given to the allocator; if it is a slab's, which does not give
    /// up single frames. [`FreeError::Busy`] if a call that is under way had the frame whenever it was looked for: ask
    /// again.
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
            // A frame on a per-CPU list goes back to its zone first. If a CPU takes it again meanwhile: once more.
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

    /// Marks a frame of an allocated block as broken, and the block; `false` if it is in none, or did not stay there.
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
        // The frame first: a free that finds the mark on the block looks for the frame.
        Ok(frame.mark_broken() && self.map.frame(head).mark_poisoned(order) && frame.word().is_broken())
    }

    /// Frees what is healthy of a block that the caller has claimed, and withholds the rest. One step a frame.
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

    /// Whether any frame of a piece of a marked block is broken.
    pub(super) fn any_poisoned(&self, at: Pfn, piece: Order, block: Word) -> bool {
        block.is_poisoned() && at.up_to(at.offset(piece.pages())).any(|pfn| self.map.frame(pfn).word().is_broken())
    }

    /// Takes a whole block, which the caller has claimed, out of use.
    pub(super) fn withhold_block(&self, pfn: Pfn, order: Order) {
        let end = pfn.offset(order.pages());
        pfn.up_to(end).for_each(|at| self.map.frame(at).set(Word::WITHHELD));
        pfn.up_to(end).for_each(|at| self.report(Event::Withheld { pfn: at }));
    }
}
