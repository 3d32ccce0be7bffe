//! Trait of the allocators that are timed: they allocate objects and free them.

/// Allocator of objects.
///
/// The loops compile to the same machine code only for allocators that implement the trait in the same way. So
/// allocators that are compared must all be [`Entries`](crate::Entries), or all be `dyn Objects`.
pub trait Objects: Sync {
    /// Allocates an object of `size` bytes. Returns null if there is no memory.
    fn malloc(&self, size: usize) -> *mut u8;

    /// Frees an object.
    ///
    /// # Safety
    /// [`malloc`](Self::malloc) of this allocator must have returned the object, which must not be null and must not
    /// have been freed.
    unsafe fn free(&self, object: *mut u8);

    /// Called by the second thread of a loop with two threads before it uses the allocator.
    fn enter_thread(&self) {}

    /// Called by that thread when it no longer uses the allocator.
    fn leave_thread(&self) {}
}
