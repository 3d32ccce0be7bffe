//! A consistency check at the program's request.

use core::ffi::c_int;
use core::fmt::Write;

use freehold_malloc::os::platform::StandardError;
use freehold_malloc::process::check;

/// Checks the tables of the malloc. Returns 0, or -1 after it has written the first violation to standard error.
///
/// # Safety
/// No other thread allocates or frees meanwhile.
// SAFETY: the name begins with this library's prefix, so no other library defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_check() -> c_int {
    // SAFETY: the caller promises that no other thread allocates or frees.
    match unsafe { check::check() } {
        Ok(()) => 0,
        Err(violation) => {
            let _written = writeln!(StandardError, "freehold: check: {violation}");
            -1
        }
    }
}
