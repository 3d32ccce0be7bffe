//! `frame-alloc`: a lock-free buddy system of bitmaps, alone and behind its own per-CPU cache of single frames.
//!
//! Without the cache, every operation changes bitmap words by compare-and-swap. With the cache (`DepotAllocator`),
//! single frames are taken from and returned to a small array of the CPU, which has a lock of its own. Larger blocks
//! bypass the cache. Because of these per-CPU arrays, this peer resembles Linux most. The bitmaps are before the first
//! frame.

use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};

use frame_alloc::{
    DepotAllocator, InitError, NoCpuId, PageSize, PhysRange, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};

use super::reserve::{BLOCK_BYTES_MAX, Reserve};
use super::{BootError, Peer};
use crate::units::{FRAME_SHIFT, Frame, ORDERS, Order};

/// Size of a frame in the package's type.
const BASE: PageSize = PageSize::from_log2(FRAME_SHIFT as u8);
/// CPUs for which the cache has room. `NoCpuId` always returns the first, so finding the current CPU costs nothing
/// here.
const CPUS: usize = 64;

/// Lock-free bitmaps.
type Bitmaps = SummaryBuddyAllocator<ORDERS, Exposed>;
/// Lock-free bitmaps behind per-CPU arrays of the default sizes.
type CachedBitmaps = DepotAllocator<Bitmaps, NoCpuId, CPUS>;

/// Strategy that turns an address in the reserve back into a pointer.
pub(crate) struct Exposed;

// SAFETY: `boot` exposes the provenance of the whole reserve, which is one mapping, before the allocator calls
// `create`. So the recovered pointer is valid for the whole run. No allocation ends at `destroy`, which only returns
// the address.
unsafe impl Provenance for Exposed {
    unsafe fn create(address: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("the reserved range does not start at address 0")
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.expose_provenance().get()
    }
}

/// Allocator of the package that has no memory yet.
pub(crate) trait Flavour: PhysicalAllocator + RegionInit {
    /// Creates an allocator without memory.
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

/// Allocator of the package with its memory.
pub(crate) struct FrameAlloc<A> {
    allocator: Box<A>,
    reserve: Reserve,
}

/// Allocator without the cache.
pub(crate) type Plain = FrameAlloc<Bitmaps>;
/// Allocator behind its per-CPU cache.
pub(crate) type Cached = FrameAlloc<CachedBitmaps>;

impl<A: Flavour> Peer for FrameAlloc<A> {
    fn boot(frames: u32) -> Result<Self, BootError> {
        let refused = || BootError::Refused { frames };
        let reserve = Reserve::with_books(frames, BLOCK_BYTES_MAX)?;
        let allocator = Box::new(A::empty());
        let (start, bytes) = (reserve.books().expose_provenance(), reserve.bytes_with_books());
        // SAFETY: the provenance of the reserve is exposed, nothing else accesses the reserve, it lives as long as the
        // allocator, and no other thread has the allocator. The same holds for the second call. The first call passes
        // no usable memory, to learn how many bytes the bitmaps need.
        let trial = unsafe { allocator.try_init(start, bytes, &[]) };
        let Err(InitError::MetadataWontFit { required_bytes }) = trial else { return Err(refused()) };
        let books = PhysRange { base: start, len: required_bytes };
        let pages = PhysRange { base: reserve.base().addr().get(), len: reserve.bytes() };
        // SAFETY: as for the first call: nothing else accesses the reserve, it outlives the allocator, and no other
        // thread has the allocator.
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
        // SAFETY: the caller got the block from `alloc` with this order, and so with this page size and count. The
        // caller does not use the block after this call.
        unsafe { self.allocator.deallocate_physical(BASE, frames_of(order), address) }
    }
}

fn frames_of(order: Order) -> NonZeroUsize {
    NonZeroUsize::new(order.frames()).expect("a block has at least one frame")
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{examine, examine_wholeness};
    use super::*;

    #[test]
    fn plain_allocator_conforms_to_the_peer_interface() {
        examine::<Plain>(&[0, 3, 4, 9]);
    }

    #[test]
    fn cached_allocator_conforms_to_the_peer_interface() {
        examine::<Cached>(&[0, 3, 4, 9]);
    }

    #[test]
    fn initial_blocks_are_whole() {
        examine_wholeness::<Plain>();
        examine_wholeness::<Cached>();
    }
}
