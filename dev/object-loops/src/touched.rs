//! An allocator whose caller uses what he gets.

use std::hint::black_box;

use crate::Objects;

/// An allocator of whose objects the first byte is written when they come, and read before they go.
///
/// An allocator that links free objects through themselves brings them into the cache, and one that keeps their
/// addresses elsewhere does not. To a caller that uses the object that is no gain: then it is the caller that waits for
/// memory.
#[derive(Clone, Copy, Debug)]
pub struct Touched<'o, O: ?Sized>(pub &'o O);

impl<O: Objects + ?Sized> Objects for Touched<'_, O> {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut u8 {
        let object = self.0.malloc(size);
        if !object.is_null() {
            // SAFETY: the object is ours and has at least a byte, as every `Size` has.
            unsafe { object.write_volatile(1) }
        }
        object
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: the object is the caller's until it is freed, and its first byte was written above.
        unsafe {
            black_box(object.read_volatile());
            self.0.free(object);
        }
    }

    fn enter_thread(&self) {
        self.0.enter_thread();
    }

    fn leave_thread(&self) {
        self.0.leave_thread();
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::*;

    /// The program's own allocator, for objects of 16 bytes.
    struct Own;

    const LAYOUT: Layout = Layout::new::<u128>();

    impl Objects for Own {
        fn malloc(&self, size: usize) -> *mut u8 {
            assert_eq!(size, LAYOUT.size());
            // SAFETY: the layout has bytes.
            unsafe { alloc_zeroed(LAYOUT) }
        }

        unsafe fn free(&self, object: *mut u8) {
            // SAFETY: it was allocated above with this layout.
            unsafe { dealloc(object, LAYOUT) }
        }
    }

    #[test]
    fn the_first_byte_is_written() {
        let object = Touched(&Own).malloc(16);
        // SAFETY: the object is ours, all of it was set to zero, and it is freed once.
        unsafe {
            assert_eq!((object.read(), object.add(1).read()), (1, 0));
            Touched(&Own).free(object);
        }
    }
}
