//! Library to preload that implements C's malloc functions with rpmalloc. Each thread initialises rpmalloc at its first
//! allocation or free, and finalises it when the thread ends.

#[macro_use]
#[path = "../../surface.rs"]
mod surface;

use std::cell::Cell;
use std::sync::Once;

use rpmalloc_sys as rp;

/// Guard whose destructor finalises rpmalloc for the thread.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: `begin` initialised rpmalloc for this thread before it created this value. The thread is ending, so
        // it is finalised once.
        unsafe { rp::rpmalloc_thread_finalize() }
    }
}

std::thread_local! {
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
    static END: End = const { End };
}

fn begin() {
    static FIRST: Once = Once::new();
    if HAS_BEGUN.get() {
        return;
    }
    HAS_BEGUN.set(true);
    // SAFETY: `FIRST` runs `rpmalloc_initialize` before any other function of rpmalloc, and other threads wait for it.
    // `HAS_BEGUN` was false, so this is the first initialisation of this thread.
    unsafe {
        FIRST.call_once(|| _ = rp::rpmalloc_initialize());
        rp::rpmalloc_thread_initialize();
    }
    END.try_with(|_| ()).unwrap_or_default();
}

/// Calls `rpmalloc`, after initialising the thread.
///
/// # Safety
/// None beyond those of C's `malloc`, which has no preconditions.
unsafe fn malloc_of(size: usize) -> *mut c_void {
    begin();
    // SAFETY: `rpmalloc` requires an initialised thread, which `begin` ensures.
    unsafe { rp::rpmalloc(size) }
}

/// Calls `rpfree`, after initialising the thread.
///
/// # Safety
/// As for C's `free`.
unsafe fn free_of(object: *mut c_void) {
    begin();
    // SAFETY: `begin` initialised the thread, and the caller promises that the object may be freed.
    unsafe { rp::rpfree(object) }
}

/// Calls `rpcalloc`, after initialising the thread.
///
/// # Safety
/// None beyond those of C's `calloc`, which has no preconditions.
unsafe fn calloc_of(count: usize, size: usize) -> *mut c_void {
    begin();
    // SAFETY: `rpcalloc` requires an initialised thread, which `begin` ensures.
    unsafe { rp::rpcalloc(count, size) }
}

/// Calls `rprealloc`, after initialising the thread.
///
/// # Safety
/// As for C's `realloc`.
unsafe fn realloc_of(object: *mut c_void, size: usize) -> *mut c_void {
    begin();
    // SAFETY: `begin` initialised the thread, and the caller promises that the object may be reallocated.
    unsafe { rp::rprealloc(object, size) }
}

surface! {
    malloc: malloc_of,
    free: free_of,
    calloc: calloc_of,
    realloc: realloc_of,
    aligned: |align, size| {
        begin();
        rp::rpaligned_alloc(align, size)
    },
    usable: |object: *mut c_void| rp::rpmalloc_usable_size(object),
}
