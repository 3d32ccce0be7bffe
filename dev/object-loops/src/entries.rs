//! A malloc as two functions, called by address: the same call for every malloc, which no compiler can see into.

use std::ffi::c_void;

use crate::Objects;

/// What a thread calls when it begins or ends to use a malloc.
pub type Hook = unsafe extern "C" fn();

/// The functions of a malloc.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    threads: Option<(Hook, Hook)>,
}

impl Entries {
    /// A malloc that asks nothing of threads.
    ///
    /// # Safety
    /// The two do what C's `malloc` and `free` do, on any thread, from now on.
    pub const unsafe fn new(
        malloc: unsafe extern "C" fn(usize) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void),
    ) -> Entries {
        Entries { malloc, free, threads: None }
    }

    /// The same for a malloc that wants to be called when a thread begins to use it, and when it ends.
    ///
    /// # Safety
    /// Both may be called on any thread but the first, in turn.
    pub const unsafe fn with_threads(self, begin: Hook, end: Hook) -> Entries {
        Entries { threads: Some((begin, end)), ..self }
    }
}

impl Objects for Entries {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut u8 {
        // SAFETY: the maker of this promised a function that does what C's does.
        unsafe { (self.malloc)(size) }.cast()
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { (self.free)(object.cast()) }
    }

    fn enter_thread(&self) {
        if let Some((begin, _)) = self.threads {
            // SAFETY: the maker of this promised that a thread may begin with it.
            unsafe { begin() }
        }
    }

    fn leave_thread(&self) {
        if let Some((_, end)) = self.threads {
            // SAFETY: as above; `enter_thread` came before.
            unsafe { end() }
        }
    }
}
