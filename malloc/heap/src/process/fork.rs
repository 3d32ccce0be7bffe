//! Fork handlers. Before a fork they close the [gate](super::gate), which waits until no other thread is in a slow
//! path.
//!
//! They are registered first, so the C library calls them last before a fork, and first after it. A handler of the
//! program may therefore wait for a thread that allocates.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32};

use super::{GATE, helper, pressure, profile};

/// Whether the handlers are registered.
static ARE_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Process that the malloc belongs to; 0 before its start.
static OWNER: AtomicI32 = AtomicI32::new(0);

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

extern "C" fn before() {
    GATE.close();
}

extern "C" fn in_parent() {
    GATE.open();
}

extern "C" fn in_child() {
    OWNER.store(process_id(), Relaxed);
    GATE.open_in_child();
    helper::forget();
    profile::in_child();
    pressure::in_child();
}

/// Registers the handlers, once. They must be registered before the process has a second thread that allocates.
pub fn register_handlers() {
    if !ARE_REGISTERED.swap(true, Relaxed) {
        OWNER.store(process_id(), Relaxed);
        // SAFETY: the handlers are functions of this library, which is never unloaded, and they take no lock of the C
        // library. The registration takes locks of the C library and of the loader, and neither calls the malloc while
        // it waits for another thread.
        let _registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}
