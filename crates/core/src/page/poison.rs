//! Frames taken out of use for ever: broken memory, and blocks freed while somebody still refers to them.
//!
//! A broken frame that is free is cut out of its block at once. One that is allocated is marked; when its block is
//! freed, the frame stays behind and the rest goes back as the largest blocks that fit around it.
//!
//! linux: mm/memory-failure.c:memory_failure, mm/page_alloc.c:take_page_off_buddy, free_pages_prepare

use super::PageAllocator;
use super::error::FreeError;
use crate::base::frame::Word;
use crate::base::{Order, Pfn};
use crate::platform::{Event, Platform};

impl<P: Platform> PageAllocator<'_, P> {
    /// Takes a frame out of use: now if it is free, else when its block is freed. Drains every CPU's lists.
    ///
    /// If the frame's block is allocated, the caller makes sure that nobody frees, splits or moves it at the same time.
    ///
    /// # Errors
    /// If the frame's memory was never online, or was never given to the allocator.
    pub fn poison(&self, pfn: Pfn) -> Result<(), FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        if frame.word().is_reserved() {
            return Err(FreeError::NotAllocated { pfn, state: frame.word().state() });
        }
        while frame.word() != Word::WITHHELD {
            // A frame on a per-CPU list goes back to its zone first. If a CPU takes it again meanwhile: once more.
            self.drain_all();
            if self.lock_zone(self.zone_of(pfn)).cut_out(pfn, Order::ZERO, Word::WITHHELD) {
                self.report(Event::Withheld { pfn });
            } else if let Some((head, _)) = self.allocated_block(pfn) {
                frame.mark_broken();
                self.map.frame(head).mark_poisoned();
                break;
            }
        }
        Ok(())
    }

    /// Frees what is healthy of a block, and withholds the rest. One step a frame.
    #[cold]
    pub(super) fn free_around_poison(&self, pfn: Pfn, order: Order) {
        let end = pfn.offset(order.pages());
        let mut run = pfn;
        for at in pfn.up_to(end) {
            if self.map.frame(at).word().is_broken() {
                self.free_run(run..at);
                self.withhold_block(at, Order::ZERO);
                run = at.offset(1);
            }
        }
        self.free_run(run..end);
    }

    /// Whether any frame of a piece of a marked block is broken.
    pub(super) fn any_poisoned(&self, at: Pfn, piece: Order, block: Word) -> bool {
        block.is_poisoned() && at.up_to(at.offset(piece.pages())).any(|pfn| self.map.frame(pfn).word().is_broken())
    }

    /// Takes a whole block out of use.
    pub(super) fn withhold_block(&self, pfn: Pfn, order: Order) {
        for at in pfn.up_to(pfn.offset(order.pages())) {
            self.map.frame(at).set(Word::WITHHELD);
            self.report(Event::Withheld { pfn: at });
        }
    }
}
