//! A value that is written once, and read by everybody from then on: one flag to look at.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

/// The place for it.
#[derive(Debug)]
pub struct Published<T> {
    there: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: readers share the value by reference, which `T: Sync` allows, once it is there; `T: Send` because it may be
// written on one thread and dropped on another.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T: Copy> Published<T> {
    /// Nothing yet.
    pub fn nothing() -> Published<T> {
        Published { there: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the flag is set after the value was written, and the value stays as it is while anybody may read it.
        self.there.load(Ordering::Acquire).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Publishes a value.
    ///
    /// # Safety
    /// Nobody else publishes or withdraws meanwhile, and nobody has a reference to a value that was there before.
    pub unsafe fn set(&self, value: T) {
        // SAFETY: the caller is alone with it.
        unsafe { (*self.value.get()).write(value) };
        self.there.store(true, Ordering::Release);
    }

    /// Withdraws it.
    pub fn withdraw(&self) {
        self.there.store(false, Ordering::Release);
    }
}
