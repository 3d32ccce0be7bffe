//! Wrapper of `__register_atfork`, which registers the malloc's fork handlers before the first handler of the program.

use core::ffi::{c_int, c_void};

use freehold_malloc::process::fork;

use crate::next::NextSymbol;

type Handler = Option<unsafe extern "C" fn()>;
type RegisterAtfork = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

static REGISTER_ATFORK: NextSymbol = NextSymbol::new(c"__register_atfork");

/// glibc: `__register_atfork`, which `pthread_atfork` calls with the handle of its own library or program.
///
/// # Safety
/// As for the C library's function.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    before: Handler,
    in_parent: Handler,
    in_child: Handler,
    library: *mut c_void,
) -> c_int {
    // Calls this function again, for the malloc's own handlers.
    fork::register_handlers();
    // SAFETY: null becomes `None`, and any other value is the address of a function of this name, which has this type.
    let next = unsafe { core::mem::transmute::<*mut c_void, Option<RegisterAtfork>>(REGISTER_ATFORK.find()) };
    let Some(register) = next else { return libc::ENOMEM };
    // SAFETY: the caller promises the preconditions of the C library's function.
    unsafe { register(before, in_parent, in_child, library) }
}
