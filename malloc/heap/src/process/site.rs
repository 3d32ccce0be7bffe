//! Call sites: the address to which a call of one of the C library's functions returns.
//!
//! Fast paths do not determine the site. A slow path that a function reaches by a tail call begins with the stack of
//! that function, so the return address is on top of the stack, or in the link register. The function that
//! [`forward_site`] generates takes it from there, and does nothing else.
//!
//! # Design
//!
//! `malloc` and `free` end in a jump to their slow paths, so a slow path finds the caller's return address in its
//! original place. Reports contain the address, and fast paths do not pass it on.

use core::fmt;

/// Return address of a call; [`UNKNOWN`](Site::UNKNOWN) if it was not determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Site(pub usize);

impl Site {
    /// The site was not determined.
    pub const UNKNOWN: Site = Site(0);
}

/// Defines a function that jumps to another one with one additional argument: the address to which the call returns.
/// The arguments are words. `$intel` and `$arm` name the register of the argument after the last one.
#[macro_export]
#[doc(hidden)]
macro_rules! forward_site {
    ($(#[$about:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?,
        $intel:literal, $arm:literal, $to:path) => {
        $(#[$about])*
        ///
        /// # Safety
        /// As for the function that it jumps to.
        // SAFETY: the code only writes the register of the additional argument, then jumps with all other state
        // unchanged.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        $vis unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
            core::arch::naked_asm!(concat!("mov ", $intel, ", qword ptr [rsp]"), "jmp {to}", to = sym $to)
        }

        $(#[$about])*
        ///
        /// # Safety
        /// As for the function that it jumps to.
        // SAFETY: the code only writes the register of the additional argument, then jumps with all other state
        // unchanged.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        $vis unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
            core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {to}", to = sym $to)
        }

        $(#[$about])*
        ///
        /// # Safety
        /// As for the function that it calls.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        $vis unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller promises what the called function requires.
            unsafe { $to($($argument,)* $crate::process::Site::UNKNOWN) }
        }
    };
}

pub use forward_site;

/// Formats a site as a debugger does: name of the loaded object, function if it is exported, and address in the object.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Site::UNKNOWN {
            return f.write_str("somebody");
        }
        let mut found = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `dladdr` looks up any number, and writes to the live buffer; all-zero bytes are a valid `Dl_info` as
        // well.
        let found = unsafe {
            libc::dladdr(self.0 as *const _, found.as_mut_ptr());
            found.assume_init()
        };
        if found.dli_fname.is_null() {
            return write!(f, "{:#x}", self.0);
        }
        // SAFETY: names from the loader are null or end in a zero byte, and are valid while the object is loaded.
        let [object, function] = unsafe { [text(found.dli_fname), text(found.dli_sname)] };
        if let Some(function) = function {
            write!(f, "{function}+{:#x} in ", self.0 - found.dli_saddr as usize)?;
        }
        write!(f, "{} ({:#x})", object.unwrap_or("?"), self.0 - found.dli_fbase as usize)
    }
}

/// Converts a C string to text; returns `None` for null and for bytes that are not UTF-8.
///
/// # Safety
/// `text` is null, or a string that ends in a zero byte and is valid for `'t`.
unsafe fn text<'t>(text: *const libc::c_char) -> Option<&'t str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` is not null, so the caller promises that it ends in a zero byte and is valid for `'t`.
    unsafe { core::ffi::CStr::from_ptr(text) }.to_str().ok()
}
