//! A block of pages that has an owner: it goes back when that is dropped.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::{Cpu, Engine};
use crate::base::{Order, Pfn};

/// A block of pages, its owner's alone, mapped and aligned to its size. Dropped, it is free.
///
/// It is freed by who owns it and nobody else, so there is no second free to be refused. Its contents are whatever was
/// there, or zeros, if it was asked for with [`Gfp::ZERO`](crate::base::Gfp::ZERO).
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

    /// Its frame and order, for one who keeps the block in another way: in a page table, say. It stays allocated.
    pub fn into_raw(self) -> (Pfn, Order) {
        let block = (self.pfn, self.order);
        core::mem::forget(self);
        block
    }

    /// The block again.
    ///
    /// # Safety
    /// It is what [`into_raw`](Self::into_raw) gave, once.
    pub unsafe fn from_raw(pfn: Pfn, order: Order) -> Pages<H> {
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
