//! `buddy_system_allocator`: its `FrameAllocator`, a buddy system whose free lists are ordered trees of numbers.
//!
//! An allocation removes a block from one tree, and inserts the halves of each split into others. A free searches one
//! tree after another for the buddy. The nodes of the trees are in the program's own heap. The allocator has as many
//! orders as Linux; with its default of 33 it would split from and merge up to half a gibibyte.

use buddy_system_allocator::FrameAllocator;

use super::{BootError, Peer};
use crate::units::{Frame, ORDERS, Order};

/// Buddy system with free lists in trees.
pub(crate) struct BuddySystem(FrameAllocator<ORDERS>);

impl Peer for BuddySystem {
    fn boot(frames: u32) -> Result<Self, BootError> {
        let mut allocator = FrameAllocator::new();
        allocator.insert(0..frames as usize);
        Ok(BuddySystem(allocator))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        self.0.alloc(order.frames()).map(|index| Frame(index as u32))
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        self.0.dealloc(block.index(), order.frames());
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{examine, examine_wholeness};
    use super::*;

    #[test]
    fn buddy_system_conforms_to_the_peer_interface() {
        examine::<BuddySystem>(&[0, 3, 4, 9]);
    }

    #[test]
    fn initial_blocks_are_whole() {
        examine_wholeness::<BuddySystem>();
    }
}
