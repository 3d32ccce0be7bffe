//! A block of pages that has an owner: it goes back when that is dropped.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::{Cpu, Engine};
use crate::base::{Order, Pfn};

/// A block of pages, its owner's alone, mapped and aligned to its size. Dropped, it is free.
///
/// Only its owner can free it, so there is no second free to be refused. Its contents are whatever was there, or zeros
/// if it was requested with [`Gfp::ZERO`](crate::base::Gfp::ZERO).
///
/// The handle pins the block: compaction, contiguous ranges and CMA areas pass over it. A block that was requested with
/// [`Gfp::MOVABLE`](crate::base::Gfp::MOVABLE) can move from [`into_raw`](Self::into_raw) to
/// [`from_raw`](Self::from_raw), while the kernel knows it by number. A movable block that stays in its handle for long
/// keeps a CMA area from handing out the place.
pub struct Pages<H: Cpu> {
    pfn: Pfn,
    order: Order,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> Pages<H> {
    pub(super) fn new(pfn: Pfn, order: Order) -> Pages<H> {
        Pages { pfn, order, hardware: PhantomData }
    }

    /// Its first frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Its order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Its physical address: what a device is told.
    pub fn physical(&self) -> u64 {
        physical::<H>(self.pfn)
    }

    /// Where it is mapped.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.pfn)
    }

    /// Its bytes.
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        let len = self.order.pages() as usize * H::PAGE_SIZE as usize;
        // SAFETY: the block is mapped there, and this value's alone.
        unsafe { engine::<H>().memory.bytes(self.pfn, len) }
    }

    /// Returns the frame and order, for a kernel that keeps the block in another way: in a page table, for example. The
    /// block stays allocated. If its request was movable, [`Promises::migrate`](super::Promises::migrate) may be asked to
    /// move it from now on.
    pub fn into_raw(self) -> (Pfn, Order) {
        let (pfn, order) = (self.pfn, self.order);
        core::mem::forget(self);
        let is_block = engine::<H>().pages.unpin(pfn, order);
        debug_assert!(is_block, "frame {pfn} of a handle heads no allocated block of order {order}");
        (pfn, order)
    }

    /// Makes a handle of the block again, which pins it.
    ///
    /// The engine may be asking [`Promises::migrate`](super::Promises::migrate) about this block on another CPU at this
    /// moment. So the kernel looks the number up, and calls this function, under the lock under which its `migrate`
    /// changes that number; or it keeps `migrate` from moving the block in another way. Once this function has returned,
    /// a [`Moved`](crate::platform::Migrated::Moved) for the block is not believed: the block stays with the handle, and
    /// the new place is lost.
    ///
    /// # Panics
    /// If no allocated block of this order begins at the frame.
    ///
    /// # Safety
    /// The block left its handle by [`into_raw`](Self::into_raw), and did not return since. `pfn` is where it is now:
    /// the place that the last [`Moved`](crate::platform::Migrated::Moved) for it gave, or that `into_raw` gave if it
    /// never moved.
    pub unsafe fn from_raw(pfn: Pfn, order: Order) -> Pages<H> {
        let is_block = engine::<H>().pages.pin(pfn, order);
        assert!(is_block, "no allocated block of order {order} begins at frame {pfn}: it was freed, or moved");
        Pages::new(pfn, order)
    }
}

/// Bytes of the largest block, which is what blocks and the direct map are aligned to at most.
pub(super) const fn largest_block<H: Cpu>() -> usize {
    (H::PAGE_SIZE as usize) << Order::MAX.get()
}

/// The physical address of a frame.
pub(super) fn physical<H: Cpu>(pfn: Pfn) -> u64 {
    u64::from(pfn.raw()) * u64::from(H::PAGE_SIZE)
}

/// The engine of a kernel that has handed something out.
pub(super) fn engine<H: Cpu>() -> &'static Engine<H> {
    H::kernel().engine().expect("what it has handed out says that it is set up")
}

impl<H: Cpu> Drop for Pages<H> {
    fn drop(&mut self) {
        let freed = engine::<H>().pages.free_pages(self.pfn, self.order);
        debug_assert_eq!(freed, Ok(()), "an owned block is its owner's to free");
    }
}

impl<H: Cpu> fmt::Debug for Pages<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("pfn", &self.pfn).field("order", &self.order).finish()
    }
}
