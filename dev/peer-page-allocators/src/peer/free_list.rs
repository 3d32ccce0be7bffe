//! `free-list`: free ranges in one sorted array, as the Hermit kernel keeps its frames.
//!
//! An allocation takes the first range that is large enough, and a free searches for its position from the start. With
//! few free ranges both searches are short. After random frees there is a free range for every few pages, so filling
//! and freeing a gibibyte would take quadratic time. The fill is therefore not offered.

use free_list::{FreeList, PageLayout, PageRange};

use super::{BootError, Peer};
use crate::units::{FRAME_BYTES, Frame, Order};

/// Ranges that fit before the array moves to the heap.
const RANGES_INLINE: usize = 16;

/// Free ranges sorted by address.
pub(crate) struct SortedRanges(FreeList<RANGES_INLINE>);

impl Peer for SortedRanges {
    fn boot(frames: u32) -> Result<Self, BootError> {
        let refused = BootError::Refused { frames };
        let Ok(all) = PageRange::from_start_len(0, frames as usize * FRAME_BYTES) else { return Err(refused) };
        let mut list = FreeList::new();
        // SAFETY: the list only stores numbers. No memory is at these addresses, so any range may be marked free.
        unsafe { list.deallocate(all) }.map_err(|_| refused)?;
        Ok(SortedRanges(list))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        let layout = PageLayout::from_size_align(order.bytes(), order.bytes()).ok()?;
        self.0.allocate(layout).ok().map(|range| Frame::at_offset(range.start()))
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        let range = PageRange::from_start_len(block.offset(), order.bytes()).expect("a block is a valid range");
        // SAFETY: the list only stores numbers, and the caller promises that the range was allocated and is no longer
        // used.
        let freed = unsafe { self.0.deallocate(range) };
        debug_assert!(freed.is_ok(), "{block:?} of {order:?} was not allocated");
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::examine;
    use super::*;

    #[test]
    fn sorted_ranges_conform_to_the_peer_interface() {
        examine::<SortedRanges>(&[0, 3, 4, 9]);
    }
}
