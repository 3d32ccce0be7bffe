//! `bitmap-allocator`: a tree of bitmaps with 16 children per node. A set bit means that the subtree contains a free
//! frame.
//!
//! A single page is found by a walk through five words. A larger block is found by testing single bits until enough
//! consecutive ones are free, so the cost grows with the size.

use bitmap_allocator::{BitAlloc, BitAlloc1M};

use super::{BootError, Peer};
use crate::units::{Frame, Order};

/// Bitmap of 2^20 frames, of which those of the machine are free at the start.
pub(crate) struct Bitmap(Box<BitAlloc1M>);

impl Peer for Bitmap {
    fn boot(frames: u32) -> Result<Self, BootError> {
        if frames as usize > BitAlloc1M::CAP {
            return Err(BootError::Refused { frames });
        }
        let mut map = Box::new(BitAlloc1M::DEFAULT);
        map.insert(0..frames as usize);
        Ok(Bitmap(map))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        let index = match order {
            Order::ZERO => self.0.alloc(),
            _ => self.0.alloc_contiguous(None, order.frames(), usize::from(order.raw())),
        };
        index.map(|index| Frame(index as u32))
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        let freed = match order {
            Order::ZERO => self.0.dealloc(block.index()),
            _ => self.0.dealloc_contiguous(block.index(), order.frames()),
        };
        debug_assert!(freed, "{block:?} of {order:?} was not allocated");
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::examine;
    use super::*;

    #[test]
    fn bitmap_conforms_to_the_peer_interface() {
        examine::<Bitmap>(&[0, 3, 4, 9]);
    }

    #[test]
    fn bitmap_machine_above_the_limit_is_an_error() {
        assert!(Bitmap::boot((1 << 20) + 1).is_err());
    }
}
