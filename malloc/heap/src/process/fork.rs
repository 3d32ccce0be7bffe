//! Handlers by which each fork of the program waits until no other thread is in a slow path.
//!
//! The C library calls the handlers before a fork in the reverse order of their registration, and those after it in the
//! order of registration. So these handlers must be the first ones: a handler of the program may wait for a thread that
//! allocates, and that thread waits while the gate is closed.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use super::{GATE, helper, pressure, profile};

/// Whether the handlers are registered.
static ARE_REGISTERED: AtomicBool = AtomicBool::new(false);

extern "C" fn before() {
    GATE.close();
}

extern "C" fn in_parent() {
    GATE.open();
}

extern "C" fn in_child() {
    GATE.open_in_child();
    helper::forget();
    profile::in_child();
    pressure::in_child();
}

/// Registers the handlers, once. They must be registered before the process has a second thread that allocates.
pub fn register_handlers() {
    if !ARE_REGISTERED.swap(true, Relaxed) {
        // SAFETY: the handlers are functions of this library, which is never unloaded, and they take no lock of the C
        // library.
        let _registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}
