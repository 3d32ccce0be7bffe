//! Allocator whose caller uses its objects.

use std::hint::black_box;

use crate::Objects;

/// Allocator that writes the first byte of each object after the allocation, and reads it before the free.
///
/// An allocator that links free objects through their own memory brings objects into the cache. An allocator that keeps
/// their addresses elsewhere does not. The latter gains nothing if the caller uses the object, because then the caller
/// waits for memory instead.
#[derive(Clone, Copy, Debug)]
pub struct Touched<'o, O: ?Sized>(pub &'o O);

impl<O: Objects + ?Sized> Objects for Touched<'_, O> {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut u8 {
        let object = self.0.malloc(size);
        if !object.is_null() {
            // SAFETY: the allocator has just returned the object, and it has at least one byte, because no `Size` is
            // zero.
            unsafe { object.write_volatile(1) }
        }
        object
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: the object has not been freed, so its first byte is readable, and `malloc` initialised it. The caller
        // promises the requirements of `free`.
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

    /// Global allocator of the program, for objects of 16 bytes.
    struct Own;

    const LAYOUT: Layout = Layout::new::<u128>();

    impl Objects for Own {
        fn malloc(&self, size: usize) -> *mut u8 {
            assert_eq!(size, LAYOUT.size());
            // SAFETY: the size of the layout is not zero.
            unsafe { alloc_zeroed(LAYOUT) }
        }

        unsafe fn free(&self, object: *mut u8) {
            // SAFETY: `malloc` of this type allocated the object with this layout, and the caller frees it once.
            unsafe { dealloc(object, LAYOUT) }
        }
    }

    #[test]
    fn only_the_first_byte_is_written() {
        let object = Touched(&Own).malloc(16);
        // SAFETY: the object was allocated above with 16 zeroed bytes, so its first two bytes are readable. It is freed
        // once, with the allocator that returned it.
        unsafe {
            assert_eq!((object.read(), object.add(1).read()), (1, 0));
            Touched(&Own).free(object);
        }
    }
}
