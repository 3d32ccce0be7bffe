//! The second attempt of a request that found no memory, after idle objects and pages have been freed.
//!
//! The fast paths of pages and `kmalloc` retry in a cold function, so that the first attempt need not save registers.
//! Other paths retry in a loop, so that the attempt is compiled once.

use core::ptr::NonNull;

use super::reclaim::ReclaimScope;
use super::{Cpu, Engine, Error};
use crate::base::{Gfp, Order, Pfn};
use crate::page::AllocError;
use crate::slab::ObjectError;

/// Permission of one request to be repeated once.
pub(super) struct Retry<'e, H: Cpu> {
    engine: &'e Engine<H>,
    gfp: Gfp,
    is_used: bool,
}

impl<H: Cpu> Engine<H> {
    /// Returns the permission for a request with these flags.
    #[inline(always)]
    pub(super) fn retry(&self, gfp: Gfp) -> Retry<'_, H> {
        Retry { engine: self, gfp, is_used: false }
    }

    /// Frees idle memory and repeats a request for a block that failed with this error. Returns the error if the
    /// request is invalid or may not reclaim.
    #[cold]
    #[inline(never)]
    pub(super) fn alloc_pages_again(&self, gfp: Gfp, order: Order, error: AllocError) -> Result<Pfn, AllocError> {
        if self.free_idle(gfp, error.into()) { self.pages.alloc_pinned_pages(gfp, order) } else { Err(error) }
    }

    /// Frees idle memory and repeats a request for an object that failed with this error. Returns the error if the
    /// request is invalid or may not reclaim.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn kmalloc_again(&self, size: usize, gfp: Gfp, error: ObjectError) -> Result<NonNull<u8>, ObjectError> {
        let Some(slab) = self.slab() else { return Err(error) };
        if self.free_idle(gfp, error.into()) { slab.kmalloc(size, gfp) } else { Err(error) }
    }

    /// Returns whether some zone has this many pages. Otherwise no range of that length can ever be emptied.
    pub(super) fn has_zone_of(&self, pages: u32) -> bool {
        self.pages.zones().iter().any(|zone| zone.present() >= u64::from(pages))
    }

    /// Frees idle objects and pages for a request that failed. Returns `false` and frees nothing if the request is
    /// invalid, if the flags do not allow reclaim, or if the caller is inside a callback that reclaims. Otherwise
    /// returns `true`, even if nothing was idle. If `irqs_disabled` reports that interrupts are off, this function does
    /// not fence other CPUs. Another CPU may be spinning on a lock of the kernel that this CPU holds, and could not
    /// answer.
    #[cold]
    #[inline(never)]
    fn free_idle(&self, gfp: Gfp, error: Error) -> bool {
        if !error.is_shortage() || !gfp.contains(Gfp::DIRECT_RECLAIM) || ReclaimScope::<H>::is_entered() {
            return false;
        }
        if H::CPUS > 1 && H::irqs_disabled() == Some(true) {
            self.slab().inspect(|slab| slab.shrink_nodes());
            self.pages.drain_all_pages();
        } else {
            self.shrink();
        }
        true
    }
}

impl<H: Cpu> Retry<'_, H> {
    /// Frees idle memory for a request that failed with this error, at most once. Returns whether the request is to be
    /// repeated.
    #[inline(always)]
    pub(super) fn free_idle_once(&mut self, error: Error) -> bool {
        !core::mem::replace(&mut self.is_used, true) && self.engine.free_idle(self.gfp, error)
    }
}
