//! Memory for calls that find their own thread in a slow path. Such calls come from a signal handler that interrupts
//! the slow path, or from the loader while the heap is created. If no heap can be created, all requests are served from
//! here.
//!
//! Memory is taken from a reserved piece by one atomic step, and is never reused. Such calls are rare and need little
//! memory. When the piece is used up, they get no memory. All but the first part of the piece is inaccessible until it
//! is needed, so that a program which locks its memory does not fill it. Blocks of the heap that such calls free are
//! pushed to a list without a lock; the next thread that leaves a slow path frees them.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use rustix::mm::{MprotectFlags, mprotect};

/// Bytes of the piece. Its pages take memory only when they are used.
pub(super) const BYTES: usize = 4 << 20;
/// Bytes of the piece that are always accessible, and by which more becomes accessible.
const PART: usize = 64 << 10;
/// Bytes before each block, which hold the block's size.
const HEADER: usize = 16;

#[repr(C, align(4096))]
struct Piece(UnsafeCell<[u8; BYTES]>);

/// The piece, and the list of deferred frees.
pub(super) struct Nested {
    piece: Piece,
    /// Bytes of the piece that were allocated.
    used: AtomicUsize,
    /// Number of accessible bytes of the piece, or 0 if all are: a piece that is all zeros takes no space in the file
    /// of the library.
    accessible: AtomicUsize,
    deferred: AtomicPtr<u8>,
}

// SAFETY: an atomic step hands out each part of the piece once, and the other fields are atomic.
unsafe impl Sync for Nested {}

impl Nested {
    pub(super) const fn new() -> Nested {
        Nested {
            piece: Piece(UnsafeCell::new([0; BYTES])),
            used: AtomicUsize::new(0),
            accessible: AtomicUsize::new(0),
            deferred: AtomicPtr::new(null_mut()),
        }
    }

    /// Makes the unused part of the piece inaccessible until it is needed. If the kernel refuses that, for example
    /// where pages are larger than the alignment of the piece, all of the piece stays accessible. Requests that
    /// interrupt this call find no memory.
    pub(super) fn hide_unused(&self) {
        let used = self.used.swap(BYTES, AcqRel);
        let kept = used.next_multiple_of(PART).max(PART);
        if kept < BYTES && self.protect(kept, BYTES, MprotectFlags::empty()) {
            self.accessible.store(kept, Release);
        }
        self.used.store(used, Release);
    }

    /// Makes the piece accessible up to `end`. Concurrent calls are harmless, since no part becomes inaccessible again.
    fn uncover(&self, end: usize) -> bool {
        let accessible = self.accessible.load(Acquire);
        if accessible == 0 || end <= accessible {
            return true;
        }
        let wanted = end.next_multiple_of(PART);
        let is_uncovered = self.protect(accessible, wanted, MprotectFlags::READ | MprotectFlags::WRITE);
        if is_uncovered {
            self.accessible.fetch_max(wanted, Release);
        }
        is_uncovered
    }

    /// Sets the protection of the bytes from `start` up to `end`, both multiples of [`PART`].
    fn protect(&self, start: usize, end: usize, protection: MprotectFlags) -> bool {
        let first = self.piece.0.get().cast::<u8>().wrapping_add(start);
        // SAFETY: the range is a part of the piece. `hide_unused` protects bytes beyond all blocks, and `uncover` makes
        // bytes accessible, so no block that is in use becomes inaccessible.
        unsafe { mprotect(first.cast::<c_void>(), end - start, protection) }.is_ok()
    }

