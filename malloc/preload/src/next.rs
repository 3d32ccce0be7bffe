//! Addresses of wrapped functions of the C library, which the loader finds.

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
        // SAFETY: the name ends in a zero byte. The loader's lock can be taken here: the program calls this function,
        // or the first request of the malloc, before another thread can use the malloc.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Relaxed);
        address
    }
}
