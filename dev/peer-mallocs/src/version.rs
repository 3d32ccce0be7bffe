//! Versions of the mallocs: of the package that was built, and of the malloc itself where it tells.

use std::ffi::{CStr, c_int};

use freehold_peer_protocol::versions_of;

/// What was built.
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// The version of a package that was built.
///
/// # Panics
/// When `Cargo.lock` does not name the package, which a test rules out.
pub(crate) fn of_package(package: &str) -> String {
    versions_of(LOCK_FILE, package).next().expect("Cargo.lock names every package of the roster").to_owned()
}

/// The version of the C library.
pub(crate) fn of_libc(_: &str) -> String {
    // SAFETY: asks nothing, and answers with a text that is there for ever.
    let text = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", text.to_string_lossy())
}

/// The version of mimalloc, and that of its package.
pub(crate) fn of_mimalloc(package: &str) -> String {
    // SAFETY: this is how the library declares it; it asks nothing and changes nothing.
    unsafe extern "C" {
        safe fn mi_version() -> c_int;
    }
    // Two digits for the minor number and two for the patch; releases before 3.3 had one.
    let number = mi_version();
    let (major, minor, patch) = match number {
        ..1000 => (number / 100, number / 10 % 10, number % 10),
        _ => (number / 10_000, number / 100 % 100, number % 100),
    };
    format!("{major}.{minor}.{patch} ({})", of_package(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mimalloc_is_the_one_that_was_asked_for() {
        let major = if cfg!(feature = "mimalloc-2") { "2." } else { "3." };
        assert!(of_mimalloc("libmimalloc-sys").starts_with(major), "{}", of_mimalloc("libmimalloc-sys"));
    }
}
