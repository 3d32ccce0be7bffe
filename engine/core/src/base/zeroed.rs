//! Zeroed memory of the host (feature `host`), for large tables of which only the used part should cost memory.
//!
//! A large zeroed allocation consists of fresh pages of the operating system, each of which is allocated on first
//! access. A large table that starts as zeros is therefore not written, and its unused parts cost nothing. Metadata is
//! written completely, so it uses huge pages if the system provides them on request. A machine of 24 GiB has 100 MB of
//! metadata; in small pages these are 26,000 page faults.

extern crate std;

use core::mem::{self, MaybeUninit};
use core::ops::{Deref, DerefMut};
use std::vec;
use std::vec::Vec;

use super::carve::Storage;

/// Memory that is all zeros until it is first passed on as [`Storage`].
#[derive(Debug)]
pub struct ZeroedBytes {
    bytes: Vec<u8>,
    is_zeroed: bool,
}

impl ZeroedBytes {
    /// Allocates `len` bytes of any alignment. Aborts if memory is exhausted, as a `Vec` does.
    pub fn new(len: usize) -> ZeroedBytes {
        ZeroedBytes { bytes: in_huge_pages(vec![0; len]), is_zeroed: true }
    }

    /// Returns the memory, to be divided into arrays of metadata. Only the first call returns it as known to be zeroed,
    /// since users of a storage write to it.
    pub fn storage(&mut self) -> Storage<'_> {
        let len = self.bytes.len();
        // SAFETY: the pointer and length are those of the vector, which stays borrowed, and `MaybeUninit<u8>` admits
        // any byte. The vector's bytes are never read as `u8` again, so the caller may leave them uninitialized.
        let bytes: &mut [MaybeUninit<u8>] =
            unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), len) };
        match mem::replace(&mut self.is_zeroed, false) {
            // SAFETY: the vector was allocated as zeros, only a storage writes to it, and this is the first storage.
            true => unsafe { Storage::zeroed(bytes) },
            false => bytes.into(),
        }
    }
}

/// Number types whose zero consists of zero bytes.
pub trait Number: Copy + Default + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty),*) => { $(impl sealed::Sealed for $number {} impl Number for $number {})* };
}
numbers!(u8, u32, u64);

/// An array of numbers that are initially 0. Creating it takes little time.
#[derive(Debug)]
pub struct Zeroed<T: Number> {
    numbers: Vec<T>,
}

impl<T: Number> Zeroed<T> {
    /// Allocates `len` zeros of which few will be used. Aborts if memory is exhausted, as a `Vec` does.
    pub fn sparse(len: usize) -> Zeroed<T> {
        Zeroed { numbers: vec![T::default(); len] }
    }

    /// Allocates `len` zeros of which most will be used: in huge pages, if available.
    pub fn dense(len: usize) -> Zeroed<T> {
        Zeroed { numbers: in_huge_pages(vec![T::default(); len]) }
    }
}

impl<T: Number> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.numbers
    }
}

impl<T: Number> DerefMut for Zeroed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.numbers
    }
}

/// Requests huge pages for the memory of a vector. Without them the vector works in the same way, only slower. Miri
/// cannot call `madvise`.
fn in_huge_pages<T: Number>(numbers: Vec<T>) -> Vec<T> {
    #[cfg(all(target_os = "linux", not(miri)))]
    linux::advise_huge_pages(&numbers);
    numbers
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use core::ffi::{c_int, c_void};

    /// Bytes of a huge page.
    const HUGE: usize = 2 << 20;
    const MADV_HUGEPAGE: c_int = 14;

    // SAFETY: this is the C library's declaration of `madvise`, and the standard library is linked with the C library.
    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }

    /// Requests huge pages for the part of the memory that consists of whole huge pages.
    pub(super) fn advise_huge_pages<T>(memory: &[T]) {
        let bytes = memory.as_ptr_range();
        let (start, end) = (bytes.start.addr().next_multiple_of(HUGE), bytes.end.addr() & !(HUGE - 1));
        if start < end {
            let first = bytes.start.cast::<c_void>().with_addr(start).cast_mut();
            // SAFETY: the range is inside `memory`, and this advice changes no contents.
            let _ = unsafe { madvise(first, end - start, MADV_HUGEPAGE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::carve::Carver;

    #[test]
    fn zeroed_table_reads_zero_until_written() {
        let mut table = Zeroed::<u32>::dense(5);
        assert_eq!(*table, [0; 5]);
        table[3] = 7;
        assert_eq!(*table, [0, 0, 0, 7, 0]);
        assert!(Zeroed::<u64>::sparse(0).is_empty());
    }

    #[test]
    fn reused_storage_is_zeroed_again() {
        // The longer storage has whole huge pages, which Miri does not have.
        for len in [16, if cfg!(miri) { 4096 } else { 5 << 20 }] {
            let mut bytes = ZeroedBytes::new(len);
            let first = Carver::new(bytes.storage()).array(len, |at| at as u8).unwrap();
            assert_eq!(first[9], 9);
            // SAFETY: the closure returns 0, whose only byte is 0.
            let again: &mut [u8] = unsafe { Carver::new(bytes.storage()).zeros(len, || 0) }.unwrap();
            assert_eq!(again[9], 0);
        }
    }
}
