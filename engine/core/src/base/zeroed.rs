//! Zeroed memory of the host's (feature `host`): tables of which only what is used costs memory.
//!
//! Whoever asks the global allocator for much that is zero gets fresh pages of the system's, one for each that is
//! touched. So a large table that begins as zeros is not written at first, and what nobody comes to costs nothing.
//! Metadata is all written, so it comes in huge pages, where the system has them for who asks: that of a machine of 24
//! GiB has 100 MB, 26,000 small pages, and each costs a page fault.

extern crate std;

use core::mem::{self, MaybeUninit};
use core::ops::{Deref, DerefMut};
use std::vec;
use std::vec::Vec;

use super::carve::Storage;

/// Memory that is zeros until it is first handed on as [`Storage`].
#[derive(Debug)]
pub struct ZeroedBytes {
    bytes: Vec<u8>,
    is_zeroed: bool,
}

impl ZeroedBytes {
    /// So many bytes, of any alignment. Aborts if there is no memory, as a `Vec` does.
    pub fn new(len: usize) -> ZeroedBytes {
        ZeroedBytes { bytes: in_huge_pages(vec![0; len]), is_zeroed: true }
    }

    /// The memory, to carve from: known to be zeros the first time.
    pub fn storage(&mut self) -> Storage<'_> {
        let len = self.bytes.len();
        // SAFETY: bytes are bytes, initialized or not. Nobody reads them as such ever after, but through a storage.
        let bytes: &mut [MaybeUninit<u8>] =
            unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), len) };
        match mem::replace(&mut self.is_zeroed, false) {
            // SAFETY: they begin as zeros, and only a storage writes to them, of which this is the first.
            true => unsafe { Storage::zeroed(bytes) },
            false => bytes.into(),
        }
    }
}

/// A number of which zero bytes make a zero.
pub trait Number: Copy + Default + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty),*) => { $(impl sealed::Sealed for $number {} impl Number for $number {})* };
}
numbers!(u8, u32, u64);

/// An array of numbers, all of them 0 at first. Costs little time before it is used.
#[derive(Debug)]
pub struct Zeroed<T: Number> {
    numbers: Vec<T>,
}

impl<T: Number> Zeroed<T> {
    /// So many zeros, of which few places will be used. Aborts if there is no memory, as a `Vec` does.
    pub fn sparse(len: usize) -> Zeroed<T> {
        Zeroed { numbers: vec![T::default(); len] }
    }

    /// The same, of which most will be used: in huge pages, if they are to be had.
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

/// The same numbers, in huge pages if these are to be had: small ones do as well, only slower.
fn in_huge_pages<T: Number>(numbers: Vec<T>) -> Vec<T> {
    #[cfg(target_os = "linux")]
    linux::advise_huge_pages(&numbers);
    numbers
}

#[cfg(target_os = "linux")]
mod linux {
    use core::ffi::{c_int, c_void};

    /// Bytes of a huge page, where there is one size that programs get.
    const HUGE: usize = 2 << 20;
    const MADV_HUGEPAGE: c_int = 14;

    // SAFETY: this is how the C library says it, which the standard library is linked with.
    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }

    /// Asks for huge pages in as much of some memory as whole ones lie in.
    pub(super) fn advise_huge_pages<T>(memory: &[T]) {
        let bytes = memory.as_ptr_range();
        let (start, end) = (bytes.start.addr().next_multiple_of(HUGE), bytes.end.addr() & !(HUGE - 1));
        if start < end {
            let first = bytes.start.cast::<c_void>().with_addr(start).cast_mut();
            // SAFETY: the advice changes no byte of memory, and all of this is the caller's.
            let _ = unsafe { madvise(first, end - start, MADV_HUGEPAGE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::carve::Carver;

    #[test]
    fn a_table_is_zeros_until_it_is_written() {
        let mut table = Zeroed::<u32>::dense(5);
        assert_eq!(*table, [0; 5]);
        table[3] = 7;
        assert_eq!(*table, [0, 0, 0, 7, 0]);
        assert!(Zeroed::<u64>::sparse(0).is_empty());
    }

    #[test]
    fn memory_is_known_to_be_zeros_once() {
        for len in [16, 5 << 20] {
            let mut bytes = ZeroedBytes::new(len);
            let first = Carver::new(bytes.storage()).array(len, |at| at as u8).unwrap();
            assert_eq!(first[9], 9);
            // SAFETY: what is made is 0, which has no other byte.
            let again: &mut [u8] = unsafe { Carver::new(bytes.storage()).zeros(len, || 0) }.unwrap();
            assert_eq!(again[9], 0);
        }
    }
}
