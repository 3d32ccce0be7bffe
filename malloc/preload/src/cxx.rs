//! C++'s operators `new` and `delete`.
//!
//! If there is no memory, an operator `new` calls the program's new-handler repeatedly, as long as one is set.
//! Otherwise it throws `std::bad_alloc` through a function of the program's C++ library. The exception passes through
//! one assembly frame of this library, which has unwind information, and through no Rust frame.

use core::ffi::{CStr, c_void};
use core::fmt::Write;
use core::ptr::null_mut;

use freehold_malloc::os::platform::StandardError;
use freehold_malloc::process::{self, Site};

extern "C" fn try_new(size: usize, align: usize, site: Site) -> *mut u8 {
    process::allocate(size, align, site).map_or(null_mut(), |block| block.start.as_ptr())
}

/// Returns the program's new-handler, or null.
extern "C" fn new_handler() -> *mut c_void {
    // SAFETY: the C++ library defines this name as a function without arguments that returns an address.
    function(c"_ZSt15get_new_handlerv")
        .map_or(null_mut(), |get| unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(get)() })
}

/// Returns the function that throws `std::bad_alloc`. Aborts if there is no C++ library, because the exception could
/// not be caught.
extern "C" fn thrower() -> *mut c_void {
    function(c"_ZSt17__throw_bad_allocv").unwrap_or_else(|| {
        let _written = writeln!(
            StandardError,
            "freehold: operator new: out of memory, and the C++ library that throws std::bad_alloc is not loaded"
        );
        // SAFETY: `abort` takes no arguments and has no preconditions.
        unsafe { libc::abort() }
    })
}

fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a `CStr`, so it ends in a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns the function of this name that the program would use without this library.
#[cold]
fn next_function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a `CStr`, so it ends in a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Allocates aligned memory. If there is none, calls the new-handler and retries, or throws.
///
/// # Safety
/// The caller allows an exception to pass through its frame.
// SAFETY: the code preserves all callee-saved registers, and its unwind information describes their places.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn new_or_throw(_size: usize, _align: usize, _site: Site) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "mov rbx, rdi",
        "mov r12, rsi",
        "2:",
        "mov rdi, rbx",
        "mov rsi, r12",
        "mov rdx, qword ptr [rsp]",
        "call {try_new}",
        "test rax, rax",
        "jz 3f",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r12",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "ret",
        "3:",
        ".cfi_adjust_cfa_offset 24",
        ".cfi_rel_offset r12, 8",
        ".cfi_rel_offset rbx, 16",
        "call {new_handler}",
        "test rax, rax",
        "jz 4f",
        "call rax",
        "jmp 2b",
        "4:",
        "call {thrower}",
        "call rax",
        "ud2",
        ".cfi_endproc",
        try_new = sym try_new,
        new_handler = sym new_handler,
        thrower = sym thrower,
    )
}

/// Allocates aligned memory. If there is none, calls the new-handler and retries, or throws.
///
/// # Safety
/// The caller allows an exception to pass through its frame.
// SAFETY: the code preserves all callee-saved registers, and its unwind information describes their places.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn new_or_throw(_size: usize, _align: usize, _site: Site) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-48]!",
        ".cfi_adjust_cfa_offset 48",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "stp x19, x20, [sp, #16]",
        ".cfi_rel_offset x19, 16",
        ".cfi_rel_offset x20, 24",
        "str x2, [sp, #32]",
        "mov x19, x0",
        "mov x20, x1",
        "2:",
        "mov x0, x19",
        "mov x1, x20",
        "ldr x2, [sp, #32]",
        "bl {try_new}",
        "cbz x0, 3f",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #48",
        ".cfi_remember_state",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_restore_state",
        "3:",
        "bl {new_handler}",
        "cbz x0, 4f",
        "blr x0",
        "b 2b",
        "4:",
        "bl {thrower}",
        "blr x0",
        "brk #1",
        ".cfi_endproc",
        try_new = sym try_new,
        new_handler = sym new_handler,
        thrower = sym thrower,
    )
}

/// Allocates aligned memory on processors for which no exception can be thrown. If there is none, aborts.
///
/// # Safety
/// None.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe extern "C" fn new_or_throw(size: usize, align: usize, site: Site) -> *mut u8 {
    let object = try_new(size, align, site);
    if object.is_null() {
        // SAFETY: `abort` takes no arguments and has no preconditions.
        unsafe { libc::abort() }
    }
    object
}

