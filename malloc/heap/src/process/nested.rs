//! What a call may use that finds its own thread within a slow path: a handler of a signal that came just then, and what
//! the loader asks for while the heap is being made. Where no heap can be made, all requests use it.
//!
//! Memory comes from a piece set aside, by one atomic step, and is used once: a handler rarely comes at such a moment,
//! and what it takes then is little. When the piece is used up, such a call finds no memory. What is freed goes to a
//! list that takes no lock either; whoever leaves a slow path next frees it.

use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

/// Bytes set aside: pages of it take memory when they are used.
pub(super) const BYTES: usize = 4 << 20;
/// Bytes before each block, which say how large it is.
const HEADER: usize = 16;

#[repr(C, align(4096))]
struct Piece(UnsafeCell<[u8; BYTES]>);

/// The piece, and the list.
pub(super) struct Nested {
    piece: Piece,
    /// Bytes of the piece that were handed out.
    used: AtomicUsize,
    deferred: AtomicPtr<u8>,
}

// SAFETY: parts of the piece are handed out once each, by an atomic step; the rest is atomic.
unsafe impl Sync for Nested {}

impl Nested {
    pub(super) const fn new() -> Nested {
        Nested {
            piece: Piece(UnsafeCell::new([0; BYTES])),
            used: AtomicUsize::new(0),
            deferred: AtomicPtr::new(null_mut()),
        }
    }

    /// Zeros, so many bytes of them; `None` if the piece is used up.
    pub(super) fn alloc(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let base = self.piece.0.get().addr();
        let align = align.max(HEADER);
        let mut used = self.used.load(Relaxed);
        loop {
            let start = (base + used + HEADER).checked_next_multiple_of(align)? - base;
            let end = start.checked_add(size).filter(|&end| end <= BYTES)?;
            match self.used.compare_exchange_weak(used, end, Relaxed, Relaxed) {
                Ok(_) => {
                    let block = self.piece.0.get().cast::<u8>().wrapping_add(start);
                    // SAFETY: it and the header before it are parts of the piece that nobody else gets.
                    unsafe {
                        block.sub(HEADER).cast::<usize>().write_unaligned(size);
                        return Some(NonNull::new_unchecked(block));
                    }
                }
                Err(now) => used = now,
            }
        }
    }

    /// Whether it came from here.
    #[inline]
    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.piece.0.get().addr()) < BYTES
    }

    /// Bytes of a block of the piece.
    ///
    /// # Safety
    /// [`alloc`](Self::alloc) gave it.
    pub(super) unsafe fn usable(&self, block: NonNull<u8>) -> usize {
        // SAFETY: its header lies before it.
        unsafe { block.sub(HEADER).cast::<usize>().read_unaligned() }
    }

    /// Puts what is to be freed on the list.
    ///
    /// # Safety
    /// The caller gives it up; it is at least 8 bytes long.
    pub(super) unsafe fn defer(&self, object: NonNull<u8>) {
        let mut first = self.deferred.load(Relaxed);
        loop {
            // SAFETY: it is ours now, and has room for an address.
            unsafe { object.cast::<*mut u8>().write_unaligned(first) };
            match self.deferred.compare_exchange_weak(first, object.as_ptr(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes what is on the list, object by object.
    #[inline]
    pub(super) fn take_deferred(&self) -> impl Iterator<Item = NonNull<u8>> + use<> {
        let first =
            if self.deferred.load(Relaxed).is_null() { null_mut() } else { self.deferred.swap(null_mut(), AcqRel) };
        let mut next = NonNull::new(first);
        core::iter::from_fn(move || {
            let object = next?;
            // SAFETY: whoever put it on the list left the next one's address there, and gave it up.
            next = NonNull::new(unsafe { object.cast::<*mut u8>().read_unaligned() });
            Some(object)
        })
    }

    /// Whether something is on the list.
    #[cfg(test)]
    fn is_deferring(&self) -> bool {
        !self.deferred.load(Relaxed).is_null()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn blocks_are_aligned_apart_and_know_their_size() {
        static NESTED: Nested = Nested::new();
        let sizes = [1_usize, 8, 17, 100, 5000];
        let blocks: Vec<_> = sizes.iter().flat_map(|&size| [16, 64, 4096].map(|align| (size, align))).collect();
        let got: Vec<_> =
            blocks.iter().map(|&(size, align)| NESTED.alloc(size, align).expect("there is room")).collect();
        for (&(size, align), &block) in blocks.iter().zip(&got) {
            assert!(block.as_ptr().addr().is_multiple_of(align) && NESTED.contains(block.as_ptr().addr()));
            // SAFETY: it came from there, and is ours.
            unsafe {
                assert_eq!(NESTED.usable(block), size);
                block.write_bytes(0xff, size);
            }
        }
        assert_eq!(NESTED.alloc(BYTES, 16), None);
    }

    #[test]
    fn what_is_deferred_is_taken_once() {
        static NESTED: Nested = Nested::new();
        let nested = &NESTED;
        let objects: Vec<_> = (0..10).map(|_| nested.alloc(8, 16).expect("there is room")).collect();
        // SAFETY: nobody uses them any more.
        objects.iter().for_each(|&object| unsafe { nested.defer(object) });
        assert!(nested.is_deferring());
        let taken: Vec<_> = nested.take_deferred().collect();
        assert_eq!(taken, objects.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!((nested.take_deferred().count(), nested.is_deferring()), (0, false));
    }
}
