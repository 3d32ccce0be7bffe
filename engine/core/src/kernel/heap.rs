//! The kernel's allocator as Rust's global allocator, for `Box`, `Vec` and other collections.
//!
//! Requests are served by `kmalloc`. A `kmalloc` object is aligned to the largest power of two that divides its size. A
//! request with a larger alignment is rounded up to a multiple of the alignment. If the size class for this is still
//! not a multiple, the request is rounded up to a power of two. Up to 4 KiB, this achieves every alignment. Requests
//! above the largest size class, 32 KiB by default, or with an alignment above 4 KiB, get a block of pages, which is
//! aligned to its size. Requests of a size or alignment above the largest block, 4 MiB with pages of 4 KiB, get a range
//! of neighbouring pages of any length.

use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;

use super::pages::largest_block;
use super::reclaim::ReclaimScope;
use super::{Cpu, Kernel, SlabOf};
use crate::base::Gfp;
use crate::page::FreeError;
use crate::platform::report::{Fix, SlabBug};
use crate::platform::{Context, SlabReport, Task};
use crate::slab::ObjectError;

/// Rust's global allocator for a kernel: `#[global_allocator] static HEAP: Heap<Hw> = Heap::new();`
///
/// Allocation returns null before [`Kernel::init`], when memory is exhausted, for an alignment above the largest block
/// (4 MiB) of which [`Boot::direct_map`](super::Boot::direct_map) is no multiple, and if [`Cpu::CACHES`] is 0. In every
/// context but [`Context::Task`], as reported by [`Promises::task`](super::Promises::task), requests do not reclaim,
/// and requests of a size or alignment above the largest block fail. Debug builds panic if `task` reports
/// [`Context::Task`] to a request with interrupts off, if callbacks have found memory only with interrupts on. As in
/// all checks of debug builds, the panic must abort. `realloc` moves memory that shrinks from above the largest block
/// to that size or below. Otherwise it keeps memory in place if it shrinks or still fits its
/// [`ksize`](crate::slab::SlabAllocator::ksize).
///
/// A free is refused if the address does not belong to the heap or is detected as free. A refused free is reported to
/// [`Promises::slab_error`](super::Promises::slab_error) and changes nothing. The [module](super#invalid-frees) lists
/// the invalid frees that are detected.
pub struct Heap<H: Cpu>(PhantomData<fn() -> H>);

impl<H: Cpu> Heap<H> {
    /// Creates the heap of the kernel that [`Cpu::kernel`] returns.
    pub const fn new() -> Heap<H> {
        Heap(PhantomData)
    }

    fn kernel(&self) -> &'static Kernel<H> {
        H::kernel()
    }

    fn alloc_with_flags(&self, layout: Layout, flags: Gfp) -> *mut u8 {
        let Some((engine, slab)) = self.kernel().engine().and_then(|engine| Some((engine, engine.slab()?))) else {
            return null_mut();
        };
        let task = H::task();
        if cfg!(debug_assertions) {
            self.expect_no_interrupt(task);
        }
        let gfp = if task.context == Context::Task { Gfp::KERNEL } else { Gfp::ATOMIC };
        if is_range::<H>(layout) {
            return self.alloc_range(layout, gfp | flags);
        }
        let mut retry = engine.retry(gfp | flags);
        loop {
            match alloc_object(slab, layout, gfp | flags) {
                Err(error) if retry.free_idle_once(error.into()) => {}
                answer => return answer.map_or(null_mut(), NonNull::as_ptr),
            }
        }
    }
}

