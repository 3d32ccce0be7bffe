//! Taking one particular block off the free lists: what compaction does with the targets of a migration, and what
//! happens to a frame that is found broken while it is free.
//!
//! linux: mm/page_alloc.c:__isolate_free_page, take_page_off_buddy

use super::PageAllocator;
use super::alloc::fresh;
use super::error::FreeError;
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
