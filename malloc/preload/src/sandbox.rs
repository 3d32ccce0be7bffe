//! Filters of system calls: before the program installs one, the malloc restricts itself to the system calls of every
//! malloc.
//!
//! A program without privileges has to set `PR_SET_NO_NEW_PRIVS` before it installs a filter. The kernel provides that
//! by `prctl` alone, so this function sees filters that are installed by `prctl`, by libseccomp or by a raw `seccomp`.
//! It does not see a raw `prctl`, or a raw `seccomp` of a privileged program. For those there is the option
//! `system-calls=few`.

use core::ffi::{c_int, c_ulong};

use freehold_malloc::process::{helper, sandbox};

/// Linux: `prctl`. In C it is variadic; on all supported platforms, variable arguments of this number are passed in the
/// same registers as named ones.
///
/// # Safety
/// As for the C library's function.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        sandbox::restrict();
        helper::stop();
    }
    // SAFETY: the caller promises the preconditions of the C library's function, which passes the same arguments on.
    let result = unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) };
    // The C library's `syscall` has already set `errno`.
    result as c_int
}
