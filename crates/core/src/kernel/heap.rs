//! The kernel's allocator as Rust's own: `Box`, `Vec` and the like.
//!
//! A request is one of `kmalloc`, whose sizes are multiples of the powers of two that divide them; so a request with a
//! larger alignment asks for a multiple of that, and if the size that serves it still is none, for a power of two. Up
//! to a page that gives every alignment. Above 32 KiB, or above a page of alignment, it is a block of pages, which is
//! aligned to its size: at most 4 MiB.

use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use super::{Cpu, Engine, Kernel};
use crate::base::Gfp;
use crate::platform::Context;
use crate::slab::ObjectError;

/// Rust's allocator for a kernel: `#[global_allocator] static HEAP: Heap<Hw> = Heap::new();`
///
/// Null before [`Kernel::init`], where there is no memory, and for what no block of pages holds. In an interrupt
/// handler, if [`Promises::task`](super::Promises::task) tells it, nothing is reclaimed. Memory that shrinks stays in
/// its place, and so does memory that grows within what it has ([`ksize`](crate::slab::SlabAllocator::ksize)). An
/// address that is not its own, or free already as far as a look tells, is reported to
/// [`Promises::slab_error`](super::Promises::slab_error), and left alone.
#[derive(Debug)]
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
        let Some(engine) = self.kernel().engine() else { return null_mut() };
        let gfp = if H::task().context == Context::Task { Gfp::KERNEL } else { Gfp::ATOMIC };
        engine.insist(gfp, || engine.take(layout, gfp | flags)).map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<H: Cpu> Default for Heap<H> {
    fn default() -> Heap<H> {
        Heap::new()
    }
}

impl<H: Cpu> Engine<H> {
    #[inline(always)]
    fn take(&self, layout: Layout, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        let (size, align) = (layout.size().max(1), layout.align());
        if align <= align_of::<u64>() {
            return self.slab.kmalloc(size, gfp);
        }
        if align > OBJECT_ALIGN_MAX {
            return self.take_block(size.max(align), gfp);
        }
        // A layout leaves room for this.
        let multiple = size.next_multiple_of(align);
        let is_aligned = self.slab.size_of_request(multiple).is_multiple_of(align);
        self.slab.kmalloc(if is_aligned { multiple } else { multiple.next_power_of_two() }, gfp)
    }

    /// A block is aligned to its size.
    fn take_block(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        let order = self.slab.block_order(size).ok_or(ObjectError::TooLarge { size })?;
        self.slab.alloc_block(order, gfp)
    }

    /// Bytes that memory has, if it is an object or a block.
    fn bytes_of(&self, object: NonNull<u8>) -> Option<usize> {
        self.slab.object_bytes(object).or_else(|| self.slab.ksize(object).ok())
    }
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
    unsafe fn dealloc(&self, object: *mut u8, _: Layout) {
        if let (Some(object), Some(engine)) = (NonNull::new(object), self.kernel().engine()) {
            // SAFETY: the caller gives up what `alloc` gave it.
            let freed = unsafe { engine.slab.kfree(object) };
            debug_assert_eq!(freed, Ok(()), "what was given back was not given out");
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let bytes =
            NonNull::new(object).zip(self.kernel().engine()).and_then(|(object, engine)| engine.bytes_of(object));
        if bytes.is_some_and(|bytes| size <= bytes) {
            return object;
        }
        // SAFETY: the caller promises that the size, rounded up to the alignment, fits.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have as many bytes, and are not the same.
            unsafe { new.copy_from_nonoverlapping(object, layout.size().min(size)) };
            // SAFETY: the caller gives the old memory up, which is copied.
            unsafe { self.dealloc(object, layout) };
        }
        new
    }
}
