//! The kernel's allocator as Rust's own: `Box`, `Vec` and the like.
//!
//! A request is one of `kmalloc`, whose sizes are multiples of the powers of two that divide them; so a request with a
//! larger alignment asks for a multiple of that, and if the size that serves it still is none, for a power of two. Up
//! to a page that gives every alignment. Above 32 KiB, or above a page of alignment, it is a block of pages, which is
//! aligned to its size; and above the largest block, 4 MiB, neighbouring pages, of any number.

use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use super::{Contig, Cpu, Kernel, SlabOf};
use crate::base::{Gfp, Order, Pfn};
use crate::platform::Context;
use crate::slab::ObjectError;

/// Rust's allocator for a kernel: `#[global_allocator] static HEAP: Heap<Hw> = Heap::new();`
///
/// Null before [`Kernel::init`], where there is no memory, and for an alignment above 4 MiB. In an interrupt handler,
/// if [`Promises::task`](super::Promises::task) tells it, nothing is reclaimed, and nothing above 4 MiB is to be had.
/// Memory that shrinks stays in its place, and so does memory that grows within what it has
/// ([`ksize`](crate::slab::SlabAllocator::ksize)). An address that is not its own, or free already as far as a look
/// tells, is reported to [`Promises::slab_error`](super::Promises::slab_error), and left alone; above 4 MiB only debug
/// builds notice.
pub struct Heap<H: Cpu>(PhantomData<fn() -> H>);

impl<H: Cpu> Heap<H> {
    /// That of [`Cpu::kernel`].
    pub const fn new() -> Heap<H> {
        Heap(PhantomData)
    }

    fn kernel(&self) -> &'static Kernel<H> {
        H::kernel()
    }

    fn take(&self, layout: Layout, flags: Gfp) -> *mut u8 {
        let Some((engine, slab)) = self.kernel().engine().and_then(|engine| Some((engine, engine.slab()?))) else {
            return null_mut();
        };
        let gfp = if H::task().context == Context::Task { Gfp::KERNEL } else { Gfp::ATOMIC };
        if is_range::<H>(layout) {
            return self.take_range(layout, gfp | flags);
        }
        let object = take(slab, layout, gfp | flags);
        let object = object.or_else(|error| engine.again(gfp, error, &|| take(slab, layout, gfp | flags)));
        object.map_or(null_mut(), NonNull::as_ptr)
    }
}

/// Whether memory of a layout is a range: it is larger than the largest block.
fn is_range<H: Cpu>(layout: Layout) -> bool {
    layout.size() > largest_block::<H>()
}

const fn largest_block<H: Cpu>() -> usize {
    (H::PAGE_SIZE as usize) << Order::MAX.get()
}

fn pages_of<H: Cpu>(layout: Layout) -> Option<u32> {
    layout.size().div_ceil(H::PAGE_SIZE as usize).try_into().ok()
}

impl<H: Cpu> Heap<H> {
    /// A range starts at a multiple of the largest block at least, and so does the direct map.
    #[cold]
    fn take_range(&self, layout: Layout, gfp: Gfp) -> *mut u8 {
        let pages = pages_of::<H>(layout).filter(|_| {
            let may_wait = gfp.contains(Gfp::DIRECT_RECLAIM);
            may_wait && layout.align() <= largest_block::<H>()
        });
        let range = pages.and_then(|pages| self.kernel().alloc_contig_pages(gfp, pages).ok());
        range.map_or(null_mut(), |range| {
            let memory = range.as_ptr().as_ptr();
            range.into_raw();
            memory
        })
    }

    /// # Safety
    /// It is what [`take_range`](Self::take_range) gave for this layout, and nobody uses it any more.
    #[cold]
    unsafe fn free_range(&self, memory: NonNull<u8>, layout: Layout) {
        let (Some(engine), Some(pages)) = (self.kernel().engine(), pages_of::<H>(layout)) else { return };
        let start: Pfn = engine.memory.pfn(memory);
        // SAFETY: the caller's promise: a range of as many pages begins there.
        drop(unsafe { Contig::<H>::from_raw(start..start.offset(pages)) });
    }
}

