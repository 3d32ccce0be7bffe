//! A value that everybody reads and that is replaced while nobody does.

use core::cell::UnsafeCell;

/// A value that one thread replaces while others read it.
#[derive(Debug)]
pub(crate) struct Published<T>(UnsafeCell<T>);

// SAFETY: readers share the value by reference, which `T: Sync` allows; the thread that replaces it is alone with it,
// as `set` demands, and drops the old one on its own thread, which `T: Send` allows.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Published<T> {
    /// A cell with this value; readers see it from the start.
    pub(crate) const fn new(value: T) -> Published<T> {
        Published(UnsafeCell::new(value))
    }

    /// The value as published last.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: nobody replaces it while there is a reference, as `set` demands.
        unsafe { &*self.0.get() }
    }

    /// Replaces it.
    ///
    /// # Safety
    /// Nobody else sets it meanwhile, and nobody has a reference to the value there was, or gets one to the new one
    /// before something has ordered the two.
    pub(crate) unsafe fn set(&self, value: T) {
        // SAFETY: the caller is alone with it.
        unsafe { *self.0.get() = value };
    }
}
