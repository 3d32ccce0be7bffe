//! Taking one particular block off the free lists: what compaction does with the targets of a migration, and what
//! happens to a frame that is found broken while it is free.
//!
//! linux: mm/page_alloc.c:__isolate_free_page, take_page_off_buddy

use core::ops::Range;

use super::PageAllocator;
use super::alloc::fresh;
use super::error::FreeError;
use super::free_area::End;
use super::zone::LockedZone;
use crate::base::word::Word;
use crate::base::{Gfp, Order, Pfn};
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// Allocates exactly this block, with one reference, if it lies in one free block of its zone; says whether it
    /// did. Per-CPU lists are not looked at. What surrounds the block stays free.
    ///
    /// # Errors
    /// If the frame's memory is not online, or no block of this order can start there.
    pub fn isolate_free_page(&self, pfn: Pfn, order: Order, gfp: Gfp) -> Result<bool, FreeError> {
        let frame = self.map.try_frame(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        let word = frame.word();
        if word.is_absent() {
            return Err(FreeError::OutOfRange { pfn });
        }
        if !pfn.is_aligned(order) || word.is_reserved() {
            return Err(FreeError::NotAllocated { pfn, state: word.state() });
        }
        let mut locked = self.lock_zone_of(pfn).ok_or(FreeError::OutOfRange { pfn })?;
        Ok(locked.cut_out(pfn, order, fresh(gfp, order).with_refs(1)))
    }

    /// Allocates a block of this order and of the request's own type from the free lists of the zone that `near` is
    /// in, with one reference, past per-CPU lists and watermarks; `None` if there is none, or `near` is not online.
    pub fn isolate_free_page_near(&self, near: Pfn, order: Order, gfp: Gfp) -> Option<Pfn> {
        self.map.try_frame(near).filter(|frame| !frame.word().is_reserved() && !frame.word().is_absent())?;
        let mut locked = self.lock_zone_of(near)?;
        let pfn = locked.smallest(order, gfp.migratetype()?)?;
        locked.cut_out(pfn, order, fresh(gfp, order).with_refs(1)).then_some(pfn)
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Cuts a block out of the free block that it is in, and puts it into another state; `false` if it is in none.
    pub(super) fn cut_out(&mut self, pfn: Pfn, order: Order, word: Word) -> bool {
        let end = pfn.offset(order.pages());
        let around = self.free_block_around(pfn).filter(|(head, found)| head.offset(found.pages()) >= end);
        if let Some((head, _)) = around {
            self.cut(head, pfn..end);
            self.map.frame(pfn).set(word);
        }
        around.is_some()
    }

    /// The free block that a frame is in: its head and order. At most eleven steps.
    pub(super) fn free_block_around(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        self.map.block_around(pfn).filter(|(_, word)| word.is_zone_free()).map(|(head, word)| (head, word.order()))
    }

    /// Takes part of a free block off its list, as interior frames; the rest stays free, as the largest blocks that
    /// fit.
    pub(super) fn cut(&mut self, head: Pfn, part: Range<Pfn>) {
        let (found, migratetype) = self.unlink(head);
        debug_assert!(
            head <= part.start && part.start < part.end && part.end <= head.offset(found.pages()),
            "isolate: frames {:?} are cut out of the block of order {} at frame {head}",
            part,
            found.get()
        );
        self.account_out(part.end.raw() - part.start.raw(), migratetype);
        self.map.frame(head).set(Word::INTERIOR);
        for (start, end) in [(head, part.start), (part.end, head.offset(found.pages()))] {
            for (at, piece) in start.blocks_up_to(end, Order::MAX) {
                self.link(at, piece, migratetype, End::Head);
            }
        }
    }
}
