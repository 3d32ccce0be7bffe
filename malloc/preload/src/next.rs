//! Functions of the C library that this library wraps.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

/// A function of the next library that exports its name.
pub(crate) struct NextSymbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl NextSymbol {
    pub(crate) const fn new(name: &'static CStr) -> NextSymbol {
        NextSymbol { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Returns the address of the function; null if no library exports it yet.
    pub(crate) fn find(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends in a zero byte. The loader's lock can be taken here, because only the program calls
        // this function, and not within a slow path.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Relaxed);
        address
    }
}
