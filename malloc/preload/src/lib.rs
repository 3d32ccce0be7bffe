//! Freehold as a library that replaces the C library's malloc for a whole program.
//!
//! ```text
//! c            malloc, free and related functions
//! cxx          the operators new and delete, which throw C++ exceptions
//! introspect   statistics (mallinfo2, malloc_info, malloc_stats), malloc_trim and mallopt
//! check        a consistency check at the program's request
//! profile      a heap profile at the program's request
//! threads      creation of threads, after which the helper starts
//! forks        registration of fork handlers, of which the malloc's are the first
//! next         functions of the C library that this library wraps
//! namespaces   changes of namespaces, before which the helper ends
//! sandbox      filters of system calls, before which the malloc restricts itself
//! exit         initialisation, and statistics at exit
//! ```
//!
//! With the build profile `preload` the library does not contain the standard library. The standard library allocates,
//! and its malloc would be this library, or in a program with a malloc of its own, that other malloc. With other
//! profiles it is linked, so that this crate can be built and checked together with all others.

#![cfg_attr(panic = "abort", no_std)]

#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod c;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod check;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod cxx;
mod exit;
#[cfg(all(feature = "helper", target_env = "gnu"))]
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod forks;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod introspect;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod namespaces;
#[cfg(all(feature = "helper", target_env = "gnu"))]
mod next;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod profile;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod sandbox;
#[cfg(all(feature = "helper", target_env = "gnu"))]
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod threads;

/// Reports a panic and terminates the program, because its state is invalid.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let _written = writeln!(freehold_malloc::os::platform::StandardError, "freehold: {info}; please report this");
    // SAFETY: `abort` takes no arguments and has no preconditions.
    unsafe { libc::abort() }
}
