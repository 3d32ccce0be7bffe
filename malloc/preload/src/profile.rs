//! A heap profile at the program's request.

use core::ffi::{CStr, c_char, c_int};

use freehold_malloc::process::profile;

use crate::c::set_errno;

/// Writes a heap profile to the file `path`, or to the file that `FREEHOLD_OPTIONS` names if `path` is null. Returns 0,
/// or -1 and sets `errno`.
///
/// # Safety
/// `path` is null, or a string that ends in a zero byte.
// SAFETY: the name begins with this library's prefix, so no other library defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_profile_dump(path: *const c_char) -> c_int {
    // SAFETY: `path` is not null, so the caller promises that it is a string that ends in a zero byte.
    let name = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
    match profile::write(name) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error.raw_os_error());
            -1
        }
    }
}
