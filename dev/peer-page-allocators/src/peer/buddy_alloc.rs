//! `buddy-alloc`: a buddy system with bitmaps at the start of its memory, and list links inside the free blocks.
//!
//! An allocation pops a block and splits it. A free does not receive the size, so it looks the size up in the bitmaps,
//! order by order. There is no largest order: free memory is one block, and a single page is split from it. Blocks are
//! aligned relative to the end of the bitmaps, so the bitmaps are placed to end where an aligned block may start.

use buddy_alloc::buddy_alloc::{BuddyAlloc, BuddyAllocParam};

use super::reserve::Reserve;
use super::{BootError, Peer};
use crate::units::{FRAME_BYTES, Frame, Order};

/// Buddy system whose blocks are linked through their own memory.
pub(crate) struct LinkedBuddies {
    allocator: BuddyAlloc,
    reserve: Reserve,
}

impl Peer for LinkedBuddies {
    fn boot(frames: u32) -> Result<Self, BootError> {
        let reserve = Reserve::with_books(frames, books_of(frames)?)?;
        let allocator = allocator_of(&reserve);
        if allocator.available_bytes() != reserve.bytes() {
            return Err(BootError::Refused { frames });
        }
        Ok(LinkedBuddies { allocator, reserve })
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        let block = self.allocator.malloc(order.bytes());
        (!block.is_null()).then(|| self.reserve.frame_at(block.addr()))
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, _order: Order) {
        self.allocator.free(self.reserve.start_of(block));
    }
}

/// Creates an allocator of the whole reserve, with its bitmaps at the start.
fn allocator_of(reserve: &Reserve) -> BuddyAlloc {
    let memory = BuddyAllocParam::new_with_zero_filled(reserve.books(), reserve.bytes_with_books(), FRAME_BYTES);
    // SAFETY: the reserve is mapped and zeroed, and is written only by this allocator. Both callers keep the reserve as
    // long as the allocator.
    unsafe { BuddyAlloc::new(memory) }
}

/// Returns the bytes of bitmaps for this number of frames: the bytes that an allocator of slightly more memory keeps
/// for itself.
fn books_of(frames: u32) -> Result<usize, BootError> {
    let trial = Reserve::new(frames + frames / 8)?;
    Ok(trial.bytes() - allocator_of(&trial).available_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{examine, examine_wholeness};
    use super::*;

    #[test]
    fn linked_buddies_conform_to_the_peer_interface() {
        examine::<LinkedBuddies>(&[0, 3, 4, 9]);
    }

    #[test]
    fn initial_blocks_are_whole() {
        examine_wholeness::<LinkedBuddies>();
    }
}
