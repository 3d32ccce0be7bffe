//! Restriction to a short list of system calls, for programs under a filter of system calls (seccomp).
//!
//! A filter may kill a process for a system call that the program itself never makes. A process cannot ask the kernel
//! about its filter without a system call that the filter may forbid. So the restriction begins when the program
//! announces a filter ([`restrict`]), or at the start by the option `system-calls=few`, and does not end. From then on
//! the malloc calls `mmap`, `munmap`, `madvise`, `mprotect`, `futex`, `sched_yield` and `getrandom` only, and
//! `write` for a report before the program is terminated:
//!
//! - No file is opened, so the control group's limit is not known.
//! - CPUs are not fenced (`membarrier`), so objects that are cached on CPUs stay there. A heap of locks needs no fence.
//! - The helper does not start; frees return memory. A helper that runs is ended by the caller of [`restrict`].
//! - Neither statistics nor profiles are written at exit.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::SeqCst;

static IS_RESTRICTED: AtomicBool = AtomicBool::new(false);

/// Restricts the malloc. The caller then ends the helper if it runs.
pub fn restrict() {
    IS_RESTRICTED.store(true, SeqCst);
}

/// Returns whether the malloc makes only these system calls.
#[inline]
pub fn is_restricted() -> bool {
    IS_RESTRICTED.load(SeqCst)
}
