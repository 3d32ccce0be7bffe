//! Leaving a namespace, which some processes may do only while they have one thread: the helper ends before.

use core::ffi::c_int;

use freehold_malloc::process::helper;

/// The system's result as C has it.
fn result(result: i64) -> c_int {
    // The C library's `syscall` has set `errno`.
    result as c_int
}

/// Linux: `unshare`.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    helper::stop();
    // SAFETY: the kernel looks at what it is given.
    result(unsafe { libc::syscall(libc::SYS_unshare, flags) })
}

/// Linux: `setns`.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn setns(file: c_int, kind: c_int) -> c_int {
    helper::stop();
    // SAFETY: the kernel looks at what it is given.
    result(unsafe { libc::syscall(libc::SYS_setns, file, kind) })
}
