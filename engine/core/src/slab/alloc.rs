//! Allocation: the fast path first, which is a section of a few instructions on this CPU's slot. When the slot has no
//! object, the slow path refills the slot and tries again. For a checked cache, whose slots are never filled, the slow
//! path takes an object off the node's list.
//!
//! linux: mm/slub.c:slab_alloc_node, __slab_alloc, slab_post_alloc_hook
//!
//! # Design
//!
//! Slow paths are last. Where a fast path finds no object, its last step is a call of a function that is never inlined.
//! The fast path therefore has no stack frame and saves no registers for the rare case. A function with the C calling
//! convention must also stop panics, which takes a stack frame, unless its slow path is itself such a function
//! (`dev/peer-mallocs/src/ours.rs`).

use core::panic::Location;
use core::ptr::NonNull;

use super::address::ObjectAddress;
use super::cache::{Cache, Path};
use super::cpu::CpuLocal;
use super::debug::Call;
use super::fast_path::{AnyFastPath, FastPath};
use super::id::CacheId;
use super::refill::RefillOutcome;
use super::{ObjectError, SlabAllocator, map};
use crate::base::Gfp;
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Allocates an object of a cache for a request of `requested` bytes. A request by size for which there is no
    /// cache, or no slab, may get a block of pages instead. Costs a section if this CPU's slot has an object, and the
    /// zeroing if the flags demand it.
    ///
    /// # Errors
    /// If there is no object and no page for a slab, if no block of pages is that large, or if the cache does not
    /// exist.
    #[inline(always)]
    #[track_caller]
    pub(super) fn slab_alloc<F: FastPath>(
        &self,
        id: CacheId,
        requested: usize,
        gfp: Gfp,
    ) -> Result<NonNull<u8>, ObjectError> {
        let object = match F::pop::<P, C>(&self.local, self.slots(id), self.hot(id)) {
            Some(object) => object,
            None => return self.slab_alloc_slow(id, requested, gfp),
        };
        Ok(self.slab_post_alloc_hook(id, object, gfp))
    }

    /// Zeroes an object if the flags demand it, and returns the pointer for the object's user.
    #[inline(always)]
    pub(super) fn slab_post_alloc_hook(&self, id: CacheId, object: ObjectAddress, gfp: Gfp) -> NonNull<u8> {
        if gfp.contains(Gfp::ZERO) {
            self.zero(id, object);
        }
        // SAFETY: objects are in `Memory`, which does not begin at address 0, so the pointer is not null.
        unsafe { NonNull::new_unchecked(object.as_ptr()) }
    }

    #[inline(never)]
    fn zero(&self, id: CacheId, object: ObjectAddress) {
        let Some(cache) = self.cache(id) else { return };
        // SAFETY: the object was just taken from this CPU's slot or from a slab, so no other code uses it, and objects
        // of its cache have `object_size` bytes.
        unsafe { object.as_ptr().write_bytes(0, cache.layout.object_size as usize) };
    }

    /// Allocates outside the fast path. If no slab can be made for a request by size, the request takes a block of
    /// pages, provided that a block smaller than a slab holds it and [`fail_without_slab`](Self::fail_without_slab) is
    /// not in effect. For such a request the slab is requested without `NOFAIL` and with `NORETRY`: memory is compacted
    /// for the slab once, since a block for one object is expensive.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn slab_alloc_slow(&self, id: CacheId, requested: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        if id == map::NONE {
            // The table of sizes has no cache for this size.
            return self.kmalloc_large(requested, gfp);
        }
        let cache = self.cache(id).ok_or(ObjectError::NoCache)?;
        let Some(block) =
            self.block_order(requested).filter(|&order| order < cache.layout.order && self.takes_pages_without_slab())
        else {
            return self.slab_alloc_refilled(cache, requested, gfp);
        };
        match self.slab_alloc_refilled(cache, requested, (gfp - Gfp::NOFAIL) | Gfp::NORETRY) {
            Err(ObjectError::Pages(_)) => self.alloc_block(block, gfp),
            result => result,
        }
    }

    /// Allocates an object after the fast path found none: of a checked cache, through sheaves, or by refilling this
    /// CPU's slot until the fast path finds an object.
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    #[track_caller]
    fn slab_alloc_refilled(&self, cache: &Cache, requested: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        if self.is_checked(cache) {
            return self.alloc_checked(cache, gfp, Call { requested, place: Location::caller() });
        }
        if self.path(cache) == Path::Sheaves {
            return Ok(self.slab_post_alloc_hook(cache.id, self.alloc_from_pcs(cache, gfp)?, gfp));
        }
        loop {
            // Other code on this CPU may have refilled the slot, or may have taken the objects of the last refill.
            if let Some(object) = AnyFastPath::pop::<P, C>(&self.local, self.slots(cache.id), self.hot(cache.id)) {
                return Ok(self.slab_post_alloc_hook(cache.id, object, gfp));
            }
            if self.refill(cache) == RefillOutcome::Nothing {
                self.grow(cache, gfp)?;
            }
        }
    }

    /// Allocates an object for every element of `objects`. On failure, frees those that were allocated, and returns the
    /// error; `objects` then has no valid addresses.
    ///
    /// # Errors
    /// As for a single object.
    #[track_caller]
    pub(super) fn alloc_bulk(&self, id: CacheId, gfp: Gfp, objects: &mut [NonNull<u8>]) -> Result<(), ObjectError> {
        if let Some(cache) = self.cache(id)
            && self.path(cache) == Path::Sheaves
        {
            return self.alloc_from_pcs_bulk(cache, gfp, objects);
        }
        for at in 0..objects.len() {
            match self.slab_alloc::<AnyFastPath>(id, usize::MAX, gfp) {
                Ok(object) => objects[at] = object,
                Err(error) => {
                    for &object in &objects[..at] {
                        // SAFETY: the object was allocated above, and no other code has its address.
                        let freed = unsafe { self.kfree(object) };
                        debug_assert!(freed.is_ok(), "the free of an object that was just allocated failed");
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