impl<H: Cpu> Heap<H> {
    /// Panics if a request that may reclaim comes with interrupts off, in a kernel whose callbacks find memory. After a
    /// panic the check is off until a callback finds memory again, so that the handler of the panic can allocate.
    ///
    /// Interrupts that are off do not prove that the caller is an interrupt handler: they are also off at boot, and
    /// under a spin lock of the kernel. They matter only if a callback runs there that otherwise runs with interrupts
    /// on. So nothing is checked before a callback has found memory with interrupts on, and after one has found memory
    /// with interrupts off.
    fn expect_no_interrupt(&self, task: Task) {
        if task.context != Context::Task || task.memalloc || H::irqs_disabled() != Some(true) {
            return;
        }
        let worked = &self.kernel().callbacks_worked;
        let may_reclaim = !ReclaimScope::<H>::is_entered()
            && !worked.with_irqs_off.load(Relaxed)
            && worked.with_irqs_on.swap(false, Relaxed);
        assert!(
            !may_reclaim,
            "the heap may reclaim here with interrupts off, because `Promises::task` reports `Context::Task`; report \
             `Context::Hardirq` in interrupt handlers, and `Context::SoftirqsOff` in tasks with interrupts off"
        );
    }
}

/// Returns whether memory of a layout is a range of pages, because its size or alignment exceeds the largest block.
fn is_range<H: Cpu>(layout: Layout) -> bool {
    layout.size().max(layout.align()) > largest_block::<H>()
}

fn pages_of<H: Cpu>(layout: Layout) -> Option<u32> {
    layout.size().div_ceil(H::PAGE_SIZE as usize).try_into().ok()
}

impl<H: Cpu> Heap<H> {
    /// Allocates a range of pages. Returns null for an alignment of which the direct map is no multiple, if no range
    /// can be emptied, or if the flags do not allow reclaim.
    #[cold]
    fn alloc_range(&self, layout: Layout, gfp: Gfp) -> *mut u8 {
        let is_mapped = self.kernel().engine().is_some_and(|engine| engine.memory.keeps_alignment(layout.align()));
        let can_be_had = gfp.contains(Gfp::DIRECT_RECLAIM) && is_mapped;
        let pages = pages_of::<H>(layout).filter(|_| can_be_had);
        let place = Kernel::<H>::placement(layout.align() as u64, u64::MAX);
        let range = pages.and_then(|pages| self.kernel().alloc_contig_pages_at(gfp, pages, place).ok());
        range.map_or(null_mut(), |range| {
            let memory = range.as_ptr().as_ptr();
            range.into_raw();
            memory
        })
    }

    /// Frees the pages of a range except for the first `kept` ones, or reports that the free was refused.
    ///
    /// # Safety
    /// [`alloc_range`](Self::alloc_range) returned `memory` for this layout, and the pages to be freed are not in use.
    #[cold]
    unsafe fn free_range(&self, memory: *mut u8, layout: Layout, kept: u32) {
        let bug = match pages_of::<H>(layout) {
            Some(pages) if pages == kept => return,
            Some(pages) => self.free_pages_of_range(memory, kept..pages).err(),
            None => Some(SlabBug::Foreign),
        };
        if let Some(bug) = bug {
            report_refused::<H>(bug, memory);
        }
    }

    /// Frees these pages, numbered from the start of the range at an address.
    ///
    /// # Errors
    /// If the address is not that of a frame, or if one of the pages is free or not the heap's.
    fn free_pages_of_range(&self, memory: *mut u8, pages: Range<u32>) -> Result<(), SlabBug<'static>> {
        let engine = self.kernel().engine().ok_or(SlabBug::Foreign)?;
        let start = engine.memory.pfn(memory).ok_or(SlabBug::Foreign)?;
        let ends = start.checked_offset(pages.start).zip(start.checked_offset(pages.end));
        let (start, end) = ends.ok_or(SlabBug::Foreign)?;
        let freed = engine.pages.free_contig_range(start..end);
        freed.map_err(|error| match error {
            FreeError::NotAllocated { .. } => SlabBug::AlreadyFree,
            _ => SlabBug::Foreign,
        })
    }
}

impl<H: Cpu> Default for Heap<H> {
    fn default() -> Heap<H> {
        Heap::new()
    }
}

