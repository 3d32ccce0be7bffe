//! Thread creation: the helper starts after the program has created a thread.
//!
//! The helper starts in the context of the caller, after the C library's function has returned. At that point the
//! caller holds no lock that the creation of a second thread needs. The helper is not started by threads that the C
//! library creates for itself (timers with `SIGEV_THREAD`, asynchronous I/O), by threads of raw `clone`, or by callers
//! that do not resolve to these functions (`RTLD_DEEPBIND`, another namespace of the loader).

use core::ffi::{c_int, c_void};

use freehold_malloc::process::helper;

use crate::next::NextSymbol;

/// Results of C11's thread functions: `thrd_success` and `thrd_error` of glibc.
const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;

type Body = Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>;
type PthreadCreate =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Body, *mut c_void) -> c_int;
type ThrdBody = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
type ThrdCreate = unsafe extern "C" fn(*mut libc::pthread_t, ThrdBody, *mut c_void) -> c_int;

static PTHREAD_CREATE: NextSymbol = NextSymbol::new(c"pthread_create");
static THRD_CREATE: NextSymbol = NextSymbol::new(c"thrd_create");

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
