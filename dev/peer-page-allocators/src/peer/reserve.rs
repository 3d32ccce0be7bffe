//! Address space for peers that write into the memory that they manage.
//!
//! The first frame starts at a multiple of the largest block, so that a block aligned by address is aligned by frame
//! number too. What a peer keeps its books in lies before it, so that the frames are whole blocks when all are
//! free: a peer whose books cut into them would have a block of nearly every order left over, and never have to
//! split or merge. Nothing is resident until the peer touches it.

use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};

use super::BootError;
use crate::units::{FRAME_BYTES, Frame, ORDERS, Order};

/// Bytes of the largest block.
pub(crate) const BLOCK_BYTES_MAX: usize = Order::new(ORDERS as u8 - 1).bytes();

/// A span of zeroed memory, numbered by frame; given back when dropped.
pub(crate) struct Reserve {
    base: NonNull<u8>,
    bytes: usize,
    books: usize,
    /// Owns the memory; never looked into, because the peer writes behind its back.
    _map: MmapMut,
}

impl Reserve {
    /// Memory of `frames` frames. One system call.
    ///
    /// # Errors
    /// [`BootError::Memory`] when the system refuses.
    pub(crate) fn new(frames: u32) -> Result<Reserve, BootError> {
        Reserve::with_books(frames, 0)
    }

    /// Memory of `frames` frames, and `books` bytes right before the first.
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

    /// Where the books start; they end where the first frame starts.
    pub(crate) fn books(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_sub(self.books)
    }

    /// Bytes of books and frames together.
    pub(crate) fn bytes_with_books(&self) -> usize {
        self.books + self.bytes
    }

    /// Where the first frame starts.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The frame that `address` lies in.
    #[inline]
    pub(crate) fn frame_at(&self, address: usize) -> Frame {
        Frame::at_offset(address - self.base.addr().get())
    }

    /// Where a frame starts.
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
    fn books_lie_before_the_first_frame() {
        let reserve = Reserve::with_books(4096, 3 * FRAME_BYTES).unwrap();
        assert_eq!(reserve.base().addr().get() % BLOCK_BYTES_MAX, 0);
        assert_eq!(reserve.books().addr() + 3 * FRAME_BYTES, reserve.base().addr().get());
        // SAFETY: the books are inside the reserve, which nobody else uses.
        assert_eq!(unsafe { reserve.books().read() }, 0);
        assert_eq!(reserve.bytes_with_books(), (4096 + 3) * FRAME_BYTES);
    }

    #[test]
    fn the_last_byte_is_there_and_zero() {
        let reserve = Reserve::new(3).unwrap();
        // SAFETY: the byte lies inside the reserve, which nobody else uses.
        assert_eq!(unsafe { reserve.base().add(reserve.bytes() - 1).read() }, 0);
    }
}
