//! Wrapper of `prctl`, which restricts the malloc before the program installs a filter of system calls.
//!
//! An unprivileged program must first set `PR_SET_NO_NEW_PRIVS`, for which `prctl` is the only interface. The wrapper
//! does not see a raw `prctl` system call, or a raw `seccomp` of a privileged program. These need the option
//! `system-calls=few`. A child process of `vfork` or of a raw `clone` is not restricted: it may share the memory of its
//! parent.

use core::ffi::{c_int, c_ulong};

use freehold_malloc::process::{helper, owner, sandbox};

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
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) && owner::is_own_process() {
        sandbox::restrict();
        helper::stop();
    }
    // SAFETY: the caller promises the preconditions of the C library's function, which passes the same arguments on.
    let result = unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) };
    // The C library's `syscall` has already set `errno`.
    result as c_int
}
