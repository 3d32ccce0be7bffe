//! Changes of namespaces. Some of them are allowed only in a process with one thread, so the helper ends first.

use core::ffi::c_int;

use freehold_malloc::process::helper;

/// Converts the result of a system call to C's type.
fn result(result: i64) -> c_int {
    // The C library's `syscall` has already set `errno`.
    result as c_int
}

/// Linux: `unshare`.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    helper::stop();
    // SAFETY: `unshare` takes no pointer, and the kernel checks its argument.
    result(unsafe { libc::syscall(libc::SYS_unshare, flags) })
}

/// Linux: `setns`.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn setns(file: c_int, kind: c_int) -> c_int {
    helper::stop();
    // SAFETY: `setns` takes no pointer, and the kernel checks its arguments.
    result(unsafe { libc::syscall(libc::SYS_setns, file, kind) })
}
