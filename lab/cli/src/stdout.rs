//! Whether stdout was open when the process began.
//!
//! The standard library opens `/dev/null` for a standard stream that it finds closed, before `main` and without a word,
//! so that `freehold compare >&-` would answer nobody and say that all went well. So we look before it does.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use freehold_report::output::OutputError;

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: before `main` nothing of the standard library may be relied on; this asks the kernel by one system call and
// stores the answer in an atomic.
#[ctor::ctor(unsafe)]
fn look() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    WAS_CLOSED.store(closed, Ordering::Relaxed);
}

/// Whether there is a stdout to answer to.
///
/// # Errors
/// When it was closed.
pub(crate) fn check() -> Result<(), OutputError> {
    match WAS_CLOSED.load(Ordering::Relaxed) {
        true => Err(OutputError::Stdout(io::Error::other("it is closed"))),
        false => Ok(()),
    }
}
