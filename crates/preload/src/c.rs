//! malloc, free and their kin.
//!
//! Where the standards leave a choice, glibc's holds: a request for no bytes gets an address of its own, `realloc` to no
//! bytes frees, `free` keeps `errno`.

use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};

use freehold_malloc::process::{self, Resized, natural_align, no_memory};

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the place is the thread's own.
    unsafe { *libc::__errno_location() = error };
}

/// Memory, or null and `errno`.
pub(crate) fn allocate(size: usize, align: usize) -> *mut u8 {
    process::allocate(size, align).map_or_else(no_memory, |block| block.start.as_ptr())
}

/// C: `malloc`.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    process::malloc(size)
}

/// C: `free`.
///
/// # Safety
/// It is null, or what a function of this file gave, and nobody uses it any more.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut u8) {
    // SAFETY: the caller promises it.
    unsafe { process::free(object) }
}

/// C: `calloc`. What is known to be zero is not written.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else { return no_memory() };
    let Some(block) = process::allocate(bytes, natural_align(bytes)) else { return no_memory() };
    if !block.is_zero {
        // SAFETY: so many bytes are ours.
        unsafe { block.start.write_bytes(0, bytes) };
    }
    block.start.as_ptr()
}

/// C: `realloc`.
///
/// # Safety
/// As for [`free`], unless it returns null.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut u8, size: usize) -> *mut u8 {
    let Some(start) = NonNull::new(object) else { return malloc(size) };
    if size == 0 {
        // SAFETY: the caller promises it.
        unsafe { free(object) };
        return null_mut();
    }
    // SAFETY: the caller promises it.
    match unsafe { process::resize(start, size, natural_align(size)) } {
        Some(Resized::InPlace) => object,
        Some(Resized::Moved(new)) => new.as_ptr(),
        None => no_memory(),
    }
}

/// BSD: `reallocarray`.
///
/// # Safety
/// As for [`realloc`].
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(object: *mut u8, count: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller promises what `realloc` asks for.
    count.checked_mul(size).map_or_else(no_memory, |bytes| unsafe { realloc(object, bytes) })
}

/// C: `aligned_alloc`.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return null_mut();
    }
    allocate(size, align)
}

/// glibc: `memalign`, which rounds what is no power of two up.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut u8 {
    match align.checked_next_power_of_two() {
        Some(align) => allocate(size, align),
        None => {
            set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

/// POSIX: `posix_memalign`, which returns the error and leaves `errno` alone.
///
/// # Safety
/// An address can be written there.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut u8, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut u8>()) {
        return libc::EINVAL;
    }
    match process::allocate(size, align) {
        Some(block) => {
            // SAFETY: the caller promises that an address can be written there.
            unsafe { place.write(block.start.as_ptr()) };
            0
        }
        None => libc::ENOMEM,
    }
}

fn page_size() -> usize {
    freehold_malloc::os::mmap::page_size()
}

/// glibc: `valloc`.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut u8 {
    allocate(size, page_size())
}

/// glibc: `pvalloc`, which gives whole pages.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut u8 {
    size.max(1).checked_next_multiple_of(page_size()).map_or_else(no_memory, |size| allocate(size, page_size()))
}

/// glibc: `malloc_usable_size`, 0 for null.
///
/// # Safety
/// As for [`free`], but that it may be in use.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut u8) -> usize {
    // SAFETY: the caller has it.
    NonNull::new(object).map_or(0, |start| unsafe { process::usable(start) })
}

/// C23: `free_sized`.
///
/// # Safety
/// As for [`free`].
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut u8, _size: usize) {
    // SAFETY: the caller promises it.
    unsafe { process::free(object) }
}

/// C23: `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut u8, _align: usize, _size: usize) {
    // SAFETY: the caller promises it.
    unsafe { process::free(object) }
}

/// Old C: `cfree`.
///
/// # Safety
/// As for [`free`].
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(object: *mut u8) {
    // SAFETY: the caller promises it.
    unsafe { process::free(object) }
}
