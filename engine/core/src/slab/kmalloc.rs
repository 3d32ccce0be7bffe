//! Allocation by size. A request gets an object of the cache that [`sizes`](super::sizes) finds, up to 8 KiB or, with
//! fine sizes, 32 KiB. Larger requests and requests with a zone modifier get whole blocks of pages. So does a request
//! for whose cache no slab can be made, if a block smaller than a slab holds it and the allocator may take one
//! ([`fail_without_slab`](SlabAllocator::fail_without_slab)).

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::address::ObjectAddress;
use super::config::CacheConfig;
use super::cpu::{CpuLocal, PushOutcome};
use super::fast_path::{AnyFastPath, FastPath};
use super::id::CacheId;
use super::sizes::{TABLE_MAX, sizes};
use super::word::Local;
use super::{Cache, CreateError, ObjectError, ObjectFreeError, SlabAllocator, map};
use crate::base::{Gfp, Order, Pfn};
use crate::page::AllocError;
use crate::platform::Platform;

/// Result of a request for 0 bytes: an address that may be freed but not accessed. linux: ZERO_SIZE_PTR
pub const ZERO_SIZE: NonNull<u8> = NonNull::without_provenance(core::num::NonZero::new(16).unwrap());

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Creates the caches of `kmalloc`, one for each size.
    pub(super) fn create_kmalloc_caches(&self) -> Result<(), CreateError> {
        for (at, &(size, name)) in sizes(self.policy().slab.sizes).iter().enumerate() {
            let made = self.create(&CacheConfig::new(name, size).with_align(align_of_size(size)))?;
            debug_assert!(made.is_number(CacheId::new(at as u8 + 1)), "{name} has the wrong number");
        }
        Ok(())
    }

    /// Allocates at least `size` bytes. The memory is aligned to 8 bytes, or to 16 bytes if the size of the cache that
    /// serves the request is a multiple of 16. If that size is a power of two up to 4 KiB, the memory is aligned to it.
    ///
    /// Costs one section if this CPU has an object. A request for 0 bytes gets [`ZERO_SIZE`]. Requests with a zone
    /// modifier get whole pages. As the last resort, a request whose cache gets no slab also gets pages, if a block of
    /// a smaller order than a slab holds it, unless [`fail_without_slab`](Self::fail_without_slab) was called. So it
    /// does not fail before the page allocator does. [`ksize`](Self::ksize) of such a block is a page or more, and
    /// `slab_debug` does not check its bytes.
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

    /// Allocates a block of pages for a request that no cache serves, because it is too large or has a zone modifier;
    /// returns [`ZERO_SIZE`] for no bytes. linux: mm/slub.c:___kmalloc_large_node
    ///
    /// # Errors
    /// If no block of pages is that large, or as for [`alloc_block`](Self::alloc_block).
    #[cold]
    #[inline(never)]
    pub(super) fn kmalloc_large(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        if size == 0 {
            return Ok(ZERO_SIZE);
        }
        let order = self.block_order(size).ok_or(ObjectError::TooLarge { size })?;
        self.alloc_block(order, gfp)
    }

    /// Returns the order of the smallest block that holds `size` bytes, or `None` if no block does.
    pub(crate) fn block_order(&self, size: usize) -> Option<Order> {
        let pages = size.div_ceil(self.pages.page_size() as usize).checked_next_power_of_two()?;
        Order::from_u8(pages.ilog2() as u8)
    }

    /// Allocates a block of pages that [`kfree`](Self::kfree) can free.
    ///
    /// # Errors
    /// If the page allocator has no block, or only one outside the memory of the slab allocator.
    pub(crate) fn alloc_block(&self, order: Order, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        let (node, wanted) = (self.pages.node_of(self.local.cpu()), (gfp - Gfp::ZERO) | Gfp::COMP);
        let pfn = self.pages.alloc_slab_pages(node, wanted, order).map_err(ObjectError::Pages)?;
        if !self.map.has(pfn, order) {
            let _freed = self.pages.free_slab_pages(pfn, order);
            return Err(ObjectError::Pages(AllocError::OutOfMemory));
        }
        self.map.slab(pfn).local.store(Local::new(u64::from(order.get()), 0).raw(), Relaxed);
        self.map.set_kind(pfn, 1, map::LARGE);
        let start = NonNull::new(self.map.address(pfn) as *mut u8).expect("no page has address 0");
        if gfp.contains(Gfp::ZERO) {
            // SAFETY: the block was allocated above, so no other code uses it. `has` found it in the range, all of
            // whose allocated frames are mapped, as the caller of `new` promised.
            unsafe { start.write_bytes(0, (order.pages() * self.pages.page_size()) as usize) };
        }
        Ok(start)
    }

    /// Frees memory that [`kmalloc`](Self::kmalloc) or [`krealloc`](Self::krealloc) returned.
    ///
    /// May wait for another CPU's sections if too many slabs wait for that CPU. So a kernel that frees in interrupt
    /// handlers needs CPUs that answer calls wherever they wait with interrupts off. The kernel in `freehold::kernel`
    /// does that.
    ///
    /// # Errors
    /// If no object or block starts at the address, if the object is found to be free already, or if it is a damaged
    /// object of a checked cache. Nothing is freed then.
    ///
    /// # Safety
    /// If the address is that of an object or a block, that object or block is not free, and is not used any more. If
    /// it is in a page of a cache, that cache is not destroyed before this call returns.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn kfree(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller promises about `object` what `kfree_with` demands.
        unsafe { self.kfree_with::<AnyFastPath>(object) }
    }

    /// Frees memory by the fast path `F`, or by the slow path.
    ///
    /// # Errors
    /// As for [`kfree`](Self::kfree).
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree).
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn kfree_with<F: FastPath>(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller promises about `object` what `free_fast` demands.
        match unsafe { self.free_fast::<F>(ObjectAddress::from_ptr(object.as_ptr())) } {
            PushOutcome::Done => Ok(()),
            PushOutcome::Refused => self.kfree_slow(object),
        }
    }

    /// Frees what no section can free, or returns the error for an address that is no object's.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn kfree_slow(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        let address = ObjectAddress::from_ptr(object.as_ptr());
        match self.map.kind_at::<P>(address.get()) {
            None | Some(map::NONE | map::LARGE) => self.free_large_kmalloc(object),
            // SAFETY: the page belongs to this cache, and the caller of `kfree` promises the rest.
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
        let Some(kind) = self.map.kind_at::<P>(object.get()) else { return PushOutcome::Refused };
        let hot = self.hot(kind);
        if !hot.is_for_sections(object) {
            return PushOutcome::Refused;
        }
        // SAFETY: the page belongs to a cache. An object starts at the address, as `is_for_sections` found, and the caller
        // gives it up.
        let freed = unsafe { self.freed_object(object, hot) };
        F::push::<P, C>(&self.local, self.slots(kind), hot, freed)
    }

    /// Makes requests of sizes that have a cache fail if no slab can be made for them, instead of getting a block of
    /// pages. For a heap that can bring more memory online.
    pub fn fail_without_slab(&self) {
        self.fails_without_slab.store(true, Relaxed);
    }

    /// Lets a request of a size that has a cache get the smallest block of pages that holds it if no slab can be made
    /// and the block is smaller than a slab, which is the default. Reverses
    /// [`fail_without_slab`](Self::fail_without_slab).
    pub fn take_pages_without_slab(&self) {
        self.fails_without_slab.store(false, Relaxed);
    }

    /// Returns whether a request of a size that has a cache may get a block of pages if no slab can be made for it.
    pub(super) fn takes_pages_without_slab(&self) -> bool {
        !self.fails_without_slab.load(Relaxed)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn malloc_slow(&self, size: usize) -> *mut u8 {
        // C demands a distinct address for 0 bytes, too.
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

    /// Returns the first frame of a block that was allocated by size.
    ///
    /// # Errors
    /// If the address is not in the first page of such a block, or is not the start of that page.
    fn large(&self, object: NonNull<u8>) -> Result<Pfn, ObjectFreeError> {
        let address = object.as_ptr() as u64;
        let block = self.map.pfn(address).filter(|&pfn| self.map.kind(pfn) == map::LARGE);
        let pfn = block.ok_or(ObjectFreeError::Foreign { address })?;
        if self.map.address(pfn) == address { Ok(pfn) } else { Err(ObjectFreeError::Interior { address }) }
    }

    fn large_order(&self, pfn: Pfn) -> Order {
        Order::new(self.map.slab(pfn).local().list(0) as u8)
    }

    /// Returns the bytes of an object or block that its owner may use: the size of the cache's objects, the requested
    /// bytes in a checked cache, all bytes of a block, or 0 for [`ZERO_SIZE`]. linux: ksize
    ///
    /// # Errors
    /// If no object or block starts at the address.
    pub fn ksize(&self, object: NonNull<u8>) -> Result<usize, ObjectFreeError> {
        let kind = self.kind_of(object);
        self.size_in(self.find_cache(kind).as_deref(), object)
    }

    /// Returns the bytes of the object at an address, if the object belongs to a cache without checks; otherwise
    /// `None`. This is [`ksize`](Self::ksize) for callers that know that the cache stays, as kmalloc's caches do. Costs
    /// a load and a multiplication.
    #[inline(always)]
    pub fn object_bytes(&self, object: NonNull<u8>) -> Option<usize> {
        self.bytes_at(ObjectAddress::from_ptr(object.as_ptr()))
    }

    /// Returns the bytes of the object at an address, if one of a cache without checks starts there.
    #[inline(always)]
    pub(super) fn bytes_at(&self, address: ObjectAddress) -> Option<usize> {
        let hot = self.hot(self.map.kind_at::<P>(address.get())?);
        hot.is_object(address).then_some(hot.object_bytes() as usize)
    }

    /// Returns the bytes of an object that serves a request of `size` bytes, or 0 if the request is for 0 bytes or gets
    /// pages. This is [`ksize`](Self::ksize) before the object is allocated. Costs two loads.
    #[inline(always)]
    pub fn size_of_request(&self, size: usize) -> usize {
        if size > TABLE_MAX { 0 } else { self.hot(self.sizes.cache_for(size)).object_bytes() as usize }
    }

    fn kind_of(&self, object: NonNull<u8>) -> CacheId {
        self.map.kind_at::<P>(object.as_ptr() as u64).unwrap_or(map::NONE)
    }

    /// Returns the bytes that the owner of an object may use; `cache` is the cache of the object's page, if the page is
    /// in one.
    ///
    /// # Errors
    /// If no object or block starts at the address.
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

    /// Changes the size of allocated memory and keeps its contents up to the smaller of the two sizes. linux: krealloc
    ///
    /// If the old memory is large enough ([`ksize`](Self::ksize)), it stays in place, even if much less is requested.
    /// Otherwise the contents are moved to new memory. A new size of 0 frees the old memory and returns [`ZERO_SIZE`].
    /// With [`Gfp::ZERO`], new bytes are zero, provided that the allocation and each later change of its size used that
    /// flag.
    ///
    /// # Errors
    /// If the address is not that of an object or a block, if the object has to move and is found to be free, or if
    /// there is no memory. The old memory is unchanged then.
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree). If an error is returned, the object still belongs to its owner.
    #[track_caller]
    pub unsafe fn krealloc(&self, object: NonNull<u8>, size: usize, gfp: Gfp) -> Result<NonNull<u8>, KreallocError> {
        let kind = self.kind_of(object);
        // The caller keeps the cache of the object, so no reference is taken.
        let old = self.size_in(self.cache(kind), object).map_err(KreallocError::Object)?;
        if size <= old && size > 0 {
            if gfp.contains(Gfp::ZERO) {
                // SAFETY: the owner's memory has `old` bytes, and those past the new size are not in use.
                unsafe { object.add(size).write_bytes(0, old - size) };
            }
            return Ok(object);
        }
        let new = self.kmalloc(size, gfp).map_err(KreallocError::Memory)?;
        // SAFETY: both objects have at least this many bytes, and a new object does not overlap an allocated one.
        unsafe { new.copy_from_nonoverlapping(object, old.min(size)) };
        // SAFETY: the caller gives the old object up, and its contents have been copied.
        if let Err(error) = unsafe { self.kfree(object) } {
            // SAFETY: `new` was allocated above, and no other code has its address.
            let freed = unsafe { self.kfree(new) };
            debug_assert!(freed.is_ok(), "the free of an object that was just allocated failed");
            return Err(KreallocError::Object(error));
        }
        Ok(new)
    }
}

/// Reasons why memory could not change its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KreallocError {
    /// The address is not that of an object or a block that can be freed.
    Object(ObjectFreeError),
    /// There is no memory for the new size. The old object stays.
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

/// Returns the largest power of two that divides a size, up to the smallest page. linux:
/// mm/slab_common.c:create_kmalloc_cache
fn align_of_size(size: u32) -> u32 {
    (1 << size.trailing_zeros()).min(4096)
}
