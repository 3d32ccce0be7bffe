//! The way of a request: this CPU's list first, which is a section of a few instructions; when that has run out, a refill,
//! and again.

use core::ptr::NonNull;

use super::cache::Cache;
use super::cpu::CpuLocal;
use super::path::{AnyWay, Way};
use super::refill::Refilled;
use super::{ObjectError, SlabAllocator};
use crate::base::Gfp;
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, P, C> {
    /// An object of a cache. Costs a section if this CPU has one.
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    #[inline(always)]
    pub(super) fn alloc_object<W: Way>(&self, id: u8, cache: &Cache, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        let object = match W::pop(&self.local, self.slots(id), cache) {
            Some(object) => object,
            None => self.alloc_slow(id, cache, gfp)?,
        };
        Ok(self.handed_out(cache, object, gfp))
    }

    /// The object as its user sees it.
    #[inline(always)]
    fn handed_out(&self, cache: &Cache, object: u64, gfp: Gfp) -> NonNull<u8> {
        let start = NonNull::new(object as *mut u8).expect("no object is at address 0");
        if gfp.contains(Gfp::ZERO) {
            // SAFETY: an object that was just taken off a list is ours, and has so many bytes.
            unsafe { start.write_bytes(0, cache.layout.object_size as usize) };
        }
        start
    }

    /// Refills this CPU until it has an object.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&self, id: u8, cache: &Cache, gfp: Gfp) -> Result<u64, ObjectError> {
        loop {
            // Whoever else runs on this CPU may have refilled it, or have taken what we refilled it with.
            if let Some(object) = AnyWay::pop(&self.local, self.slots(id), cache) {
                return Ok(object);
            }
            if self.refill(id, cache) == Refilled::Nothing {
                self.grow(id, cache, gfp)?;
            }
        }
    }

    /// Allocates until `objects` is full, or says that not all could be had and gives back those that were.
    ///
    /// # Errors
    /// As for a single one.
    pub(super) fn alloc_objects(
        &self,
        id: u8,
        cache: &Cache,
        gfp: Gfp,
        objects: &mut [NonNull<u8>],
    ) -> Result<(), ObjectError> {
        for at in 0..objects.len() {
            match self.alloc_object::<AnyWay>(id, cache, gfp) {
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
