//! Typed object caches whose objects are owned by handles.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::pages::engine;
use super::{Cpu, Error, IrqsOff, Kernel, KernelPlatform};
use crate::base::Gfp;
use crate::slab::{CacheConfig, CreateError, KmemCache};

/// The slab cache underneath.
type Slabs<H> = KmemCache<'static, 'static, 'static, KernelPlatform<H>, IrqsOff<H>>;

/// A cache of objects of one type. linux: kmem_cache
///
/// Objects borrow the cache, so it outlives them. Dropping the cache frees its memory. A cache that lives forever is
/// leaked or kept in a static.
pub struct Cache<T, H: Cpu> {
    /// `Some` until the cache is dropped.
    slabs: Option<Slabs<H>>,
    objects: PhantomData<fn(T) -> T>,
}

impl<H: Cpu> Kernel<H> {
    /// Creates a cache of objects of one type. `name` is its name in slabinfo. Objects have the alignment of the type,
    /// which is at most a page.
    ///
    /// # Errors
    /// [`Error::Cache`] if no slab can hold such an object, if its alignment is above a page, or if the number of
    /// caches is at its limit; [`Error::NoCaches`] if [`Cpu::CACHES`] is 0.
    pub fn cache<T>(&'static self, name: &str) -> Result<Cache<T, H>, Error> {
        let size = u32::try_from(size_of::<T>().max(1)).map_err(|_| CreateError::Size { size: u32::MAX })?;
        let align = u32::try_from(align_of::<T>()).map_err(|_| CreateError::Align { align: u32::MAX })?;
        let slab = self.ready()?.slab().ok_or(Error::NoCaches)?;
        let slabs = slab.create(&CacheConfig::new(name, size).with_align(align))?;
        Ok(Cache { slabs: Some(slabs), objects: PhantomData })
    }
}

impl<T, H: Cpu> Cache<T, H> {
    fn slabs(&self) -> &Slabs<H> {
        self.slabs.as_ref().expect("only `drop` takes the cache")
    }

    /// Allocates an object with this value. Costs one section if this CPU has a free object cached. If memory is
    /// exhausted and the flags allow reclaim, idle objects are freed and the request is repeated once.
    ///
    /// # Errors
    /// [`Error::Object`] if memory is exhausted; the value is dropped.
    #[track_caller]
    pub fn alloc(&self, value: T, gfp: Gfp) -> Result<Object<'_, T, H>, Error> {
        let mut retry = engine::<H>().retry(gfp);
        let object = loop {
            match self.slabs().alloc(gfp) {
                Err(error) if retry.free_idle_once(error.into()) => {}
                answer => break answer?,
            }
        };
        let place = object.cast::<T>();
        // SAFETY: `place` is a new allocation of the cache, whose objects have the size and alignment of `T`. No other
        // pointer to it is in use.
        unsafe { place.write(value) };
        Ok(Object { place, cache: self, value: PhantomData })
    }

    /// Frees the cache's idle memory, as [`KmemCache::shrink`] does and at its cost.
    pub fn shrink(&self) {
        self.slabs().shrink();
    }
}

impl<T, H: Cpu> Drop for Cache<T, H> {
    /// Destroys the cache, after waiting for walks over it such as a shrink. If objects were forgotten, the cache and
    /// its objects are leaked.
    fn drop(&mut self) {
        if let Some(slabs) = self.slabs.take() {
            let _leak = slabs.destroy();
        }
    }
}

impl<T, H: Cpu> fmt::Debug for Cache<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("slabs", &self.slabs).finish()
    }
}

/// An owned object of a cache. Dropping it drops the value and frees the object.
pub struct Object<'c, T, H: Cpu> {
    place: NonNull<T>,
    cache: &'c Cache<T, H>,
    value: PhantomData<T>,
}

// SAFETY: the handle owns its value, as a `Box` does, and a cache may be used from any CPU.
unsafe impl<T: Send, H: Cpu> Send for Object<'_, T, H> {}
// SAFETY: a shared handle gives access to the value and the cache only, and both are `Sync`.
unsafe impl<T: Sync, H: Cpu> Sync for Object<'_, T, H> {}

impl<T, H: Cpu> Deref for Object<'_, T, H> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `alloc` wrote a value to `place`, which only this handle refers to until it is dropped.
        unsafe { self.place.as_ref() }
    }
}

impl<T, H: Cpu> DerefMut for Object<'_, T, H> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed mutably, so there is no other reference to the value.
        unsafe { self.place.as_mut() }
    }
}

impl<T, H: Cpu> Drop for Object<'_, T, H> {
    /// Drops the value and frees the object, also if the value's own `drop` panics.
    fn drop(&mut self) {
        let _object = Emptied { place: self.place.cast(), cache: self.cache };
        // SAFETY: `place` holds a value that this handle owns, and the handle is not used after `drop`.
        unsafe { self.place.drop_in_place() };
    }
}

/// Object whose value is being dropped. Dropping this frees the object.
struct Emptied<'c, T, H: Cpu> {
    place: NonNull<u8>,
    cache: &'c Cache<T, H>,
}

impl<T, H: Cpu> Drop for Emptied<'_, T, H> {
    fn drop(&mut self) {
        // SAFETY: the object was allocated from this cache, its value was dropped or has panicked in its `drop`, so it
        // is not used any more, and the cache is alive because this borrows it.
        let freed = unsafe { self.cache.slabs().free(self.place) };
        debug_assert_eq!(freed, Ok(()), "the free of an owned object failed");
    }
}

impl<T: fmt::Debug, H: Cpu> fmt::Debug for Object<'_, T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
