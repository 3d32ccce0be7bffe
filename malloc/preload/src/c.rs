//! The C library's allocation functions: `malloc`, `free` and related ones.
//!
//! Where the standards leave a choice, the functions behave as glibc's: a request for zero bytes returns a unique
//! address, `realloc` to zero bytes frees, and `free` preserves `errno`.

use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};

use freehold_malloc::process::site::forward_site;
use freehold_malloc::process::{self, ResizeOutcome, Site, natural_align, no_memory};

/// Sets `errno` to `EINVAL` for an invalid alignment, and returns null.
#[cold]
fn invalid() -> *mut u8 {
    set_errno(libc::EINVAL);
    null_mut()
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: `__errno_location` returns the address of the calling thread's own `errno`.
    unsafe { *libc::__errno_location() = error };
}

/// Allocates memory, or sets `errno` and returns null.
fn allocate(size: usize, align: usize, site: Site) -> *mut u8 {
    process::allocate(size, align, site).map_or_else(no_memory, |block| block.start.as_ptr())
}

/// C: `malloc`.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    process::malloc(size)
}

/// C: `free`.
///
/// # Safety
/// `object` is null or was returned by a function of this file, and it is not used any more.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut u8) {
    // SAFETY: the caller promises that the object came from this malloc and is not used any more.
    unsafe { process::free(object) }
}

/// C: `calloc`. Pages that are known to be zero are not written.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    process::calloc(count, size)
}

/// C: `realloc`.
///
/// # Safety
/// `object` is null or was returned by a function of this file. It is not used any more, unless the function returns
/// null for a `size` above 0.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut u8, size: usize) -> *mut u8 {
    if process::object_fits(object, size) {
        return object;
    }
    // SAFETY: the caller promises about the object what `realloc_for` demands.
    unsafe { realloc_elsewhere(object, size) }
}

forward_site! {
    /// Resizes an object that does not keep its place without further checks.
    fn realloc_elsewhere(object: *mut u8, size: usize) -> *mut u8, "rdx", "x2", realloc_for
}

/// Resizes an object for a call site.
///
/// # Safety
/// `object` is null or was returned by a function of this file. It is not used any more, unless the function returns
/// null for a `size` above 0.
unsafe extern "C" fn realloc_for(object: *mut u8, size: usize, site: Site) -> *mut u8 {
    let Some(start) = NonNull::new(object) else { return process::malloc_for(size, site) };
    if size == 0 {
        // SAFETY: the caller promises that the object came from this malloc and is not used any more.
        unsafe { process::free_for(object, site) };
        return null_mut();
    }
    // SAFETY: the caller promises that the object belongs to it, and does not use the old address if another one is
    // returned.
    match unsafe { process::resize(start, size, natural_align(size), site) } {
        Some(ResizeOutcome::InPlace) => object,
        Some(ResizeOutcome::Moved(new)) => new.as_ptr(),
        None => no_memory(),
    }
}

forward_site! {
    /// BSD: `reallocarray`.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pub fn reallocarray(object: *mut u8, count: usize, size: usize) -> *mut u8, "rcx", "x3", reallocarray_for
}

/// Resizes an object to an array of `count` elements for a call site.
///
/// # Safety
/// As for [`realloc`].
unsafe extern "C" fn reallocarray_for(object: *mut u8, count: usize, size: usize, site: Site) -> *mut u8 {
    // SAFETY: the caller promises the preconditions of `realloc`, which are those of `realloc_for`.
    count.checked_mul(size).map_or_else(no_memory, |bytes| unsafe { realloc_for(object, bytes, site) })
}

forward_site! {
    /// C: `aligned_alloc`.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pub fn aligned_alloc(align: usize, size: usize) -> *mut u8, "rdx", "x2", aligned_alloc_for
}

extern "C" fn aligned_alloc_for(align: usize, size: usize, site: Site) -> *mut u8 {
    if align.is_power_of_two() { allocate(size, align, site) } else { invalid() }
}

forward_site! {
    /// glibc: `memalign`, which rounds an alignment up to a power of two.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pub fn memalign(align: usize, size: usize) -> *mut u8, "rdx", "x2", memalign_for
}

extern "C" fn memalign_for(align: usize, size: usize, site: Site) -> *mut u8 {
    align.checked_next_power_of_two().map_or_else(invalid, |align| allocate(size, align, site))
}

forward_site! {
    /// POSIX: `posix_memalign`, which returns the error number and does not set `errno`.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pub fn posix_memalign(place: *mut *mut u8, align: usize, size: usize) -> c_int, "rcx", "x3", posix_memalign_for
}

/// Allocates aligned memory for a call site, and stores its address in `place`.
///
/// # Safety
/// `place` is valid for a write of an address.
unsafe extern "C" fn posix_memalign_for(place: *mut *mut u8, align: usize, size: usize, site: Site) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut u8>()) {
        return libc::EINVAL;
    }
    match process::allocate(size, align, site) {
        Some(block) => {
            // SAFETY: the caller promises that `place` is valid for a write of an address.
            unsafe { place.write(block.start.as_ptr()) };
            0
        }
        None => libc::ENOMEM,
    }
}

fn page_size() -> usize {
    freehold_malloc::os::mmap::page_size()
}

forward_site! {
    /// glibc: `valloc`.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pub fn valloc(size: usize) -> *mut u8, "rsi", "x1", valloc_for
}

extern "C" fn valloc_for(size: usize, site: Site) -> *mut u8 {
    allocate(size, page_size(), site)
}

forward_site! {
    /// glibc: `pvalloc`, which allocates whole pages.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pub fn pvalloc(size: usize) -> *mut u8, "rsi", "x1", pvalloc_for
}

extern "C" fn pvalloc_for(size: usize, site: Site) -> *mut u8 {
    size.max(1).checked_next_multiple_of(page_size()).map_or_else(no_memory, |size| allocate(size, page_size(), site))
}

/// glibc: `malloc_usable_size`, which returns 0 for null.
///
/// # Safety
/// `object` is null or was returned by a function of this file, and it is in use.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut u8) -> usize {
    // SAFETY: the caller promises that the object is null or belongs to it.
    unsafe { process::usable_size(object) }
}

/// C23: `free_sized`.
///
/// # Safety
/// As for [`free`].
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut u8, size: usize) {
    // SAFETY: the caller promises that the object came from this malloc and is not used any more.
    unsafe { process::free_sized(object, size) }
}

/// C23: `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut u8, _align: usize, size: usize) {
    // SAFETY: the caller promises that the object came from this malloc and is not used any more.
    unsafe { process::free_sized(object, size) }
}

/// Obsolete C libraries: `cfree`.
///
/// # Safety
/// As for [`free`].
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(object: *mut u8) {
    // SAFETY: the caller promises that the object came from this malloc and is not used any more.
    unsafe { process::free(object) }
}
