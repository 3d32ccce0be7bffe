//! The process that the malloc belongs to.

use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

/// Number of the process that the malloc belongs to; 0 before its start.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Makes the calling process the owner if there is none yet, and returns whether that was so.
pub(super) fn claim_first() -> bool {
    OWNER.compare_exchange(0, process_id(), Relaxed, Relaxed).is_ok()
}

/// Makes the calling process, a forked child, the owner.
pub(super) fn claim() {
    OWNER.store(process_id(), Relaxed);
}

/// Returns whether the caller runs in the process of the malloc. That is not so in a child process of `vfork`, which
/// shares the memory of its parent, or of a raw `clone`, for which no handler ran.
pub fn is_own_process() -> bool {
    let owner = OWNER.load(Relaxed);
    owner == 0 || owner == process_id()
}

/// Returns the number of the calling process.
pub(super) fn process_id() -> i32 {
    // SAFETY: `getpid` takes no arguments and cannot fail.
    unsafe { libc::getpid() }
}
