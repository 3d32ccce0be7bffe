//! Library to preload that implements C's malloc functions with snmalloc.

#[macro_use]
#[path = "../../surface.rs"]
mod surface;

use snmalloc_sys as sn;

surface! {
    malloc: sn::sn_malloc,
    free: sn::sn_free,
    calloc: sn::sn_calloc,
    realloc: sn::sn_realloc,
    aligned: |align, size| sn::sn_rust_alloc(align, size),
    usable: |object: *mut c_void| sn::sn_malloc_usable_size(object),
}
