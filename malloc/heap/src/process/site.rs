//! Who asked: the address that a call of the C library's functions returns to.
//!
//! Fast paths do not look. A slow path that ends a function begins with the stack as that function found it, and so
//! with the return address on top of it, or in the register that holds it: there it is taken, in a step that does no
//! more ([`forward_site`]).

use core::fmt;

/// Where a call returns to; unknown, where nobody could look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Site(pub usize);

impl Site {
    /// Nobody looked.
    pub const UNKNOWN: Site = Site(0);
}

/// Makes a function that goes on in another one, which has an argument more: where the call returns to. Arguments are
/// words; `$intel` and `$arm` are the registers of the next one.
#[macro_export]
#[doc(hidden)]
macro_rules! forward_site {
    ($(#[$about:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?,
        $intel:literal, $arm:literal, $to:path) => {
        $(#[$about])*
        ///
        /// # Safety
        /// What the function that it goes on in asks for.
        // SAFETY: changes no register but that of an argument which the function does not have.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        $vis unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
            core::arch::naked_asm!(concat!("mov ", $intel, ", qword ptr [rsp]"), "jmp {to}", to = sym $to)
        }

        $(#[$about])*
        ///
        /// # Safety
        /// What the function that it goes on in asks for.
        // SAFETY: changes no register but that of an argument which the function does not have.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        $vis unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
            core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {to}", to = sym $to)
        }

        $(#[$about])*
        ///
        /// # Safety
        /// What the function that it goes on in asks for.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        $vis unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller promises what the function asks for.
            unsafe { $to($($argument,)* $crate::process::Site::UNKNOWN) }
        }
    };
}

pub use forward_site;

/// As a debugger has it: the object's name, the function if the object exports it, and the address within the object.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Site::UNKNOWN {
            return f.write_str("somebody");
        }
        let mut found = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the loader looks up a number, and fills in what is there for it; zeros are an answer, too.
        let found = unsafe {
            libc::dladdr(self.0 as *const _, found.as_mut_ptr());
            found.assume_init()
        };
        if found.dli_fname.is_null() {
            return write!(f, "{:#x}", self.0);
        }
        // SAFETY: names that the loader has end in zero, and stay while the object is loaded.
        let [object, function] = unsafe { [text(found.dli_fname), text(found.dli_sname)] };
        if let Some(function) = function {
            write!(f, "{function}+{:#x} in ", self.0 - found.dli_saddr as usize)?;
        }
        write!(f, "{} ({:#x})", object.unwrap_or("?"), self.0 - found.dli_fbase as usize)
    }
}

/// # Safety
/// It is null, or a text that ends in zero and stays.
unsafe fn text<'t>(text: *const libc::c_char) -> Option<&'t str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller promises it.
    unsafe { core::ffi::CStr::from_ptr(text) }.to_str().ok()
}
