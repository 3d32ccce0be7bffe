//! A Rust program's allocator: the process's malloc.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

use crate::process::{self, ResizeOutcome, Site};

/// Freehold as the program's allocator.
///
/// All values of this type are one: the [malloc of the process](crate::process), which the first request makes.
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
    /// The allocator, which takes nothing before it is asked.
    pub const fn new() -> Freehold {
        Freehold
    }
}

// SAFETY: what is handed out is nobody else's, as large and as aligned as was asked for; no method panics.
unsafe impl GlobalAlloc for Freehold {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        process::allocate(layout.size(), layout.align(), Site::UNKNOWN).map_or(null_mut(), |block| block.start.as_ptr())
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: the caller gives back what it got.
        unsafe { process::free_sized(object, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(block) = process::allocate(layout.size(), layout.align(), Site::UNKNOWN) else { return null_mut() };
        if !block.is_zero {
            // SAFETY: so many bytes are ours.
            unsafe { block.start.write_bytes(0, layout.size()) };
        }
        block.start.as_ptr()
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(start) = NonNull::new(object) else { return null_mut() };
        // SAFETY: the caller has it, and uses the old one no more if another is returned.
        match unsafe { process::resize(start, size, layout.align(), Site::UNKNOWN) } {
            Some(ResizeOutcome::InPlace) => object,
            Some(ResizeOutcome::Moved(new)) => new.as_ptr(),
            None => null_mut(),
        }
    }
}
