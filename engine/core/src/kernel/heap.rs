//! The kernel's allocator as Rust's own: `Box`, `Vec` and the like.
//!
//! A request is one of `kmalloc`, whose sizes are multiples of the powers of two that divide them; so a request with a
//! larger alignment asks for a multiple of that, and if the size that serves it still is none, for a power of two. Up
//! to a page that gives every alignment. Above 32 KiB, or above a page of alignment, it is a block of pages, which is
//! aligned to its size; and above the largest block, 4 MiB, neighbouring pages, of any number.

use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};

use super::pages::largest_block;
use super::{Cpu, Kernel, SlabOf};
use crate::base::Gfp;
use crate::page::FreeError;
use crate::platform::report::{Fix, SlabBug};
use crate::platform::{Context, SlabReport};
use crate::slab::ObjectError;

/// Rust's allocator for a kernel: `#[global_allocator] static HEAP: Heap<Hw> = Heap::new();`
///
/// Null before [`Kernel::init`], where there is no memory, and for an alignment above 4 MiB. In an interrupt handler,
/// if [`Promises::task`](super::Promises::task) tells it, nothing is reclaimed, and nothing above 4 MiB is to be had.
/// Memory that shrinks stays in its place, and so does memory that grows within what it has
/// ([`ksize`](crate::slab::SlabAllocator::ksize)). A free that is refused, since the address is not the heap's or is
/// noticed to be free, is reported to [`Promises::slab_error`](super::Promises::slab_error), and changes nothing; the
/// [module](super#frees-that-are-wrong) lists what is noticed.
pub struct Heap<H: Cpu>(PhantomData<fn() -> H>);

impl<H: Cpu> Heap<H> {
    /// That of [`Cpu::kernel`].
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
        let gfp = if H::task().context == Context::Task { Gfp::KERNEL } else { Gfp::ATOMIC };
        if is_range::<H>(layout) {
            return self.alloc_range(layout, gfp | flags);
        }
        let at_first = alloc_object(slab, layout, gfp | flags);
        let object = at_first.or_else(|error| engine.again(gfp, error, &|| alloc_object(slab, layout, gfp | flags)));
        object.map_or(null_mut(), NonNull::as_ptr)
    }
}

/// Whether memory of a layout is a range: it is larger than the largest block.
fn is_range<H: Cpu>(layout: Layout) -> bool {
    layout.size() > largest_block::<H>()
}

fn pages_of<H: Cpu>(layout: Layout) -> Option<u32> {
    layout.size().div_ceil(H::PAGE_SIZE as usize).try_into().ok()
}

impl<H: Cpu> Heap<H> {
    /// A range starts at a multiple of the largest block at least, and so does the direct map.
    #[cold]
    fn alloc_range(&self, layout: Layout, gfp: Gfp) -> *mut u8 {
        let can_be_had = gfp.contains(Gfp::DIRECT_RECLAIM) && layout.align() <= largest_block::<H>();
        let pages = pages_of::<H>(layout).filter(|_| can_be_had);
        let range = pages.and_then(|pages| self.kernel().alloc_contig_pages(gfp, pages).ok());
        range.map_or(null_mut(), |range| {
            let memory = range.as_ptr().as_ptr();
            range.into_raw();
            memory
        })
    }

    /// Frees the pages of a range behind the first `kept`, or reports that they are none.
    ///
    /// # Safety
    /// It is what [`alloc_range`](Self::alloc_range) gave for this layout, and these pages are not in use any more.
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

    /// Frees these pages of the range that begins at an address.
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
    if align <= align_of::<u64>() {
        return slab.kmalloc(size, gfp);
    }
    if align > OBJECT_ALIGN_MAX {
        return alloc_block(slab, size.max(align), gfp);
    }
    // A layout leaves room for this.
    let multiple = size.next_multiple_of(align);
    let is_aligned = slab.size_of_request(multiple).is_multiple_of(align);
    slab.kmalloc(if is_aligned { multiple } else { multiple.next_power_of_two() }, gfp)
}

/// A block is aligned to its size.
fn alloc_block<H: Cpu>(slab: &SlabOf<H>, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
    let order = slab.block_order(size).ok_or(ObjectError::TooLarge { size })?;
    slab.alloc_block(order, gfp)
}

/// Reports a free that was refused before the slab saw it.
#[cold]
#[inline(never)]
pub(super) fn report_refused<H: Cpu>(bug: SlabBug<'_>, address: *const u8) {
    let address = address.addr() as u64;
    H::slab_error(&SlabReport { bug, cache: "kmalloc", address, damage: None, object: None, fix: Fix::NotFreed });
}

/// Bytes that memory has, if it is an object or a block.
fn bytes_of<H: Cpu>(slab: &SlabOf<H>, object: NonNull<u8>) -> Option<usize> {
    slab.object_bytes(object).or_else(|| slab.ksize(object).ok())
}

/// The largest alignment that an object has.
const OBJECT_ALIGN_MAX: usize = 4096;

// SAFETY: `kmalloc` gives memory of the size that is nobody else's, aligned as `alloc_object` sees to, until it is
// given back.
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
            // SAFETY: the caller gives up what `alloc` gave it, for the same layout.
            return unsafe { self.free_range(object, layout, 0) };
        }
        if let (Some(object), Some(slab)) = (NonNull::new(object), self.kernel().slab()) {
            // SAFETY: the caller gives up what `alloc` gave it. If that is refused, the report was all there is to do.
            let _reported = unsafe { slab.kfree(object) };
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, fits.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_range::<H>(layout)
            && is_range::<H>(wanted)
            && let Some(kept) = pages_of::<H>(wanted).filter(|&kept| Some(kept) <= pages_of::<H>(layout))
        {
            // SAFETY: the caller gives up what lies behind the wanted size.
            unsafe { self.free_range(object, layout, kept) };
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
