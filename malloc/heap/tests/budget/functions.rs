//! The process's malloc under the functions of the C library, without hardening and without a profile.
//!
//! `calloc` is not counted, since the C library's `memset` differs between processors.

use std::hint::black_box;
use std::ptr::null_mut;

use freehold_malloc::process::{self, Site, natural_align};

use crate::counts::Counts;
use crate::step::Trace;

/// A measured function. It gets an object of [`SIZE`] bytes that it may free.
type Act = fn(*mut u8) -> *mut u8;

/// Bytes of the objects: a size with its own cache, so that a request of one byte less is served in place as well.
const SIZE: usize = 64;

/// Operations before the measured one.
const WARM: usize = 100;

/// Functions in the order of the table, by their names in C.
pub(crate) const FUNCTIONS: [(&str, Act); 6] = [
    ("malloc", malloc),
    ("free", free),
    ("free_sized", free_sized),
    ("malloc_usable_size", usable_size),
    ("realloc in place", realloc),
    ("aligned_alloc", aligned_alloc),
];

/// Counts the instructions of a function on the current CPU.
pub(crate) fn counts(act: Act) -> Counts {
    for _ in 0..WARM {
        free(aligned_alloc(null_mut()));
    }
    let object = malloc(null_mut());
    let trace = Trace::record(act as *const (), || _ = black_box(act(black_box(object))));
    Counts::from_trace(&trace)
}

#[inline(never)]
fn malloc(_: *mut u8) -> *mut u8 {
    process::malloc(black_box(SIZE))
}

#[inline(never)]
fn free(object: *mut u8) -> *mut u8 {
    // SAFETY: callers pass an allocated object that is not used any more.
    unsafe { process::free(object) };
    object
}

#[inline(never)]
fn free_sized(object: *mut u8) -> *mut u8 {
    // SAFETY: callers pass an allocated object of `SIZE` bytes that is not used any more.
    unsafe { process::free_sized(object, SIZE) };
    object
}

#[inline(never)]
fn usable_size(object: *mut u8) -> *mut u8 {
    // SAFETY: callers pass an allocated object.
    null_mut::<u8>().wrapping_add(unsafe { process::usable_size(object) })
}

#[inline(never)]
fn realloc(object: *mut u8) -> *mut u8 {
    if process::object_fits(object, black_box(SIZE - 1)) { object } else { null_mut() }
}

#[inline(never)]
fn aligned_alloc(_: *mut u8) -> *mut u8 {
    let size = black_box(SIZE);
    process::allocate(size, natural_align(size), Site::UNKNOWN).map_or(null_mut(), |block| block.start.as_ptr())
}
