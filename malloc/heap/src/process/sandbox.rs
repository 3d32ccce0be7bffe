//! Restriction to the system calls that every malloc makes, for programs under a filter of system calls (seccomp).
//!
//! A filter may kill a process for a system call that the program itself never makes. The kernel offers no question
//! about filters that every filter allows. So the restriction begins when the program announces a filter
//! ([`restrict`]), or at the start by the option `system-calls=few`, and does not end. From then on the malloc calls
//! `mmap`, `munmap`, `madvise`, `mprotect`, `futex`, `sched_yield` and `getrandom` only:
//!
//! - No file is opened, so the control group's limit is not known.
//! - CPUs are not fenced (`membarrier`), so objects that are cached on CPUs stay there. A heap of locks needs no fence.
//! - The helper does not start; frees return memory. A helper that runs is ended by the caller of [`restrict`].
//! - Neither statistics nor profiles are written at exit.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

static IS_RESTRICTED: AtomicBool = AtomicBool::new(false);

/// Restricts the malloc. The caller then ends the helper if it runs.
pub fn restrict() {
    IS_RESTRICTED.store(true, Relaxed);
}

/// Returns whether the malloc makes only the system calls of every malloc.
#[inline]
pub fn is_restricted() -> bool {
    IS_RESTRICTED.load(Relaxed)
}
