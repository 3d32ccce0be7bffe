//! Memory and cache numbers that a slab allocator is created with.

use core::ptr::NonNull;

use super::SlabError;
use super::cpu::CACHES_MAX;
use super::word::UPPER;
use crate::base::{Order, Pfn};

/// The memory whose frames are managed by the page allocator under the slab, and the number of cache numbers.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// First frame that may hold objects. Its address must not be 0, so it cannot be frame 0 if addresses equal frame
    /// numbers times the page size.
    pub first: Pfn,
    /// Address of the first frame. The address and the frame have the same offset from a multiple of the largest block.
    pub base: NonNull<u8>,
    /// Number of frames that may hold objects, starting with `first`.
    pub pages: u32,
    /// Number of cache numbers: those that the allocator [needs for itself](super::own_caches), and those for caches
    /// that are created later.
    pub caches: u16,
}

impl Memory {
    /// Checks that packed words and masks can represent all addresses of the memory, and that the number of cache
    /// numbers is possible. Returns the first [`SlabError`] that is found otherwise.
    pub(super) fn expect_usable(&self, page_size: u32, own: u16) -> Result<(), SlabError> {
        if !(own.into()..=CACHES_MAX).contains(&self.caches.into()) {
            return Err(SlabError::Caches);
        }
        let largest = u64::from(page_size) << Order::MAX.get();
        let first = u64::from(self.first.raw()) * u64::from(page_size);
        if !(self.base.as_ptr().addr() as u64).wrapping_sub(first).is_multiple_of(largest) {
            return Err(SlabError::Base);
        }
        if self.first.checked_offset(self.pages).is_none() {
            return Err(SlabError::Frames);
        }
        let base = self.base.as_ptr().addr() as u64;
        let bytes = u64::from(self.pages) * u64::from(page_size);
        if base.checked_add(bytes.saturating_sub(1)).is_none_or(|last| base >> UPPER != last >> UPPER) {
            return Err(SlabError::Address);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZero;

    use super::*;

    /// Frames of the largest block.
    const BLOCK: u32 = Order::MAX.pages();

    fn memory(first: u32, base: NonZero<usize>, pages: u32, caches: u16) -> Memory {
        Memory { first: Pfn::new(first), base: NonNull::without_provenance(base), pages, caches }
    }

    fn nonzero(address: usize) -> NonZero<usize> {
        NonZero::new(address).expect("it is not 0")
    }

    #[test]
    fn memory_base_is_congruent_to_its_first_frame() {
        let bytes = 4096 << Order::MAX.get();
        for (first, base) in [(0, bytes), (0, 7 * bytes), (BLOCK, bytes), (3, bytes + 3 * 4096)] {
            assert_eq!(memory(first, nonzero(base), 1, 1).expect_usable(4096, 1), Ok(()), "{first} {base:#x}");
        }
        for (first, base) in [(0, bytes / 2), (0, bytes + 4096), (1, bytes), (3, bytes + 2 * 4096)] {
            assert_eq!(
                memory(first, nonzero(base), 1, 1).expect_usable(4096, 1),
                Err(SlabError::Base),
                "{first} {base:#x}"
            );
        }
    }

    #[test]
    fn cache_limit_covers_own_caches_and_fits_a_byte() {
        let base = nonzero(4096 << Order::MAX.get());
        for (caches, own, expected) in [(5, 5, Ok(())), (4, 5, Err(SlabError::Caches)), (0, 1, Err(SlabError::Caches))]
        {
            assert_eq!(memory(0, base, 1, caches).expect_usable(4096, own), expected, "{caches} of {own}");
        }
        let all = CACHES_MAX as u16;
        assert_eq!(memory(0, base, 1, all).expect_usable(4096, 1), Ok(()));
        assert_eq!(memory(0, base, 1, all + 1).expect_usable(4096, 1), Err(SlabError::Caches));
    }

    #[test]
    fn memory_ends_at_the_last_frame_or_address() {
        let whole = nonzero(4096 << Order::MAX.get());
        let last = u32::MAX - (u32::MAX % BLOCK);
        assert_eq!(memory(last, whole, BLOCK - 1, 1).expect_usable(4096, 1), Ok(()));
        assert_eq!(memory(last, whole, BLOCK, 1).expect_usable(4096, 1), Err(SlabError::Frames));
        for end in [1_usize << 48, 0xffff << 48, 0x12 << 48] {
            let below = nonzero(end - whole.get());
            assert_eq!(memory(0, below, BLOCK, 1).expect_usable(4096, 1), Ok(()), "the memory ends at the boundary");
            assert_eq!(memory(0, below, BLOCK + 1, 1).expect_usable(4096, 1), Err(SlabError::Address));
        }
    }
}
