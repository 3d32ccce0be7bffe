//! Check that stdout was open when the process began.
//!
//! The standard library silently opens `/dev/null` for a standard stream that is closed, before `main`. Without this
//! check, `freehold compare >&-` would write its answer nowhere and report success. So a constructor checks stdout
//! before the standard library does.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use freehold_report::output::OutputError;

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: code before `main` must not rely on the standard library being initialized. This function makes one system
// call without the standard library, and stores the result in an atomic.
#[ctor::ctor(unsafe)]
fn look() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    WAS_CLOSED.store(closed, Ordering::Relaxed);
}

/// Checks that stdout was open when the process began.
///
/// # Errors
/// If stdout was closed.
pub(crate) fn check() -> Result<(), OutputError> {
    match WAS_CLOSED.load(Ordering::Relaxed) {
        true => Err(OutputError::Stdout(io::Error::other("stdout is closed"))),
        false => Ok(()),
    }
}
