//! rpmalloc as a library to preload: each thread begins with it when it first asks, and ends with it when it ends.

#[macro_use]
#[path = "../../surface.rs"]
mod surface;

use std::cell::Cell;
use std::sync::Once;

use rpmalloc_sys as rp;

/// Ends a thread's part.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: the thread began with it, and ends.
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
    // SAFETY: once, before anything else of it; then for each thread.
    unsafe {
        FIRST.call_once(|| _ = rp::rpmalloc_initialize());
        rp::rpmalloc_thread_initialize();
    }
    END.try_with(|_| ()).unwrap_or_default();
}

/// The package's, on a thread that has begun.
///
/// # Safety
/// As C's.
unsafe fn malloc_of(size: usize) -> *mut c_void {
    begin();
    // SAFETY: asks for memory alone.
    unsafe { rp::rpmalloc(size) }
}

/// The package's, on a thread that has begun.
///
/// # Safety
/// As C's.
unsafe fn free_of(object: *mut c_void) {
    begin();
    // SAFETY: the caller promises it.
    unsafe { rp::rpfree(object) }
}

/// The package's, on a thread that has begun.
///
/// # Safety
/// As C's.
unsafe fn calloc_of(count: usize, size: usize) -> *mut c_void {
    begin();
    // SAFETY: asks for memory alone.
    unsafe { rp::rpcalloc(count, size) }
}

/// The package's, on a thread that has begun.
///
/// # Safety
/// As C's.
unsafe fn realloc_of(object: *mut c_void, size: usize) -> *mut c_void {
    begin();
    // SAFETY: the caller promises it.
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
