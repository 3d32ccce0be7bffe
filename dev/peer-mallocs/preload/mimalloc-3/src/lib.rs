//! Library to preload that implements C's malloc functions with mimalloc 3.

#[macro_use]
#[path = "../../surface.rs"]
mod surface;

use libmimalloc_sys as mi;

surface! {
    malloc: mi::mi_malloc,
    free: mi::mi_free,
    calloc: mi::mi_calloc,
    realloc: mi::mi_realloc,
    aligned: |align, size| mi::mi_malloc_aligned(size, align),
    usable: |object: *mut c_void| mi::mi_usable_size(object),
}
