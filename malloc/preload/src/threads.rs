//! Threads: the helper starts after the program has created a thread, and ends before the main thread exits.
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
static PTHREAD_EXIT: NextSymbol = NextSymbol::new(c"pthread_exit");
static THRD_EXIT: NextSymbol = NextSymbol::new(c"thrd_exit");

/// Finds the functions before the program has threads, so that later calls do not take the loader's lock.
pub(crate) fn prepare() {
    for symbol in [&PTHREAD_CREATE, &THRD_CREATE, &PTHREAD_EXIT, &THRD_EXIT] {
        symbol.find();
    }
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

/// Ends the helper if the main thread exits, and returns the address of the C library's function.
fn before_exit(next: &NextSymbol) -> *mut c_void {
    helper::stop_before_main_thread_exits();
    let next = next.find();
    if next.is_null() { libc::abort as *mut c_void } else { next }
}

extern "C" fn before_pthread_exit() -> *mut c_void {
    before_exit(&PTHREAD_EXIT)
}

extern "C" fn before_thrd_exit() -> *mut c_void {
    before_exit(&THRD_EXIT)
}

/// Defines a function that calls another one, and then jumps to the address that it returns, with the argument of the
/// call. The C library unwinds the stack of a thread that exits, so no frame of this library may be on it.
macro_rules! jump_to_result {
    ($(#[$about:meta])* $name:ident, $before:ident) => {
        $(#[$about])*
        ///
        /// # Safety
        /// As for the C library's function.
        // SAFETY: the code calls a function with an aligned stack, restores the argument and the stack, and jumps to the
        // C library's function, which does not return.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(result: *mut c_void) -> ! {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("push rdi", "call {before}", "pop rdi", "jmp rax", before = sym $before);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x0, x30, [sp, #-16]!",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x30, [sp], #16",
                "br x16",
                before = sym $before,
            );
        }
    };
}

jump_to_result! {
    /// POSIX: `pthread_exit`.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    pthread_exit, before_pthread_exit
}

jump_to_result! {
    /// C11: `thrd_exit`, whose argument is an `int` in the register of an address.
    // SAFETY: the function implements the C library's function of this name.
    #[unsafe(no_mangle)]
    thrd_exit, before_thrd_exit
}
