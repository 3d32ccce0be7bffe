//! Lower bound: an array of free frame numbers, popped and pushed at its end.
//!
//! No allocator of single pages can do less, because it must remember the free pages, and a number per page is the
//! minimum. The array cannot find a buddy, a larger block or a double free. Behind a lock, it costs what a per-CPU list
//! costs that other CPUs may drain.

use super::{BootError, Peer};
use crate::units::{Frame, Order};

/// Free frames, with the last freed frame at the end.
pub(crate) struct Array(Vec<Frame>);

impl Peer for Array {
    fn boot(frames: u32) -> Result<Self, BootError> {
        Ok(Array((0..frames).rev().map(Frame).collect()))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        if order == Order::ZERO { self.0.pop() } else { None }
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        debug_assert_eq!(order, Order::ZERO, "the floor allocates only single frames");
        self.0.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::examine;
    use super::super::locked::Locked;
    use super::*;

    #[test]
    fn array_conforms_to_the_peer_interface() {
        examine::<Array>(&[0]);
        examine::<Locked<Array>>(&[0]);
    }

    #[test]
    fn blocks_above_order_0_are_unsupported() {
        assert_eq!(Array::boot(1024).unwrap().alloc(Order::new(3)), None);
    }
}
