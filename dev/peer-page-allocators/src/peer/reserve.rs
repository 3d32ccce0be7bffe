//! Address space for peers that write into the memory that they manage.
//!
//! The first frame starts at a multiple of the largest block, so that a block aligned by address is aligned by frame
//! number too. A peer's metadata is placed before the first frame, so that all free frames form whole blocks. If the
//! metadata cut into the frames, a remainder of nearly every order would be free, and the peer would never have to
//! split or merge. No memory is resident until the peer accesses it.

use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};

use super::BootError;
use crate::units::{FRAME_BYTES, Frame, ORDERS, Order};

/// Bytes of the largest block.
pub(crate) const BLOCK_BYTES_MAX: usize = Order::new(ORDERS as u8 - 1).bytes();

/// Range of zeroed memory, numbered by frame; unmapped when dropped.
pub(crate) struct Reserve {
    base: NonNull<u8>,
    bytes: usize,
    books: usize,
    /// Owner of the mapping. It is never read, because the peer writes to the memory through raw pointers.
    _map: MmapMut,
}

impl Reserve {
    /// Maps memory for `frames` frames, with one system call.
    ///
    /// # Errors
    /// Returns [`BootError::Memory`] if the system refuses.
    pub(crate) fn new(frames: u32) -> Result<Reserve, BootError> {
        Reserve::with_books(frames, 0)
    }

    /// Maps memory for `frames` frames, with `books` bytes for metadata directly before the first frame.
    ///
    /// # Errors
    /// As [`Reserve::new`].
    pub(crate) fn with_books(frames: u32, books: usize) -> Result<Reserve, BootError> {
        let bytes = frames as usize * FRAME_BYTES;
        let mapped = books + BLOCK_BYTES_MAX + bytes;
        let map = MmapOptions::new().len(mapped).no_reserve_swap().map_anon();
        let mut map = map.map_err(|source| BootError::Memory { bytes: mapped, source })?;
        let behind_books = map.as_mut_ptr().wrapping_add(books);
        let base = behind_books.wrapping_add(behind_books.align_offset(BLOCK_BYTES_MAX));
        let base = NonNull::new(base).ok_or(BootError::Refused { frames })?;
        Ok(Reserve { base, bytes, books, _map: map })
    }

    /// Returns the start of the metadata, which ends where the first frame starts.
    pub(crate) fn books(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_sub(self.books)
    }

    /// Returns the bytes of metadata and frames together.
    pub(crate) fn bytes_with_books(&self) -> usize {
        self.books + self.bytes
    }

    /// Returns the start of the first frame.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the frame that contains `address`.
    #[inline]
    pub(crate) fn frame_at(&self, address: usize) -> Frame {
        Frame::at_offset(address - self.base.addr().get())
    }

    /// Returns the start of a frame.
    #[inline]
    pub(crate) fn start_of(&self, frame: Frame) -> *mut u8 {
        self.base.as_ptr().wrapping_add(frame.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_numbered_from_an_aligned_base() {
        let reserve = Reserve::new(4096).unwrap();
        assert_eq!(reserve.base().addr().get() % BLOCK_BYTES_MAX, 0);
        for frame in [Frame(0), Frame(1), Frame(4095)] {
            assert_eq!(reserve.frame_at(reserve.start_of(frame).addr()), frame);
        }
    }

    #[test]
    fn metadata_precedes_the_first_frame() {
        let reserve = Reserve::with_books(4096, 3 * FRAME_BYTES).unwrap();
        assert_eq!(reserve.base().addr().get() % BLOCK_BYTES_MAX, 0);
        assert_eq!(reserve.books().addr() + 3 * FRAME_BYTES, reserve.base().addr().get());
        // SAFETY: the metadata is inside the mapping, which is zeroed and used only by this test.
        assert_eq!(unsafe { reserve.books().read() }, 0);
        assert_eq!(reserve.bytes_with_books(), (4096 + 3) * FRAME_BYTES);
    }

    #[test]
    fn last_byte_is_mapped_and_zero() {
        let reserve = Reserve::new(3).unwrap();
        // SAFETY: the byte is inside the mapping, which is zeroed and used only by this test.
        assert_eq!(unsafe { reserve.base().add(reserve.bytes() - 1).read() }, 0);
    }
}
