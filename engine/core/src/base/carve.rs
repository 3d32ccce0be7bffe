//! Carves arrays out of memory that the caller supplies. This is the engine's only source of memory for its own
//! metadata.
//!
//! # Design
//!
//! There is no allocator below the allocator. Zones, per-CPU lists and the section table are carved from memory that
//! the caller supplies. Each section of 2^15 frames has its own metadata, and can be added while other sections are in
//! use.
//!
//! Sections are counted from the lowest frame of the configuration, and the last one ends with the highest. The
//! metadata of 16 MiB of memory takes 48.25 KiB, and that of 128 MiB at 2 GiB takes 386 KiB (`cargo test -p freehold
//! metadata_size`). The slab takes 33 bytes for each frame: of its whole address range, or
//! of the sections with memory in a kernel.

use core::alloc::Layout;
use core::mem::MaybeUninit;

/// Sum of the layouts of arrays that will be carved one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan(Layout);

impl Plan {
    /// A plan without arrays: 0 bytes.
    pub(crate) const EMPTY: Plan = Plan(Layout::new::<()>());

    /// Adds an array of `len` values; returns `None` if the sum exceeds the address space.
    pub(crate) fn array<T>(self, len: usize) -> Option<Plan> {
        let array = Layout::array::<T>(len).ok()?;
        let (sum, _) = self.0.extend(array).ok()?;
        Some(Plan(sum))
    }

    /// Returns the bytes up to the end of the last array.
    pub(crate) fn end(self) -> usize {
        self.0.size()
    }

    /// Returns the size and alignment of all arrays together, in bytes.
    pub(crate) fn layout(self) -> Layout {
        self.0.pad_to_align()
    }
}

/// Memory for the engine's metadata.
#[derive(Debug)]
pub struct Storage<'m> {
    bytes: &'m mut [MaybeUninit<u8>],
    is_zeroed: bool,
}

impl<'m> Storage<'m> {
    /// Wraps memory that is all zeros, such as fresh pages of the operating system. Arrays of zeros are then not
    /// written, so their pages use no physical memory before the first access.
    ///
    /// # Safety
    /// Every byte is 0.
    pub unsafe fn zeroed(bytes: &'m mut [MaybeUninit<u8>]) -> Storage<'m> {
        Storage { bytes, is_zeroed: true }
    }
}

impl<'m> From<&'m mut [MaybeUninit<u8>]> for Storage<'m> {
    /// Wraps memory of unknown contents, in which arrays of zeros are written.
    fn from(bytes: &'m mut [MaybeUninit<u8>]) -> Storage<'m> {
        Storage { bytes, is_zeroed: false }
    }
}

/// Unused rest of the caller's memory.
#[derive(Debug)]
pub(crate) struct Carver<'m> {
    rest: &'m mut [MaybeUninit<u8>],
    is_zeroed: bool,
}

impl<'m> Carver<'m> {
    /// Creates a carver that cuts this memory from front to back.
    pub(crate) fn new(memory: impl Into<Storage<'m>>) -> Carver<'m> {
        let Storage { bytes, is_zeroed } = memory.into();
        Carver { rest: bytes, is_zeroed }
    }

    /// Cuts off an array of `len` values, which `make` creates from their indices. Returns `None` and cuts nothing if
    /// the rest is too small.
    pub(crate) fn array<T: 'm>(&mut self, len: usize, mut make: impl FnMut(usize) -> T) -> Option<&'m mut [T]> {
        let mine = self.cut::<T>(len)?;
        mine.iter_mut().enumerate().for_each(|(index, place)| _ = place.write(make(index)));
        // SAFETY: the line above wrote every element.
        Some(unsafe { mine.assume_init_mut() })
    }

    /// Cuts off an array of values that consist of zero bytes. The values are not written if the memory is known to be
    /// zeroed.
    ///
    /// # Safety
    /// Every byte of a value that `make` returns is 0.
    pub(crate) unsafe fn zeros<T: 'm>(&mut self, len: usize, mut make: impl FnMut() -> T) -> Option<&'m mut [T]> {
        if !self.is_zeroed {
            return self.array(len, |_| make());
        }
        let mine = self.cut::<T>(len)?;
        // SAFETY: all-zero bytes are a valid `T` by the caller's promise, and the memory holds only zeros by that of
        // `Storage::zeroed`.
        Some(unsafe { mine.assume_init_mut() })
    }

    /// Cuts off aligned room for `len` values. Returns `None` and cuts nothing if the rest is too small.
    fn cut<T: 'm>(&mut self, len: usize) -> Option<&'m mut [MaybeUninit<T>]> {
        let skip = self.rest.as_ptr().align_offset(align_of::<T>());
        let bytes = size_of::<T>().checked_mul(len)?;
        if skip.checked_add(bytes)? > self.rest.len() {
            return None;
        }
        let (_, aligned) = core::mem::take(&mut self.rest).split_at_mut(skip);
        let (mine, rest) = aligned.split_at_mut(bytes);
        self.rest = rest;
        debug_assert!(
            mine.as_ptr().cast::<T>().is_aligned(),
            "carver: the array at {:p} is not aligned",
            mine.as_ptr()
        );
        // SAFETY: `mine` starts at an address that is aligned for T, has room for `len` of them, and is borrowed
        // exclusively for 'm.
        Some(unsafe { core::slice::from_raw_parts_mut(mine.as_mut_ptr().cast(), len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_written_only_into_unzeroed_storage() {
        for (first, made) in [(0, 0), (7, 3)] {
            let mut bytes = [MaybeUninit::new(first); 12];
            let storage = match first {
                // SAFETY: all bytes were just set to `first`, which is 0 here.
                0 => unsafe { Storage::zeroed(&mut bytes) },
                _ => Storage::from(&mut bytes[..]),
            };
            let mut carver = Carver::new(storage);
            let mut calls = 0;
            // SAFETY: the closure returns 0, whose only byte is 0.
            let zeros: Option<&mut [u8]> = unsafe {
                carver.zeros(3, || {
                    calls += 1;
                    0
                })
            };
            assert_eq!(zeros.unwrap(), [0; 3]);
            assert!(carver.array(10, |_| 1_u8).is_none());
            assert_eq!(carver.array(9, |at| at as u8).unwrap().last(), Some(&8));
            assert_eq!(calls, made);
        }
    }

    #[test]
    fn arrays_are_aligned_and_take_only_their_size() {
        let mut bytes = [0_u64; 3].map(MaybeUninit::new);
        // SAFETY: the array has 24 bytes, which stay borrowed as this slice. `MaybeUninit<u8>` admits any contents.
        let bytes = unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), 24) };
        let mut carver = Carver::new(bytes);
        assert_eq!(carver.array(3, |at| at as u8).unwrap(), [0, 1, 2]);
        assert_eq!(carver.array(1, |_| 7_u32).unwrap(), [7], "the array does not start after the skipped byte");
        assert!(carver.array(3, |_| 0_u64).is_none() && carver.array(usize::MAX, |_| 0_u64).is_none());
        assert_eq!(carver.array(2, |at| at as u64).unwrap(), [0, 1], "the failed cut used memory");
        assert!(carver.array(1, |_| 0_u8).is_none());
    }
}
