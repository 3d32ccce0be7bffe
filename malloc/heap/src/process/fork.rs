//! Fork handlers. Before a fork they close the gate, which waits until no other thread is in a slow path.
//!
//! They are registered first, so the C library calls them last before a fork, and first after it. A handler of the
//! program may therefore wait for a thread that allocates.

use super::{GATE, helper, owner, pressure, profile};

extern "C" fn before() {
    GATE.close();
}

extern "C" fn in_parent() {
    GATE.open();
}

extern "C" fn in_child() {
    owner::claim();
    GATE.open_in_child();
    helper::forget();
    profile::in_child();
    pressure::in_child();
}

/// Registers the handlers, once. They must be registered before the process has a second thread that allocates.
pub fn register_handlers() {
    if owner::claim_first() {
        // SAFETY: the handlers are functions of this library, which is never unloaded, and they take no lock of the C
        // library. The registration takes locks of the C library and of the loader, and neither calls the malloc while
        // it waits for another thread.
        let _registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}
