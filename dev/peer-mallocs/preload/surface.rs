//! Macro that defines C's malloc functions by the functions of a package. Each library in this folder includes this
//! file.
//!
//! `surface!` takes the package's functions with C's signatures. Functions that the package lacks are built from the
//! others.

macro_rules! surface {
    (
        malloc: $malloc:path, free: $free:path, calloc: $calloc:path, realloc: $realloc:path,
        aligned: $aligned:expr, usable: $usable:expr $(,)?
    ) => {
        use core::ffi::{c_int, c_void};

        /// C: `malloc`.
        // SAFETY: the function has C's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub extern "C" fn malloc(size: usize) -> *mut c_void {
            // SAFETY: the package's function behaves like C's `malloc`, which has no preconditions.
            unsafe { $malloc(size) }
        }

        /// C: `free`.
        ///
        /// # Safety
        /// As for C's `free`.
        // SAFETY: the function has C's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn free(object: *mut c_void) {
            // SAFETY: the caller promises that the object may be freed, as C's `free` requires.
            unsafe { $free(object) }
        }

        /// C: `calloc`.
        // SAFETY: the function has C's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
            // SAFETY: the package's function behaves like C's `calloc`, which has no preconditions.
            unsafe { $calloc(count, size) }
        }

        /// C: `realloc`.
        ///
        /// # Safety
        /// As for C's `realloc`.
        // SAFETY: the function has C's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: the caller promises that the object may be reallocated, as C's `realloc` requires.
            unsafe { $realloc(object, size) }
        }

        fn aligned(align: usize, size: usize) -> *mut c_void {
            // SAFETY: the package's function requires a power of two. C and glibc require it of the callers of
            // `aligned_alloc` and `memalign`, `posix_memalign` checks it, and `valloc` passes one.
            unsafe { ($aligned)(align, size) }
        }

        /// glibc: `malloc_usable_size`.
        ///
        /// # Safety
        /// As for glibc's `malloc_usable_size`.
        // SAFETY: the function has glibc's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
            // SAFETY: the caller promises an object that has not been freed, as glibc's function requires.
            unsafe { ($usable)(object) }
        }

        /// C: `aligned_alloc`.
        // SAFETY: the function has C's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
            aligned(align, size)
        }

        /// glibc: `memalign`.
        // SAFETY: the function has glibc's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
            aligned(align, size)
        }

        /// glibc: `valloc`.
        // SAFETY: the function has glibc's signature and behaviour, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub extern "C" fn valloc(size: usize) -> *mut c_void {
            aligned(4096, size)
        }

        /// POSIX: `posix_memalign`.
        ///
        /// # Safety
        /// As for the function of POSIX: `place` must be valid for a write.
        // SAFETY: the function has the signature and behaviour of POSIX, and the library defines this symbol once.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
            const INVALID: c_int = 22;
            const NO_MEMORY: c_int = 12;
            if !align.is_power_of_two() || align % size_of::<usize>() > 0 {
                return INVALID;
            }
            let object = aligned(align, size);
            if object.is_null() {
                return NO_MEMORY;
            }
            // SAFETY: the caller promises that `place` is valid for a write of an address.
            unsafe { place.write(object) };
            0
        }
    };
}
