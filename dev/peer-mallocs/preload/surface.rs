//! C's malloc and its kin by a package's functions, as a library to preload: what each package here includes.
//!
//! `surface!` takes the package's functions, as C has them; what it does not have is made of the others.

macro_rules! surface {
    (
        malloc: $malloc:path, free: $free:path, calloc: $calloc:path, realloc: $realloc:path,
        aligned: $aligned:expr, usable: $usable:expr $(,)?
    ) => {
        use core::ffi::{c_int, c_void};

        /// C: `malloc`.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub extern "C" fn malloc(size: usize) -> *mut c_void {
            // SAFETY: asks for memory alone.
            unsafe { $malloc(size) }
        }

        /// C: `free`.
        ///
        /// # Safety
        /// As C's.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn free(object: *mut c_void) {
            // SAFETY: the caller promises it.
            unsafe { $free(object) }
        }

        /// C: `calloc`.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
            // SAFETY: asks for memory alone.
            unsafe { $calloc(count, size) }
        }

        /// C: `realloc`.
        ///
        /// # Safety
        /// As C's.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: the caller promises it.
            unsafe { $realloc(object, size) }
        }

        fn aligned(align: usize, size: usize) -> *mut c_void {
            // SAFETY: asks for memory alone.
            unsafe { ($aligned)(align, size) }
        }

        /// glibc: `malloc_usable_size`.
        ///
        /// # Safety
        /// As C's.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
            // SAFETY: the caller promises it.
            unsafe { ($usable)(object) }
        }

        /// C: `aligned_alloc`.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
            aligned(align, size)
        }

        /// glibc: `memalign`.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
            aligned(align, size)
        }

        /// glibc: `valloc`.
        // SAFETY: the name is C's, and so is what it does.
        #[unsafe(no_mangle)]
        pub extern "C" fn valloc(size: usize) -> *mut c_void {
            aligned(4096, size)
        }

        /// POSIX: `posix_memalign`.
        ///
        /// # Safety
        /// As POSIX has it.
        // SAFETY: the name is C's, and so is what it does.
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
            // SAFETY: the caller promises that an address can be written there.
            unsafe { place.write(object) };
            0
        }
    };
}
