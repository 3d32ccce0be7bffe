//! Thread creation: the helper starts after the program has created a thread.
//!
//! The helper starts in the context of the caller, after the C library's function has returned. At that point the
//! caller holds no lock that the creation of a second thread needs. The helper is not started by threads that the C
//! library creates for itself (timers with `SIGEV_THREAD`, asynchronous I/O), by threads of raw `clone`, or by callers
//! that do not resolve to these functions (`RTLD_DEEPBIND`, another namespace of the loader).

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use freehold_malloc::process::helper;

/// Results of C11's thread functions: `thrd_success` and `thrd_error` of glibc.
const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;

type Body = Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>;
type PthreadCreate =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Body, *mut c_void) -> c_int;
type ThrdBody = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
type ThrdCreate = unsafe extern "C" fn(*mut libc::pthread_t, ThrdBody, *mut c_void) -> c_int;

/// A function of the next library that exports its name.
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

    /// Returns the address of the function; null if no library exports it yet.
    fn find(&self) -> *mut c_void {
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

/// Finds both functions before the program has threads, so that later calls do not take the loader's lock.
pub(crate) fn prepare() {
    PTHREAD_CREATE.find();
    THRD_CREATE.find();
}

/// POSIX: `pthread_create`.
///
/// # Safety
/// As for the C library's function.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    body: Body,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: null becomes `None`, and any other value is the address of a function of this name, which has this type.
    let next = unsafe { core::mem::transmute::<*mut c_void, Option<PthreadCreate>>(PTHREAD_CREATE.find()) };
    let Some(create) = next else { return libc::EAGAIN };
    // SAFETY: the caller promises the preconditions of the C library's function.
    let error = unsafe { create(thread, attributes, body, argument) };
    if error == 0 {
        helper::start();
    }
    error
}

/// C11: `thrd_create`.
///
/// # Safety
/// As for the C library's function.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(thread: *mut libc::pthread_t, body: ThrdBody, argument: *mut c_void) -> c_int {
    // SAFETY: null becomes `None`, and any other value is the address of a function of this name, which has this type.
    let next = unsafe { core::mem::transmute::<*mut c_void, Option<ThrdCreate>>(THRD_CREATE.find()) };
    let Some(create) = next else { return THRD_ERROR };
    // SAFETY: the caller promises the preconditions of the C library's function.
    let result = unsafe { create(thread, body, argument) };
    if result == THRD_SUCCESS {
        helper::start();
    }
    result
}
