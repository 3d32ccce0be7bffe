//! `frame-alloc`: a buddy system of bitmaps without a lock, alone and below its own per-CPU cache of single frames.
//!
//! Alone, every operation changes bitmap words by compare-and-swap. Behind the cache (`DepotAllocator`), single
//! frames come from and go to a small array of the CPU under a lock of its own; larger blocks pass it by. Its
//! per-CPU arrays make it the peer that is built most like Linux. The bitmaps lie before the first frame.

use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};

use frame_alloc::{
    DepotAllocator, InitError, NoCpuId, PageSize, PhysRange, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};

use super::reserve::{BLOCK_BYTES_MAX, Reserve};
use super::{BootError, Peer};
use crate::units::{FRAME_SHIFT, Frame, ORDERS, Order};

/// The size of a frame, in the package's words.
const BASE: PageSize = PageSize::from_log2(FRAME_SHIFT as u8);
/// CPUs that the cache has room for; asking which one runs is free here, since it is always the first.
const CPUS: usize = 64;

/// Bitmaps without a lock.
type Bitmaps = SummaryBuddyAllocator<ORDERS, Exposed>;
/// The same below per-CPU arrays, at their default sizes.
type CachedBitmaps = DepotAllocator<Bitmaps, NoCpuId, CPUS>;

/// Turns an address of the reserve back into a pointer.
pub(crate) struct Exposed;

// SAFETY: `boot` exposes the provenance of the whole reserve before the allocator asks for any of it, and nothing
// ends at `destroy`.
unsafe impl Provenance for Exposed {
    unsafe fn create(address: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("the reserve does not start at address 0")
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.expose_provenance().get()
    }
}

/// One of the package's allocators as it comes, before it knows its memory.
pub(crate) trait Flavour: PhysicalAllocator + RegionInit {
    /// An empty one.
    fn empty() -> Self;
}

impl Flavour for Bitmaps {
    fn empty() -> Self {
        Bitmaps::new(BASE)
    }
}

impl Flavour for CachedBitmaps {
    fn empty() -> Self {
        CachedBitmaps::new(BASE, Bitmaps::new(BASE))
    }
}

/// Any of the package's allocators with its memory.
pub(crate) struct FrameAlloc<A> {
    allocator: Box<A>,
    reserve: Reserve,
}

/// The allocator alone.
pub(crate) type Plain = FrameAlloc<Bitmaps>;
/// The allocator below its per-CPU cache.
pub(crate) type Cached = FrameAlloc<CachedBitmaps>;

impl<A: Flavour> Peer for FrameAlloc<A> {
    fn boot(frames: u32) -> Result<Self, BootError> {
        let refused = || BootError::Refused { frames };
        let reserve = Reserve::with_books(frames, BLOCK_BYTES_MAX)?;
        let allocator = Box::new(A::empty());
        let (start, bytes) = (reserve.books().expose_provenance(), reserve.bytes_with_books());
        // SAFETY: nobody else touches the reserve, it lives as long as the allocator, and this is the only thread.
        // That holds for the second call too; the first gives no memory away, to learn how much the bitmaps need.
        let trial = unsafe { allocator.try_init(start, bytes, &[]) };
        let Err(InitError::MetadataWontFit { required_bytes }) = trial else { return Err(refused()) };
        let books = PhysRange { base: start, len: required_bytes };
        let pages = PhysRange { base: reserve.base().addr().get(), len: reserve.bytes() };
        // SAFETY: as for the first call: the reserve is ours, outlives the allocator, and this is the only thread.
        unsafe { allocator.try_init(start, bytes, &[books, pages]) }.map_err(|_| refused())?;
        Ok(FrameAlloc { allocator, reserve })
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        let address = self.allocator.allocate_physical(BASE, frames_of(order)).ok()?;
        Some(self.reserve.frame_at(address))
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        let address = self.reserve.start_of(block).addr();
        // SAFETY: the caller got the block from `alloc` with this order, and so with this count.
        unsafe { self.allocator.deallocate_physical(BASE, frames_of(order), address) }
    }
}

fn frames_of(order: Order) -> NonZeroUsize {
    NonZeroUsize::new(order.frames()).expect("no block is empty")
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{examine, examine_wholeness};
    use super::*;

    #[test]
    fn keeps_the_front_s_promises() {
        examine::<Plain>(&[0, 3, 4, 9]);
    }

    #[test]
    fn keeps_the_front_s_promises_behind_its_cache() {
        examine::<Cached>(&[0, 3, 4, 9]);
    }

    #[test]
    fn no_block_is_split_at_first() {
        examine_wholeness::<Plain>();
        examine_wholeness::<Cached>();
    }
}
