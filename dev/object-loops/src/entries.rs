//! Malloc given as two function pointers. Every malloc is called in the same way, and no compiler can inline the call.

use std::ffi::c_void;

use crate::Objects;

/// Function that a thread calls when it starts or stops using a malloc.
pub type Hook = unsafe extern "C" fn();

/// Functions of a malloc.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    threads: Option<(Hook, Hook)>,
}

impl Entries {
    /// Creates the entries of a malloc that needs no calls at the start and end of threads.
    ///
    /// # Safety
    /// The two functions must behave like C's `malloc` and `free` on any thread, from now on.
    pub const unsafe fn new(
        malloc: unsafe extern "C" fn(usize) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void),
    ) -> Entries {
        Entries { malloc, free, threads: None }
    }

    /// Adds functions that a thread must call when it starts and when it stops using the malloc.
    ///
    /// # Safety
    /// Any thread but the first must be allowed to call both functions, in turn.
    pub const unsafe fn with_threads(self, begin: Hook, end: Hook) -> Entries {
        Entries { threads: Some((begin, end)), ..self }
    }
}

impl Objects for Entries {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut u8 {
        // SAFETY: `new` requires a function that behaves like C's `malloc`, which has no preconditions.
        unsafe { (self.malloc)(size) }.cast()
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: the caller promises that `malloc` of this allocator returned the object and that it has not been
        // freed. `new` requires a function that behaves like C's `free`, which accepts such objects.
        unsafe { (self.free)(object.cast()) }
    }

    fn enter_thread(&self) {
        if let Some((begin, _)) = self.threads {
            // SAFETY: `with_threads` requires a function that a thread may call when it starts.
            unsafe { begin() }
        }
    }

    fn leave_thread(&self) {
        if let Some((_, end)) = self.threads {
            // SAFETY: `with_threads` requires a function that a thread may call after `begin`, which `enter_thread`
            // called.
            unsafe { end() }
        }
    }
}
