//! Versions of the mallocs: those of the packages that were built, and those that the mallocs themselves report.

use std::ffi::{CStr, c_int};

use freehold_peer_protocol::versions_of;

/// Text of `Cargo.lock`, which contains the versions that were built.
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// Returns the version of a package that was built.
///
/// # Panics
/// Panics if `Cargo.lock` does not contain the package. A test checks that it contains every package of the roster.
pub(crate) fn of_package(package: &str) -> String {
    versions_of(LOCK_FILE, package).next().expect("Cargo.lock has every package of the roster").to_owned()
}

/// Returns the version of the C library.
pub(crate) fn of_libc(_: &str) -> String {
    // SAFETY: `gnu_get_libc_version` has no preconditions and returns a null-terminated string that is never freed.
    let text = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", text.to_string_lossy())
}

/// Returns the version of mimalloc, and the version of its package.
pub(crate) fn of_mimalloc(package: &str) -> String {
    // SAFETY: this is the library's own declaration of the function, which has no preconditions and no side effects.
    unsafe extern "C" {
        safe fn mi_version() -> c_int;
    }
    // The minor number and the patch number have two digits each; before release 3.3 they had one.
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
    fn mimalloc_has_the_selected_version() {
        let major = if cfg!(feature = "mimalloc-2") { "2." } else { "3." };
        assert!(of_mimalloc("libmimalloc-sys").starts_with(major), "{}", of_mimalloc("libmimalloc-sys"));
    }
}
