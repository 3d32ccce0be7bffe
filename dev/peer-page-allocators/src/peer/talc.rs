//! `talc`: a general allocator with binned free lists, used for blocks of pages that are aligned to their size.
//!
//! It writes a tag after each block, so the next block with this alignment starts one block later, and a page costs two
//! pages of memory. It therefore gets twice the memory, so that it can hold as many blocks as the other peers. Free
//! blocks are linked through their own memory.

use std::alloc::Layout;
use std::ptr::NonNull;

use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::Manual;

use super::reserve::Reserve;
use super::{BootError, Peer};
use crate::units::{Frame, ORDERS, Order};

/// Frames of memory per frame that can be allocated.
const FRAMES_A_FRAME: u32 = 2;

/// General allocator used as an allocator of pages.
pub(crate) struct AlignedTalc {
    allocator: Talc<Manual, DefaultBinning>,
    /// Layout of a request, by order.
    layouts: [Layout; ORDERS],
    reserve: Reserve,
}

impl Peer for AlignedTalc {
    fn boot(frames: u32) -> Result<Self, BootError> {
        let refused = BootError::Refused { frames };
        let reserve = Reserve::new(frames * FRAMES_A_FRAME)?;
        let mut layouts = [Layout::new::<()>(); ORDERS];
        for (order, layout) in layouts.iter_mut().enumerate() {
            let bytes = Order::new(order as u8).bytes();
            *layout = Layout::from_size_align(bytes, bytes).expect("a block's size is a power of two");
        }
        let mut allocator = Talc::new(Manual);
        // SAFETY: only the allocator and the owners of its blocks write to the reserve, and it lives as long as the
        // allocator. The source `Manual` allows claims.
        let heap = unsafe { allocator.claim(reserve.base().as_ptr(), reserve.bytes()) };
        heap.ok_or(refused)?;
        Ok(AlignedTalc { allocator, layouts, reserve })
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        let layout = self.layouts[usize::from(order.raw())];
        // SAFETY: the size of the layout is not zero, because every block has at least one frame.
        let block = unsafe { self.allocator.allocate(layout) }.map(NonNull::addr)?;
        Some(self.reserve.frame_at(block.get()))
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        let layout = self.layouts[usize::from(order.raw())];
        // SAFETY: the caller got the block from `alloc` with this order, and so with this layout.
        unsafe { self.allocator.deallocate(self.reserve.start_of(block), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::examine;
    use super::*;

    #[test]
    fn talc_conforms_to_the_peer_interface() {
        examine::<AlignedTalc>(&[0, 3, 4, 9]);
    }
}
