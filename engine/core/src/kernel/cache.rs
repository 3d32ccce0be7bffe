//! Objects of one type, each with an owner: a cache as Rust would have it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::pages::engine;
use super::{Cpu, Error, IrqsOff, Kernel, KernelPlatform};
use crate::base::Gfp;
use crate::slab::{CacheConfig, CreateError, KmemCache};

/// The engine's cache beneath.
type Slabs<H> = KmemCache<'static, 'static, 'static, KernelPlatform<H>, IrqsOff<H>>;

/// A cache of objects of a type. linux: kmem_cache
///
/// Objects borrow it, so it goes after them; when it is dropped, its memory goes back. One that lives for ever is
/// leaked, or lies in a static.
pub struct Cache<T, H: Cpu> {
    /// There until it is dropped.
    slabs: Option<Slabs<H>>,
    objects: PhantomData<fn(T) -> T>,
}

impl<H: Cpu> Kernel<H> {
    /// Makes a cache of objects of a type, with a name for slabinfo. Alignment is that of the type, up to a page.
    ///
    /// # Errors
    /// [`Error::Cache`] if there can be none: no slab holds such an object, or there are as many caches as there can
    /// be.
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
        self.slabs.as_ref().expect("it is there until it is dropped")
    }

    /// An object with this value. Costs a section if this CPU has one at hand.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no memory; the value is dropped.
    #[track_caller]
    pub fn alloc(&self, value: T, gfp: Gfp) -> Result<Object<'_, T, H>, Error> {
        let object = self.slabs().alloc(gfp);
        let place = object.or_else(|error| engine::<H>().again(gfp, error, &|| self.slabs().alloc(gfp)))?.cast::<T>();
        // SAFETY: the object is new, of the type's size and alignment, and nobody else's.
        unsafe { place.write(value) };
        Ok(Object { place, cache: self, value: PhantomData })
    }

    /// Gives back what lies idle in it. Costs a fence a CPU.
    pub fn shrink(&self) {
        self.slabs().shrink();
    }
}

impl<T, H: Cpu> Drop for Cache<T, H> {
    /// Where objects were forgotten, the cache stays for ever, and they with it.
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

/// An object of a cache, its owner's alone: dropped, its value is dropped, and it goes back.
pub struct Object<'c, T, H: Cpu> {
    place: NonNull<T>,
    cache: &'c Cache<T, H>,
    value: PhantomData<T>,
}

// SAFETY: it owns the value, as a box does; a cache may be used from any CPU.
unsafe impl<T: Send, H: Cpu> Send for Object<'_, T, H> {}
// SAFETY: whoever shares it shares the value and the cache, likewise.
unsafe impl<T: Sync, H: Cpu> Sync for Object<'_, T, H> {}

impl<T, H: Cpu> Deref for Object<'_, T, H> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a value was written there, and it is this handle's.
        unsafe { self.place.as_ref() }
    }
}

impl<T, H: Cpu> DerefMut for Object<'_, T, H> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the handle is borrowed mutably.
        unsafe { self.place.as_mut() }
    }
}

impl<T, H: Cpu> Drop for Object<'_, T, H> {
    fn drop(&mut self) {
        // SAFETY: the value is this handle's, which is not used any more.
        unsafe { self.place.drop_in_place() };
        // SAFETY: nobody uses the object any more, and the cache is there for as long as it is borrowed.
        let freed = unsafe { self.cache.slabs().free(self.place.cast()) };
        debug_assert_eq!(freed, Ok(()), "an owned object is its owner's to free");
    }
}

impl<T: fmt::Debug, H: Cpu> fmt::Debug for Object<'_, T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
