//! Zeroed memory of the host's (feature `host`): tables of which only what is used costs memory.
//!
//! The system hands out zeros, and a page of them for each that is touched. A table that begins as zeros is therefore
//! not written at first, and what nobody comes to costs nothing. Metadata is all written, so it comes in huge pages,
//! where the system has them for who asks: that of a machine of 24 GiB has 100 MB, 26,000 small pages, and each costs a
//! page fault.

extern crate std;

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::{self, MaybeUninit};
use core::ops::{Deref, DerefMut};
use std::alloc::handle_alloc_error;
use std::vec::Vec;

use memmap2::MmapMut;

use super::carve::Storage;

/// Bytes from which memory is mapped on its own: a huge page.
const MAPPED_MIN: usize = 2 << 20;

/// Memory that is zeros until it is first handed on as [`Storage`].
#[derive(Debug)]
pub struct ZeroedBytes {
    place: Place,
    is_zeroed: bool,
}

#[derive(Debug)]
enum Place {
    Heap(Vec<MaybeUninit<u8>>),
    Mapped(MmapMut),
}

impl ZeroedBytes {
    /// So many bytes, of any alignment. Aborts if there is no memory, as a `Vec` does.
    pub fn new(len: usize) -> ZeroedBytes {
        let place = match len {
            0..MAPPED_MIN => Place::Heap(std::vec![MaybeUninit::new(0); len]),
            _ => Place::Mapped(huge(map(len))),
        };
        ZeroedBytes { place, is_zeroed: true }
    }

    /// The memory, to carve from: known to be zeros the first time.
    pub fn storage(&mut self) -> Storage<'_> {
        let bytes = match &mut self.place {
            Place::Heap(bytes) => &mut bytes[..],
            // SAFETY: bytes are bytes, initialized or not. Nobody reads them as such ever after, but through a storage.
            Place::Mapped(map) => unsafe { core::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), map.len()) },
        };
        match mem::replace(&mut self.is_zeroed, false) {
            // SAFETY: both places begin as zeros, and only a storage writes to them, of which this is the first.
            true => unsafe { Storage::zeroed(bytes) },
            false => bytes.into(),
        }
    }
}

/// A number of which zero bytes make a zero.
pub trait Number: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty),*) => { $(impl sealed::Sealed for $number {} impl Number for $number {})* };
}
numbers!(u8, u32, u64);

/// An array of numbers, all of them 0 at first. Costs no time before it is used.
#[derive(Debug)]
pub struct Zeroed<T: Number> {
    map: MmapMut,
    len: usize,
    numbers: PhantomData<T>,
}

impl<T: Number> Zeroed<T> {
    /// So many zeros, of which few places will be used. Aborts if there is no memory, as a `Vec` does.
    pub fn sparse(len: usize) -> Zeroed<T> {
        let bytes = len.checked_mul(size_of::<T>()).expect("no table is larger than the address space");
        Zeroed { map: map(bytes.max(1)), len, numbers: PhantomData }
    }

    /// The same, of which most will be used: in huge pages, if they are to be had.
    pub fn dense(len: usize) -> Zeroed<T> {
        let Zeroed { map, .. } = Zeroed::<T>::sparse(len);
        Zeroed { map: huge(map), len, numbers: PhantomData }
    }
}

impl<T: Number> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: a mapping begins at a page, so it is aligned for T, and `new` made it of `len` of them; any bytes are
        // numbers, and they are borrowed like this table.
        unsafe { core::slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
    }
}

impl<T: Number> DerefMut for Zeroed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and this table is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.len) }
    }
}

/// Fresh memory of at least one byte.
fn map(len: usize) -> MmapMut {
    let Ok(map) = MmapMut::map_anon(len) else {
        handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()))
    };
    map
}

/// The same memory, in huge pages if they are to be had.
fn huge(map: MmapMut) -> MmapMut {
    // Small pages do as well, only slower.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    map
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
        for len in [16, MAPPED_MIN] {
            let mut bytes = ZeroedBytes::new(len);
            let first = Carver::new(bytes.storage()).array(len, |at| at as u8).unwrap();
            assert_eq!(first[9], 9);
            // SAFETY: what is made is 0, which has no other byte.
            let again: &mut [u8] = unsafe { Carver::new(bytes.storage()).zeros(len, || 0) }.unwrap();
            assert_eq!(again[9], 0);
        }
    }
}
