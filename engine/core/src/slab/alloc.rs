//! The way of a request: this CPU's list first, which is a section of a few instructions; when that has run out, a
//! refill, and again.

use core::panic::Location;
use core::ptr::NonNull;

use super::address::ObjectAddress;
use super::cache::{Cache, Path};
use super::cpu::CpuLocal;
use super::debug::Call;
use super::fast_path::{AnyFastPath, FastPath};
use super::id::CacheId;
use super::refill::Refilled;
use super::{ObjectError, SlabAllocator, map};
use crate::base::Gfp;
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// An object of a cache, for so many bytes of it. Costs a section if this CPU has one.
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    #[inline(always)]
    #[track_caller]
    pub(super) fn alloc_object<F: FastPath>(
        &self,
        id: CacheId,
        asked: usize,
        gfp: Gfp,
    ) -> Result<NonNull<u8>, ObjectError> {
        let object = match F::pop::<P, C>(&self.local, self.slots(id), self.hot(id)) {
            Some(object) => object,
            None => return self.alloc_slow(id, asked, gfp),
        };
        Ok(self.handed_out(id, object, gfp))
    }

    /// The object as its user sees it.
    #[inline(always)]
    pub(super) fn handed_out(&self, id: CacheId, object: ObjectAddress, gfp: Gfp) -> NonNull<u8> {
        if gfp.contains(Gfp::ZERO) {
            self.zero(id, object);
        }
        // SAFETY: objects lie in `Memory`, which does not begin at address 0.
        unsafe { NonNull::new_unchecked(object.as_ptr()) }
    }

    #[inline(never)]
    fn zero(&self, id: CacheId, object: ObjectAddress) {
        let Some(cache) = self.cache(id) else { return };
        // SAFETY: an object that was just taken off a list is ours, and has so many bytes.
        unsafe { object.as_ptr().write_bytes(0, cache.layout.object_size as usize) };
    }

    /// What no section does. A request by size for which there is no slab takes a block of pages, if that is smaller
    /// than a slab and the caller has nothing better; so the slab is not insisted on. Memory is compacted for it once,
    /// since a block for one object is dear.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn alloc_slow(&self, id: CacheId, asked: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        if id == map::NONE {
            // The table of sizes has no cache for so many bytes.
            return self.kmalloc_other(asked, gfp);
        }
        let cache = self.cache(id).ok_or(ObjectError::NoCache)?;
        let Some(block) =
            self.block_order(asked).filter(|&order| order < cache.layout.order && self.takes_pages_without_slab())
        else {
            return self.alloc_from_slabs(cache, asked, gfp);
        };
        match self.alloc_from_slabs(cache, asked, (gfp - Gfp::NOFAIL) | Gfp::NORETRY) {
            Err(ObjectError::Pages(_)) => self.alloc_block(block, gfp),
            result => result,
        }
    }

    /// Refills this CPU until it has an object.
    #[track_caller]
    fn alloc_from_slabs(&self, cache: &Cache, asked: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        if self.is_checked(cache) {
            return self.alloc_checked(cache, gfp, Call { asked, place: Location::caller() });
        }
        if self.path(cache) == Path::Sheaves {
            return Ok(self.handed_out(cache.id, self.alloc_by_exchange(cache, gfp)?, gfp));
        }
        loop {
            // Other code on this CPU may have refilled it, or have taken what we refilled it with.
            if let Some(object) = AnyFastPath::pop::<P, C>(&self.local, self.slots(cache.id), self.hot(cache.id)) {
                return Ok(self.handed_out(cache.id, object, gfp));
            }
            if self.refill(cache) == Refilled::Nothing {
                self.grow(cache, gfp)?;
            }
        }
    }

    /// Allocates until `objects` is full, or says that not all could be had and gives back those that were.
    ///
    /// # Errors
    /// As for a single one.
    #[track_caller]
    pub(super) fn alloc_objects(&self, id: CacheId, gfp: Gfp, objects: &mut [NonNull<u8>]) -> Result<(), ObjectError> {
        if let Some(cache) = self.cache(id)
            && self.path(cache) == Path::Sheaves
        {
            return self.alloc_stretches(cache, gfp, objects);
        }
        for at in 0..objects.len() {
            match self.alloc_object::<AnyFastPath>(id, usize::MAX, gfp) {
                Ok(object) => objects[at] = object,
                Err(error) => {
                    for &object in &objects[..at] {
                        // SAFETY: allocated above, and nobody has seen it.
                        let freed = unsafe { self.kfree(object) };
                        debug_assert!(freed.is_ok(), "an object that was just allocated can be freed");
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