impl<H: Cpu> Heap<H> {
    /// Frees the pages behind those that are still wanted.
    ///
    /// # Safety
    /// It is a range of the first layout, of which nobody uses what the second does not have.
    unsafe fn shrink_range(&self, memory: *mut u8, layout: Layout, wanted: Layout) {
        let kept = wanted.size().next_multiple_of(H::PAGE_SIZE as usize);
        let rest = layout.size().saturating_sub(kept);
        if let (Some(rest), Some(tail)) =
            (Layout::from_size_align(rest, 1).ok(), NonNull::new(memory.wrapping_add(kept)))
            && rest.size() > 0
        {
            // SAFETY: the caller's promise: these are the last pages of a range.
            unsafe { self.free_range(tail, rest) };
        }
    }
}

impl<H: Cpu> Default for Heap<H> {
    fn default() -> Heap<H> {
        Heap::new()
    }
}

#[inline(always)]
fn take<H: Cpu>(slab: &SlabOf<H>, layout: Layout, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
    let (size, align) = (layout.size().max(1), layout.align());
    if align <= align_of::<u64>() {
        return slab.kmalloc(size, gfp);
    }
    if align > OBJECT_ALIGN_MAX {
        return take_block(slab, size.max(align), gfp);
    }
    // A layout leaves room for this.
    let multiple = size.next_multiple_of(align);
    let is_aligned = slab.size_of_request(multiple).is_multiple_of(align);
    slab.kmalloc(if is_aligned { multiple } else { multiple.next_power_of_two() }, gfp)
}

/// A block is aligned to its size.
fn take_block<H: Cpu>(slab: &SlabOf<H>, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
    let order = slab.block_order(size).ok_or(ObjectError::TooLarge { size })?;
    slab.alloc_block(order, gfp)
}

/// Bytes that memory has, if it is an object or a block.
fn bytes_of<H: Cpu>(slab: &SlabOf<H>, object: NonNull<u8>) -> Option<usize> {
    slab.object_bytes(object).or_else(|| slab.ksize(object).ok())
}

/// The largest alignment that an object has.
const OBJECT_ALIGN_MAX: usize = 4096;

// SAFETY: `kmalloc` gives memory of the size that is nobody else's, aligned as `take` sees to, until it is given back.
unsafe impl<H: Cpu> GlobalAlloc for Heap<H> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout, Gfp::empty())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.take(layout, Gfp::ZERO)
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if is_range::<H>(layout) {
            // SAFETY: the caller gives up what `alloc` gave it, for the same layout.
            return NonNull::new(object).map_or((), |memory| unsafe { self.free_range(memory, layout) });
        }
        if let (Some(object), Some(slab)) = (NonNull::new(object), self.kernel().slab()) {
            // SAFETY: the caller gives up what `alloc` gave it.
            let freed = unsafe { slab.kfree(object) };
            debug_assert_eq!(freed, Ok(()), "what was given back was not given out");
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, fits.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_range::<H>(layout) && is_range::<H>(wanted) && pages_of::<H>(wanted) <= pages_of::<H>(layout) {
            // SAFETY: the caller gives up what lies behind the wanted size.
            unsafe { self.shrink_range(object, layout, wanted) };
            return object;
        }
        let bytes = NonNull::new(object).zip(self.kernel().slab()).and_then(|(object, slab)| bytes_of(slab, object));
        if bytes.is_some_and(|bytes| size <= bytes) {
            return object;
        }
        // SAFETY: the caller promises that the layout has bytes.
        let new = unsafe { self.alloc(wanted) };
        if !new.is_null() {
            // SAFETY: both have as many bytes, and are not the same.
            unsafe { new.copy_from_nonoverlapping(object, layout.size().min(size)) };
            // SAFETY: the caller gives the old memory up, which is copied.
            unsafe { self.dealloc(object, layout) };
        }
        new
    }
}