/// Defines a throwing operator `new` under its C++ name.
macro_rules! new {
    ($($(#[$about:meta])* $name:ident;)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// The caller allows an exception to pass through its frame.
        // SAFETY: the code preserves all callee-saved registers, and implements the C++ operator of this name.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(_size: usize) -> *mut u8 {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbx",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset rbx, 0",
                "mov rbx, rdi",
                "mov rsi, qword ptr [rsp + 8]",
                "call {malloc}",
                "mov rdi, rbx",
                "pop rbx",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_restore rbx",
                "test rax, rax",
                "jz 2f",
                "ret",
                "2:",
                "mov esi, 16",
                "mov rdx, qword ptr [rsp]",
                "jmp {slow}",
                ".cfi_endproc",
                malloc = sym plain_malloc,
                slow = sym new_or_throw,
            )
        }

        $(#[$about])*
        ///
        /// # Safety
        /// The caller allows an exception to pass through its frame.
        // SAFETY: the function implements the C++ operator of this name.
        #[cfg(not(target_arch = "x86_64"))]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(size: usize) -> *mut u8 {
            // SAFETY: this function has the same precondition as `new_or_throw`.
            unsafe { new_or_throw(size, 16, Site::UNKNOWN) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
extern "C" fn plain_malloc(size: usize, site: Site) -> *mut u8 {
    process::malloc_for(size, site)
}

new! {
    /// C++: `operator new(std::size_t)`.
    _Znwm;
    /// C++: `operator new[](std::size_t)`.
    _Znam;
}

/// Defines a throwing operator `new` for aligned memory. Its arguments are those of `new_or_throw`.
macro_rules! new_aligned {
    ($($(#[$about:meta])* $name:ident;)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// The caller allows an exception to pass through its frame.
        // SAFETY: the code only adds an argument and jumps to `new_or_throw`; it implements the C++ operator of this
        // name.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(_size: usize, _align: usize) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {slow}", slow = sym new_or_throw);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("mov x2, x30", "b {slow}", slow = sym new_or_throw);
        }
    )*};
}

new_aligned! {
    /// C++17: `operator new(std::size_t, std::align_val_t)`.
    _ZnwmSt11align_val_t;
    /// C++17: `operator new[](std::size_t, std::align_val_t)`.
    _ZnamSt11align_val_t;
}

/// Defines an operator `new` that returns null if there is no memory. Before that it must call the program's
/// new-handler, which may throw, and the exception must be caught in C++. So the C++ library's function of the same
/// name is called, which in turn calls the throwing operator of this library.
macro_rules! new_nothrow {
    ($($(#[$about:meta])* $name:ident($($align:ident)?);)*) => {$(
        $(#[$about])*
        // SAFETY: the function implements the C++ operator of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name(size: usize, $($align: usize,)? nothrow: *const c_void) -> *mut u8 {
            let object = try_new(size, 16 $( - 16 + $align)?, Site::UNKNOWN);
            if !object.is_null() || new_handler().is_null() {
                return object;
            }
            let name = concat!(stringify!($name), "\0").as_bytes();
            let Some(next) = CStr::from_bytes_with_nul(name).ok().and_then(next_function) else { return object };
            // SAFETY: the function of this name in the C++ library has these arguments, and lets no exception pass.
            unsafe {
                let next: extern "C" fn(usize, $(new_nothrow!(type $align),)? *const c_void) -> *mut u8 =
                    core::mem::transmute(next);
                next(size, $($align,)? nothrow)
            }
        }
    )*};
    (type $align:ident) => { usize };
}

new_nothrow! {
    /// C++: `operator new(std::size_t, const std::nothrow_t&)`.
    _ZnwmRKSt9nothrow_t();
    /// C++: `operator new[](std::size_t, const std::nothrow_t&)`.
    _ZnamRKSt9nothrow_t();
    /// C++17: `operator new(std::size_t, std::align_val_t, const std::nothrow_t&)`.
    _ZnwmSt11align_val_tRKSt9nothrow_t(align);
    /// C++17: `operator new[](std::size_t, std::align_val_t, const std::nothrow_t&)`.
    _ZnamSt11align_val_tRKSt9nothrow_t(align);
}

/// Defines an operator `delete` under its C++ name. A hardened process checks the size, if the operator has one.
macro_rules! delete {
    ($($(#[$about:meta])* $name:ident($($size:ident)? $(, $more:ty)*);)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// `object` is null or was returned by an operator `new`, and it is not used any more.
        // SAFETY: the function implements the C++ operator of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(object: *mut u8, $($size: usize,)? $(_: $more),*) {
            // SAFETY: the caller promises that the object came from an operator `new` and is not used any more.
            unsafe { delete!(free object $($size)?) }
        }
    )*};
    (free $object:ident) => { process::free($object) };
    (free $object:ident $size:ident) => { process::free_sized($object, $size) };
}

delete! {
    /// C++: `operator delete(void*)`.
    _ZdlPv();
    /// C++: `operator delete[](void*)`.
    _ZdaPv();
    /// C++: `operator delete(void*, const std::nothrow_t&)`.
    _ZdlPvRKSt9nothrow_t(, *const c_void);
    /// C++: `operator delete[](void*, const std::nothrow_t&)`.
    _ZdaPvRKSt9nothrow_t(, *const c_void);
    /// C++14: `operator delete(void*, std::size_t)`.
    _ZdlPvm(size);
    /// C++14: `operator delete[](void*, std::size_t)`.
    _ZdaPvm(size);
    /// C++17: `operator delete(void*, std::align_val_t)`.
    _ZdlPvSt11align_val_t(, usize);
    /// C++17: `operator delete[](void*, std::align_val_t)`.
    _ZdaPvSt11align_val_t(, usize);
    /// C++17: `operator delete(void*, std::size_t, std::align_val_t)`.
    _ZdlPvmSt11align_val_t(size, usize);
    /// C++17: `operator delete[](void*, std::size_t, std::align_val_t)`.
    _ZdaPvmSt11align_val_t(size, usize);
    /// C++17: `operator delete(void*, std::align_val_t, const std::nothrow_t&)`.
    _ZdlPvSt11align_val_tRKSt9nothrow_t(, usize, *const c_void);
    /// C++17: `operator delete[](void*, std::align_val_t, const std::nothrow_t&)`.
    _ZdaPvSt11align_val_tRKSt9nothrow_t(, usize, *const c_void);
}
