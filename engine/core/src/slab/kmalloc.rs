//! Memory by size: an object of the cache that [`sizes`](super::sizes) finds, up to 8 KiB or, with fine sizes, 32;
//! whole blocks of pages above, and for what a cache gets no slab for.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::address::ObjectAddress;
use super::config::CacheConfig;
use super::cpu::{CpuLocal, FreedObject, PushOutcome};
use super::fast_path::{AnyFastPath, FastPath};
use super::id::CacheId;
use super::sizes::{TABLE_MAX, sizes};
use super::word::Local;
use super::{Cache, CreateError, ObjectError, ObjectFreeError, SlabAllocator, map};
use crate::base::{Gfp, Order, Pfn};
use crate::page::AllocError;
use crate::platform::Platform;

/// What a request for no bytes gets: an address that may be freed, and not be read. linux: ZERO_SIZE_PTR
pub const ZERO_SIZE: NonNull<u8> = NonNull::without_provenance(core::num::NonZero::new(16).unwrap());

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Makes the caches of `kmalloc`, one for each size.
    pub(super) fn create_kmalloc_caches(&self) -> Result<(), CreateError> {
        for (at, &(size, name)) in sizes(self.policy().slab.sizes).iter().enumerate() {
            let made = self.create(&CacheConfig::new(name, size).with_align(align_of_size(size)))?;
            debug_assert!(made.is_number(CacheId::new(at as u8 + 1)), "{name} is made in its place");
        }
        Ok(())
    }

    /// At least `size` bytes, aligned to 8; to 16 if the next larger size is a multiple of that, and to that size where
    /// it is a power of two up to a page.
    ///
    /// Costs a section if this CPU has an object. Requests with a zone modifier take whole pages; so does, as the last
    /// resort, a request whose cache gets no slab, if pages of a smaller order will do: it does not fail before the
    /// page allocator does. [`ksize`](Self::ksize) then says a page or more, and nothing checks the block's bytes under
    /// `slab_debug`.
    ///
    /// # Errors
    /// If there is no memory, or no block of pages is that large.
    #[inline(always)]
    #[track_caller]
    pub fn kmalloc(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        self.kmalloc_with::<AnyFastPath>(size, gfp)
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn kmalloc_with<F: FastPath>(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        let modified = gfp.intersects(Gfp::DMA.union(Gfp::DMA32).union(Gfp::HIGHMEM).union(Gfp::MOVABLE));
        if size > TABLE_MAX || modified {
            return self.kmalloc_large(size, gfp);
        }
        self.slab_alloc::<F>(self.sizes.cache_for(size), size, gfp)
    }

    /// Allocates a block of pages for a request above the largest cache; returns [`ZERO_SIZE`] for no bytes. linux:
    /// mm/slub.c:___kmalloc_large_node
    #[cold]
    #[inline(never)]
    pub(super) fn kmalloc_large(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        if size == 0 {
            return Ok(ZERO_SIZE);
        }
        let order = self.block_order(size).ok_or(ObjectError::TooLarge { size })?;
        self.alloc_block(order, gfp)
    }

    /// The order of the smallest block of so many bytes.
    pub(crate) fn block_order(&self, size: usize) -> Option<Order> {
        let pages = size.div_ceil(self.pages.page_size() as usize).checked_next_power_of_two()?;
        Order::from_u8(pages.ilog2() as u8)
    }

    /// A block of pages that [`kfree`](Self::kfree) takes back.
    pub(crate) fn alloc_block(&self, order: Order, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        let (node, wanted) = (self.pages.node_of(self.local.cpu()), (gfp - Gfp::ZERO) | Gfp::COMP);
        let pfn = self.pages.alloc_slab_pages(node, wanted, order).map_err(ObjectError::Pages)?;
        if !self.map.has(pfn, order) {
            let _freed = self.pages.free_slab_pages(pfn, order);
            return Err(ObjectError::Pages(AllocError::OutOfMemory));
        }
        self.map.slab(pfn).local.store(Local::new(u64::from(order.get()), 0).raw(), Relaxed);
        self.map.set_kind(pfn, 1, map::LARGE);
        let start = NonNull::new(self.map.address(pfn) as *mut u8).expect("no page is at address 0");
        if gfp.contains(Gfp::ZERO) {
            // SAFETY: the pages are new, mapped, and ours.
            unsafe { start.write_bytes(0, (order.pages() * self.pages.page_size()) as usize) };
        }
        Ok(start)
    }

    /// Gives back what [`kmalloc`](Self::kmalloc) or [`krealloc`](Self::krealloc) gave.
    ///
    /// May wait for another CPU's sections, when too much waits for that CPU: a kernel that frees in interrupt handlers
    /// has CPUs answer calls wherever they wait with interrupts off. That of `freehold::kernel` does.
    ///
    /// # Errors
    /// If it is not where an object or a block begins; nothing is changed then.
    ///
    /// # Safety
    /// If it is an object or a block, nobody uses it any more, and it is not free. The cache in whose pages it is, if
    /// it is in any, is not destroyed before this has returned.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn kfree(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller promises the same of the object.
        unsafe { self.kfree_with::<AnyFastPath>(object) }
    }

    /// # Safety
    /// As for [`kfree`](Self::kfree).
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn kfree_with<F: FastPath>(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller gives the object up, as `free_fast` demands.
        match unsafe { self.free_fast::<F>(ObjectAddress::from_ptr(object.as_ptr())) } {
            PushOutcome::Done => Ok(()),
            PushOutcome::Refused => self.kfree_slow(object),
        }
    }

    /// What no section does, and whatever is no object.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn kfree_slow(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        let address = ObjectAddress::from_ptr(object.as_ptr());
        match self.map.kind_at(address.get()) {
            None | Some(map::NONE | map::LARGE) => self.free_large_kmalloc(object),
            // SAFETY: the page is that cache's; the rest is the promise of the caller that frees it.
            Some(id) => unsafe { self.slab_free::<AnyFastPath>(id, address) },
        }
    }

    /// Allocates an object for `size` bytes by the fast path, if this CPU's slot has one.
    #[inline(always)]
    pub(super) fn alloc_fast<F: FastPath>(&self, size: usize) -> Option<ObjectAddress> {
        if size > TABLE_MAX {
            return None;
        }
        let id = self.sizes.cache_for(size);
        F::pop::<P, C>(&self.local, self.slots(id), self.hot(id))
    }

    /// Frees an object by the fast path, if a section can.
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree).
    #[inline(always)]
    pub(super) unsafe fn free_fast<F: FastPath>(&self, object: ObjectAddress) -> PushOutcome {
        let Some(kind) = self.map.kind_at(object.get()) else { return PushOutcome::Refused };
        let hot = self.hot(kind);
        if !hot.is_for_sections(object) {
            return PushOutcome::Refused;
        }
        // SAFETY: the page is a cache's, so the address is in the range, and so is the start of its slab; and the
        // caller gives the object up.
        let freed = unsafe { FreedObject::new(object, self.map.slab_at(object.slab(hot.mask)), hot.mask) };
        F::push::<P, C>(&self.local, self.slots(kind), hot, freed)
    }

    /// From now on a small request for which there is no slab fails, and takes no block of pages of its own. For a heap
    /// that can bring more memory online.
    pub fn fail_without_slab(&self) {
        self.fails_without_slab.store(true, Relaxed);
    }

    /// From now on a small request for which there is no slab takes the smallest block of pages that holds it, as it
    /// does unless [`fail_without_slab`](Self::fail_without_slab) was called.
    pub fn take_pages_without_slab(&self) {
        self.fails_without_slab.store(false, Relaxed);
    }

    /// Whether a small request takes a block of pages where there is no slab for it.
    pub(super) fn takes_pages_without_slab(&self) -> bool {
        !self.fails_without_slab.load(Relaxed)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn malloc_slow(&self, size: usize) -> *mut u8 {
        // C wants an address of its own for no bytes, too.
        self.kmalloc(size.max(1), Gfp::KERNEL).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn free_or_report(&self, pointer: *mut u8) {
        let Some(object) = NonNull::new(pointer) else { return };
        if let Err(error) = self.kfree_slow(object)
            && !P::REPORTS_REFUSED_FREES
        {
            self.report_refused(error);
        }
    }

    #[cold]
    #[inline(never)]
    fn free_large_kmalloc(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        if object == ZERO_SIZE {
            return Ok(());
        }
        let pfn = self.large(object).map_err(|error| self.refused_large(error))?;
        let order = self.large_order(pfn);
        self.map.set_kind(pfn, 1, map::NONE);
        let freed = self.pages.free_slab_pages(pfn, order);
        freed.map_err(|_| self.refused(ObjectFreeError::DoubleFree { address: object.as_ptr() as u64 }))
    }

    /// The first frame of a block that was asked for by size.
    fn large(&self, object: NonNull<u8>) -> Result<Pfn, ObjectFreeError> {
        let address = object.as_ptr() as u64;
        let block = self.map.pfn(address).filter(|&pfn| self.map.kind(pfn) == map::LARGE);
        let pfn = block.ok_or(ObjectFreeError::Foreign { address })?;
        if self.map.address(pfn) == address { Ok(pfn) } else { Err(ObjectFreeError::Interior { address }) }
    }

    fn large_order(&self, pfn: Pfn) -> Order {
        Order::new(self.map.slab(pfn).local().list(0) as u8)
    }

    /// Bytes that the owner of an object may use. linux: ksize
    ///
    /// # Errors
    /// If it is not where an object or a block begins.
    pub fn ksize(&self, object: NonNull<u8>) -> Result<usize, ObjectFreeError> {
        let kind = self.kind_of(object);
        self.size_in(self.find_cache(kind).as_deref(), object)
    }

    /// Bytes of the object of a cache without checks that begins at an address: [`ksize`](Self::ksize) for those who
    /// trust the cache to stay, as kmalloc's do. Costs a load and a multiplication; `None` for everything else.
    #[inline(always)]
    pub fn object_bytes(&self, object: NonNull<u8>) -> Option<usize> {
        let address = ObjectAddress::from_ptr(object.as_ptr());
        let hot = self.hot(self.map.kind_at(address.get())?);
        hot.is_object(address).then_some(hot.object_bytes() as usize)
    }

    /// Bytes of the objects that serve requests of so many, as far as caches do: [`ksize`](Self::ksize) before there is
    /// an object. Costs two loads; 0 for requests that get pages.
    #[inline(always)]
    pub fn size_of_request(&self, size: usize) -> usize {
        if size > TABLE_MAX { 0 } else { self.hot(self.sizes.cache_for(size)).object_bytes() as usize }
    }

    fn kind_of(&self, object: NonNull<u8>) -> CacheId {
        self.map.kind_at(object.as_ptr() as u64).unwrap_or(map::NONE)
    }

    /// The same for an object of this cache, or of none.
    fn size_in(&self, cache: Option<&Cache>, object: NonNull<u8>) -> Result<usize, ObjectFreeError> {
        let at = ObjectAddress::from_ptr(object.as_ptr());
        let address = at.get();
        match cache {
            _ if object == ZERO_SIZE => Ok(0),
            Some(cache) if !cache.layout.is_object(at) => Err(ObjectFreeError::Interior { address }),
            Some(cache) if self.is_checked(cache) => {
                self.requested_size(cache, at).ok_or(ObjectFreeError::Foreign { address })
            }
            Some(cache) => Ok(cache.layout.object_size as usize),
            None => {
                let order = self.large_order(self.large(object)?);
                Ok((order.pages() * self.pages.page_size()) as usize)
            }
        }
    }

    /// Memory of another size with what was in the old one, as far as that goes: in place if the old one has as much
    /// ([`ksize`](Self::ksize)), so memory that shrinks stays where it is; else moved. linux: krealloc
    ///
    /// With [`Gfp::ZERO`] new bytes are zero, if it was asked for with that from the start, each time.
    ///
    /// # Errors
    /// If `object` is none of ours, or is to be moved and noticed to be free, or there is no memory; the old memory
    /// stays as it is then.
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree). If an error is returned, the object is still its owner's.
    #[track_caller]
    pub unsafe fn krealloc(&self, object: NonNull<u8>, size: usize, gfp: Gfp) -> Result<NonNull<u8>, KreallocError> {
        let kind = self.kind_of(object);
        // The caller keeps the cache that the object is in, so no reference is taken.
        let old = self.size_in(self.cache(kind), object).map_err(KreallocError::Object)?;
        if size <= old && size > 0 {
            if gfp.contains(Gfp::ZERO) {
                // SAFETY: the owner's memory has so many bytes, and nothing past the new size is in use.
                unsafe { object.add(size).write_bytes(0, old - size) };
            }
            return Ok(object);
        }
        let new = self.kmalloc(size, gfp).map_err(KreallocError::Memory)?;
        // SAFETY: both have so many bytes, and are not the same.
        unsafe { new.copy_from_nonoverlapping(object, old.min(size)) };
        // SAFETY: the caller gives the old object up, which is copied by now.
        if let Err(error) = unsafe { self.kfree(object) } {
            // SAFETY: nobody has seen the new one.
            let freed = unsafe { self.kfree(new) };
            debug_assert!(freed.is_ok(), "what was just allocated can be freed");
            return Err(KreallocError::Object(error));
        }
        Ok(new)
    }
}

/// Why memory did not change its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KreallocError {
    /// The address is of no object and no block that can be freed.
    Object(ObjectFreeError),
    /// There is no memory for the new size; the old object stays.
    Memory(ObjectError),
}

impl core::fmt::Display for KreallocError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            KreallocError::Object(error) => error.fmt(f),
            KreallocError::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for KreallocError {}

/// The largest power of two that divides a size, up to the smallest page. linux: mm/slab_common.c:create_kmalloc_cache
fn align_of_size(size: u32) -> u32 {
    (1 << size.trailing_zeros()).min(4096)
}