#[inline(always)]
fn alloc_object<H: Cpu>(slab: &SlabOf<H>, layout: Layout, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
    let (size, align) = (layout.size().max(1), layout.align());
    if align > OBJECT_ALIGN_MAX {
        return alloc_block(slab, size.max(align), gfp);
    }
    slab.kmalloc(if align <= align_of::<u64>() { size } else { aligned_size(slab, size, align) }, gfp)
}

/// Returns the bytes to request for `size` bytes, so that the object is aligned to `align`.
fn aligned_size<H: Cpu>(slab: &SlabOf<H>, size: usize, align: usize) -> usize {
    // A valid layout can be rounded up to its alignment without overflow.
    let multiple = size.next_multiple_of(align);
    let is_aligned = slab.size_of_request(multiple).is_multiple_of(align);
    if is_aligned { multiple } else { multiple.next_power_of_two() }
}

/// Allocates a block of pages, which is aligned to its size.
///
/// # Errors
/// If no block of pages is that large, or none is free.
fn alloc_block<H: Cpu>(slab: &SlabOf<H>, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
    let order = slab.block_order(size).ok_or(ObjectError::TooLarge { size })?;
    slab.alloc_block(order, gfp)
}

/// Reports a free that was refused before it reached the slab.
#[cold]
#[inline(never)]
pub(super) fn report_refused<H: Cpu>(bug: SlabBug<'_>, address: *const u8) {
    let address = address.addr() as u64;
    H::slab_error(&SlabReport { bug, cache: "kmalloc", address, damage: None, object: None, fix: Fix::NotFreed });
}

/// Returns the usable bytes of an object or block; `None` if the address belongs to neither.
fn bytes_of<H: Cpu>(slab: &SlabOf<H>, object: NonNull<u8>) -> Option<usize> {
    slab.object_bytes(object).or_else(|| slab.ksize(object).ok())
}

/// Largest alignment of an object, in bytes.
const OBJECT_ALIGN_MAX: usize = 4096;

// SAFETY: `kmalloc`, `alloc_block` and `alloc_range` return memory of at least the requested size that has no other
// owner until it is freed, and `alloc_object` achieves the alignment as described at the top of this file.
// `alloc_range` aligns the physical address, and `keeps_alignment` shows that the direct map preserves this.
unsafe impl<H: Cpu> GlobalAlloc for Heap<H> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.alloc_with_flags(layout, Gfp::empty())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.alloc_with_flags(layout, Gfp::ZERO)
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if is_range::<H>(layout) {
            // SAFETY: the caller frees memory that `alloc` returned for this layout, which is therefore from
            // `alloc_range`.
            return unsafe { self.free_range(object, layout, 0) };
        }
        if let (Some(object), Some(slab)) = (NonNull::new(object), self.kernel().slab()) {
            // SAFETY: the caller frees memory that `alloc` returned. If the free is refused, it has already been
            // reported.
            let _reported = unsafe { slab.kfree(object) };
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size`, rounded up to the alignment, does not exceed `isize::MAX`.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_range::<H>(layout)
            && is_range::<H>(wanted)
            && let Some(kept) = pages_of::<H>(wanted).filter(|&kept| Some(kept) <= pages_of::<H>(layout))
        {
            // SAFETY: `alloc` returned `object` for this layout, and the caller gives up the memory behind the new
            // size.
            unsafe { self.free_range(object, layout, kept) };
            return object;
        }
        let bytes = NonNull::new(object).zip(self.kernel().slab()).and_then(|(object, slab)| bytes_of(slab, object));
        if bytes.is_some_and(|bytes| size <= bytes) {
            return object;
        }
        // SAFETY: the caller promises that `size` is not 0.
        let new = unsafe { self.alloc(wanted) };
        if !new.is_null() {
            // SAFETY: both allocations have at least that many bytes, and they do not overlap because `new` is a new
            // one.
            unsafe { new.copy_from_nonoverlapping(object, layout.size().min(size)) };
            // SAFETY: the caller gives up the old memory, which `alloc` returned for this layout.
            unsafe { self.dealloc(object, layout) };
        }
        new
    }
}
