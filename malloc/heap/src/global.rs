//! The process's malloc as the global allocator of a Rust program.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

use crate::process::{self, ResizeOutcome, Site};

/// Freehold as the global allocator of a program.
///
/// All values of this type refer to the same [malloc of the process](crate::process), which is created by the first
/// request.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: freehold_malloc::Freehold = freehold_malloc::Freehold::new();
///
/// let words: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
/// assert_eq!(words[999], "999");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Freehold;

impl Freehold {
    /// Returns the allocator. Memory is reserved only by the first request.
    pub const fn new() -> Freehold {
        Freehold
    }
}

// SAFETY: a returned block belongs to the caller alone and has at least the size and alignment of the layout, and no
// method panics.
unsafe impl GlobalAlloc for Freehold {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        process::allocate(layout.size(), layout.align(), Site::UNKNOWN).map_or(null_mut(), |block| block.start.as_ptr())
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: `GlobalAlloc::dealloc` requires that `object` came from this allocator with this layout and is not
        // used again.
        unsafe { process::free_sized(object, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = process::allocate(layout.size(), layout.align(), Site::UNKNOWN);
        // SAFETY: the block was just allocated with `layout.size()` bytes, and only this function knows it.
        block.map_or(null_mut(), |block| unsafe { block.zeroed(layout.size()) })
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(start) = NonNull::new(object) else { return null_mut() };
        // SAFETY: `GlobalAlloc::realloc` requires that the caller owns the object, and that the caller no longer uses
        // the old address if another one is returned.
        match unsafe { process::resize(start, size, layout.align(), Site::UNKNOWN) } {
            Some(ResizeOutcome::InPlace) => object,
            Some(ResizeOutcome::Moved(new)) => new.as_ptr(),
            None => null_mut(),
        }
    }
}