    /// Allocates zeroed memory; returns `None` if the piece is used up.
    pub(super) fn alloc(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let base = self.piece.0.get().addr();
        let align = align.max(HEADER);
        let mut used = self.used.load(Relaxed);
        loop {
            let start = (base + used + HEADER).checked_next_multiple_of(align)? - base;
            let end = start.checked_add(size).filter(|&end| end <= BYTES && self.uncover(end))?;
            match self.used.compare_exchange_weak(used, end, Acquire, Relaxed) {
                Ok(_) => {
                    let block = self.piece.0.get().cast::<u8>().wrapping_add(start);
                    // SAFETY: the exchange has reserved the block and the header before it for this call, so no other
                    // caller gets them.
                    unsafe {
                        block.sub(HEADER).cast::<usize>().write_unaligned(size);
                        return Some(NonNull::new_unchecked(block));
                    }
                }
                Err(now) => used = now,
            }
        }
    }

    /// Returns whether an address is in the piece.
    #[inline]
    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.piece.0.get().addr()) < BYTES
    }

    /// Returns the size in bytes of a block of the piece.
    ///
    /// # Safety
    /// [`alloc`](Self::alloc) returned the block.
    pub(super) unsafe fn usable(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller promises that `alloc` returned the block, so it has a header before it.
        unsafe { block.sub(HEADER).cast::<usize>().read_unaligned() }
    }

    /// Pushes a block that is to be freed to the list.
    ///
    /// # Safety
    /// The block is not used any more, and has at least 8 bytes.
    pub(super) unsafe fn defer(&self, object: NonNull<u8>) {
        let mut first = self.deferred.load(Relaxed);
        loop {
            // SAFETY: the caller gave up the block and promises at least 8 bytes, which hold an address.
            unsafe { object.cast::<*mut u8>().write_unaligned(first) };
            match self.deferred.compare_exchange_weak(first, object.as_ptr(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes the whole list, and returns its blocks one by one.
    #[inline]
    pub(super) fn take_deferred(&self) -> impl Iterator<Item = NonNull<u8>> + use<> {
        let first =
            if self.deferred.load(Relaxed).is_null() { null_mut() } else { self.deferred.swap(null_mut(), AcqRel) };
        let mut next = NonNull::new(first);
        core::iter::from_fn(move || {
            let object = next?;
            // SAFETY: `defer` wrote the address of the next block into this one, and the list is taken, so no other
            // thread uses it.
            next = NonNull::new(unsafe { object.cast::<*mut u8>().read_unaligned() });
            Some(object)
        })
    }

    /// Returns whether the list has a block.
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
    fn nested_blocks_are_aligned_and_keep_their_size() {
        static NESTED: Nested = Nested::new();
        NESTED.hide_unused();
        let sizes = [1_usize, 8, 17, 100, 5000];
        let blocks: Vec<_> = sizes.iter().flat_map(|&size| [16, 64, 4096].map(|align| (size, align))).collect();
        let got: Vec<_> =
            blocks.iter().map(|&(size, align)| NESTED.alloc(size, align).expect("the piece has room")).collect();
        for (&(size, align), &block) in blocks.iter().zip(&got) {
            assert!(block.as_ptr().addr().is_multiple_of(align) && NESTED.contains(block.as_ptr().addr()));
            // SAFETY: `alloc` just returned the block with `size` bytes, and only the test uses it.
            unsafe {
                assert_eq!(NESTED.usable(block), size);
                block.write_bytes(0xff, size);
            }
        }
        let large = NESTED.alloc(3 << 20, 16).expect("the piece has room");
        // SAFETY: as for the other blocks.
        unsafe { large.write_bytes(0xff, 3 << 20) };
        assert_eq!(NESTED.alloc(BYTES, 16), None);
    }

    #[test]
    fn deferred_blocks_are_taken_once() {
        static NESTED: Nested = Nested::new();
        let nested = &NESTED;
        let objects: Vec<_> = (0..10).map(|_| nested.alloc(8, 16).expect("the piece has room")).collect();
        // SAFETY: the test does not use the blocks any more, and each has 8 bytes.
        objects.iter().for_each(|&object| unsafe { nested.defer(object) });
        assert!(nested.is_deferring());
        let taken: Vec<_> = nested.take_deferred().collect();
        assert_eq!(taken, objects.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!((nested.take_deferred().count(), nested.is_deferring()), (0, false));
    }
}
