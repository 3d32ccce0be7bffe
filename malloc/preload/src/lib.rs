//! Freehold under a whole program, by the C library's names.
//!
//! ```text
//! c            malloc, free and their kin
//! cxx          the operators new and delete, which throw what C++ throws
//! introspect   what was used: mallinfo2, malloc_info, malloc_stats; malloc_trim and mallopt
//! profile      a heap profile, when the program asks for it
//! threads      creating a thread, after which the helper starts
//! namespaces   leaving a namespace, before which the helper ends
//! exit         what is said when the program ends
//! ```
//!
//! Built with the profile `preload`, nothing of the standard library is in it: what the standard library needs of a
//! malloc would be this one, or, in a program that brings its own, somebody else's. Elsewhere it is linked, so that the
//! crate can be built and looked at along with all others.

#![cfg_attr(panic = "abort", no_std)]

#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod c;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod cxx;
mod exit;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod introspect;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod namespaces;
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod profile;
#[cfg(all(feature = "helper", target_env = "gnu"))]
#[expect(unreachable_pub, reason = "programs link to these functions by their C names")]
mod threads;

/// Says where, and ends the program: what comes next cannot be right.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let _written = writeln!(freehold_malloc::os::platform::StandardError, "freehold: {info}; please report this");
    // SAFETY: ends the process, whatever it is at.
    unsafe { libc::abort() }
}
