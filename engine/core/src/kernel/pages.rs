//! Owned blocks of pages, freed on drop.
//!
//! # Design
//!
//! A handle pins its block with a bit of the state word (`PINNED`). Allocation sets the bit in the word that it stores
//! anyway. Compaction and ranges skip pinned blocks, and the blocks of slabs. [`into_raw`](Pages::into_raw) clears the
//! bit and [`from_raw`](Pages::from_raw) sets it, with one atomic step each, and for movable blocks only. A migration
//! compares the whole word before it takes the old place. A result `Moved` is therefore ignored for a block that was
//! pinned in the meantime.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::{Cpu, Engine};
use crate::base::{Order, Pfn};

/// An owned block of pages, mapped and aligned to its size. Dropping it frees the block.
///
/// Only the owner can free the block, so a double free is impossible. Its contents are uninitialized, or zeros if it
/// was requested with [`Gfp::ZERO`](crate::base::Gfp::ZERO).
///
/// The handle pins the block: compaction, contiguous ranges and CMA areas pass over it. A block that was requested with
/// [`Gfp::MOVABLE`](crate::base::Gfp::MOVABLE) can move between [`into_raw`](Self::into_raw) and
/// [`from_raw`](Self::from_raw), while the kernel keeps it by number. A movable block that stays in its handle for a
/// long time keeps a CMA area from allocating those pages.
pub struct Pages<H: Cpu> {
    pfn: Pfn,
    order: Order,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> Pages<H> {
    pub(super) fn new(pfn: Pfn, order: Order) -> Pages<H> {
        Pages { pfn, order, hardware: PhantomData }
    }

    /// Returns the first frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Returns the order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the physical address, as a device needs it.
    pub fn physical(&self) -> u64 {
        physical::<H>(self.pfn)
    }

    /// Returns the virtual address.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.pfn)
    }

    /// Returns the bytes of the block.
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        let len = self.order.pages() as usize * H::PAGE_SIZE as usize;
        // SAFETY: the block is mapped, and this handle owns it; it is borrowed mutably, so no other reference to the
        // bytes exists.
        unsafe { engine::<H>().memory.bytes(self.pfn, len) }
    }

    /// Releases the handle and returns the frame and order, for a kernel that keeps the block in another form, for
    /// example in a page table. The block stays allocated. If its request was movable, the engine may ask
    /// [`Promises::migrate`](super::Promises::migrate) to move it from now on.
    pub fn into_raw(self) -> (Pfn, Order) {
        let (pfn, order) = (self.pfn, self.order);
        core::mem::forget(self);
        let unpinned = engine::<H>().pages.unpin(pfn, order);
        debug_assert_eq!(
            unpinned,
            Ok(()),
            "frame {pfn} of a handle is not the head of an allocated block of order {order}"
        );
        (pfn, order)
    }

    /// Creates a handle for a block that left its handle earlier, and pins the block.
    ///
    /// At this moment another CPU may be calling [`Promises::migrate`](super::Promises::migrate) for this block. So the
    /// kernel looks up the number, and calls this function, under the lock under which its `migrate` changes that
    /// number. Alternatively it prevents `migrate` from moving the block in another way. Once this function has
    /// returned, a result of [`Moved`](crate::platform::Migrated::Moved) for the block is ignored: the block stays with
    /// the handle, and the pages at the new place are lost.
    ///
    /// # Panics
    /// If no allocated block of this order begins at the frame.
    ///
    /// # Safety
    /// The block left its handle by [`into_raw`](Self::into_raw) and has had no handle since. `pfn` is its current
    /// place: the place that the last [`Moved`](crate::platform::Migrated::Moved) for it gave, or the number that
    /// `into_raw` returned if the block never moved.
    pub unsafe fn from_raw(pfn: Pfn, order: Order) -> Pages<H> {
        let pinned = engine::<H>().pages.pin(pfn, order);
        assert_eq!(
            pinned,
            Ok(()),
            "no allocated block of order {order} begins at frame {pfn}: the block was freed or moved"
        );
        Pages::new(pfn, order)
    }
}

/// Returns the size of the largest block in bytes, which is the largest alignment of blocks and the least of the direct
/// map.
pub(super) const fn largest_block<H: Cpu>() -> usize {
    (H::PAGE_SIZE as usize) << Order::MAX.get()
}

/// Returns the physical address of a frame.
pub(super) fn physical<H: Cpu>(pfn: Pfn) -> u64 {
    u64::from(pfn.raw()) * u64::from(H::PAGE_SIZE)
}

/// Returns the engine of a kernel that has allocated something and therefore is set up.
pub(super) fn engine<H: Cpu>() -> &'static Engine<H> {
    H::kernel().engine().expect("a kernel that has allocated memory is set up")
}

impl<H: Cpu> Drop for Pages<H> {
    fn drop(&mut self) {
        let freed = engine::<H>().pages.free_pages(self.pfn, self.order);
        debug_assert_eq!(freed, Ok(()), "the free of an owned block failed");
    }
}

impl<H: Cpu> fmt::Debug for Pages<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("pfn", &self.pfn).field("order", &self.order).finish()
    }
}
