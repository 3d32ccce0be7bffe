//! An allocator that is timed: anything that hands out objects and takes them back.

/// An allocator of objects.
///
/// The loops are the same machine code for all types that implement it in the same way; so those to be compared do:
/// all as [`Entries`](crate::Entries), or all as `dyn Objects`.
pub trait Objects: Sync {
    /// An object of `size` bytes, or null when there is none.
    fn malloc(&self, size: usize) -> *mut u8;

    /// Takes an object back.
    ///
    /// # Safety
    /// [`malloc`](Self::malloc) of this very allocator handed the object out, not as null, and nobody has freed it.
    unsafe fn free(&self, object: *mut u8);

    /// A thread begins to use the allocator: the second one of a loop that has two.
    fn enter_thread(&self) {}

    /// The same thread uses it no more.
    fn leave_thread(&self) {}
}
