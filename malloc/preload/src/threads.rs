//! Thread creation: after the program has created a thread of its own, the helper starts.
//!
//! The helper starts in the caller's context when the real call has returned: the caller holds no lock there that the
//! creation of a second thread would need. Threads that the C library creates for itself (timers with `SIGEV_THREAD`,
//! asynchronous I/O), threads of raw `clone`, and callers that do not find these functions (`RTLD_DEEPBIND`, another
//! namespace of the loader) do not start it.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use freehold_malloc::process::helper;

/// C: `thrd_success` and `thrd_error` of glibc.
const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;

type Body = Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>;
type PthreadCreate =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Body, *mut c_void) -> c_int;
type ThrdBody = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
type ThrdCreate = unsafe extern "C" fn(*mut libc::pthread_t, ThrdBody, *mut c_void) -> c_int;

/// A function of the next library that has its name.
struct NextSymbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

static PTHREAD_CREATE: NextSymbol = NextSymbol::new(c"pthread_create");
static THRD_CREATE: NextSymbol = NextSymbol::new(c"thrd_create");

impl NextSymbol {
    const fn new(name: &'static CStr) -> NextSymbol {
        NextSymbol { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Address of the function; null if no library has it yet.
    fn find(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends in zero. The loader's lock can be taken: only the program calls this, within no slow
        // path.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Relaxed);
        address
    }
}

/// Finds both functions before the program has threads, so that later calls do not take the loader's lock.
pub(crate) fn prepare() {
    PTHREAD_CREATE.find();
    THRD_CREATE.find();
}

/// POSIX: `pthread_create`.
///
/// # Safety
/// As for the C library's.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    body: Body,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: null is `None`, and all else is the address of a function of this type, by its name.
    let next = unsafe { core::mem::transmute::<*mut c_void, Option<PthreadCreate>>(PTHREAD_CREATE.find()) };
    let Some(create) = next else { return libc::EAGAIN };
    // SAFETY: the caller's promises are those that the function needs.
    let error = unsafe { create(thread, attributes, body, argument) };
    if error == 0 {
        helper::start();
    }
    error
}

/// C11: `thrd_create`.
///
/// # Safety
/// As for the C library's.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(thread: *mut libc::pthread_t, body: ThrdBody, argument: *mut c_void) -> c_int {
    // SAFETY: null is `None`, and all else is the address of a function of this type, by its name.
    let next = unsafe { core::mem::transmute::<*mut c_void, Option<ThrdCreate>>(THRD_CREATE.find()) };
    let Some(create) = next else { return THRD_ERROR };
    // SAFETY: the caller's promises are those that the function needs.
    let result = unsafe { create(thread, body, argument) };
    if result == THRD_SUCCESS {
        helper::start();
    }
    result
}
