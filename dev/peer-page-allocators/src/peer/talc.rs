//! `talc`: a general allocator with binned free lists, asked for blocks of pages aligned to their size.
//!
//! It writes a tag after each block, so the next block of the same alignment starts one block later: a page costs
//! two. It is given twice the memory, that it can hold what the others hold. Free blocks are linked through their
//! own memory.

use std::alloc::Layout;
use std::ptr::NonNull;

use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::Manual;

use super::reserve::Reserve;
use super::{BootError, Peer};
use crate::units::{Frame, ORDERS, Order};

/// Frames of memory for each frame that can be handed out.
const FRAMES_A_FRAME: u32 = 2;

/// A general allocator as an allocator of pages.
pub(crate) struct AlignedTalc {
    allocator: Talc<Manual, DefaultBinning>,
    /// What it is asked for, by order.
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
        // SAFETY: nobody else touches the reserve, it lives as long as the allocator, and `Manual` lets us claim.
        let heap = unsafe { allocator.claim(reserve.base().as_ptr(), reserve.bytes()) };
        heap.ok_or(refused)?;
        Ok(AlignedTalc { allocator, layouts, reserve })
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        let layout = self.layouts[usize::from(order.raw())];
        // SAFETY: no block is empty.
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
    fn keeps_the_front_s_promises() {
        examine::<AlignedTalc>(&[0, 3, 4, 9]);
    }
}
