//! A shared value that is replaced while no thread has a reference to it.

use core::cell::UnsafeCell;

/// A value that many threads read and that one thread replaces.
#[derive(Debug)]
pub(crate) struct Published<T>(UnsafeCell<T>);

// SAFETY: readers share the value by reference, which `T: Sync` allows. The thread that replaces it has exclusive
// access, as `set` requires, and drops the old value, which `T: Send` allows.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Published<T> {
    /// Creates a cell with this value; readers see it from the start.
    pub(crate) const fn new(value: T) -> Published<T> {
        Published(UnsafeCell::new(value))
    }

    /// Returns the value that was published last.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: `set` requires that no reference exists during a replacement, so the value is not written while this
        // one lives.
        unsafe { &*self.0.get() }
    }

    /// Replaces the value.
    ///
    /// # Safety
    /// No other thread calls `set` concurrently, and no reference to the old value exists. A reference to the new value
    /// is created only after a synchronization that orders it behind this call.
    pub(crate) unsafe fn set(&self, value: T) {
        // SAFETY: the caller promises exclusive access to the value during the call.
        unsafe { *self.0.get() = value };
    }
}
