//! A heap profile when the program asks for it: the one function of this library that no other malloc has.

use core::ffi::{CStr, c_char, c_int};

use freehold_malloc::process::profile;

use crate::c::set_errno;

/// Writes a heap profile under this name, or where `FREEHOLD_OPTIONS` says if it is null: 0, or -1 and `errno`.
///
/// # Safety
/// It is null, or a text that ends in zero.
// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_profile_dump(path: *const c_char) -> c_int {
    // SAFETY: the caller promises a text.
    let name = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
    match profile::write(name) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error.raw_os_error());
            -1
        }
    }
}
