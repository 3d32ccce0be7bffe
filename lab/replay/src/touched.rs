//! Pageblocks in which a frame was allocated, freed or moved, with one bit each.

use freehold::base::zeroed::Zeroed;

/// Base-2 logarithm of the frames that share a bit: a pageblock of x86-64. With pageblocks of another size, several
/// pageblocks share a bit, or a pageblock has several bits.
const SHIFT: u32 = 9;

/// The bitmap.
#[derive(Debug)]
pub(crate) struct TouchedPageblocks(Zeroed<u64>);

impl TouchedPageblocks {
    /// Creates a bitmap for frames below `end`, none of them touched.
    pub(crate) fn new(end: usize) -> TouchedPageblocks {
        TouchedPageblocks(Zeroed::sparse((end >> SHIFT) / 64 + 1))
    }

    /// Marks `pages` frames from `pfn` on as touched.
    #[inline]
    pub(crate) fn touch(&mut self, pfn: u32, pages: u32) {
        let last = pfn + pages.saturating_sub(1);
        for bit in pfn >> SHIFT..=last >> SHIFT {
            if let Some(word) = self.0.get_mut(bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
        }
    }

    /// Returns whether any of `pages` frames from `pfn` on may have been touched.
    pub(crate) fn is_touched(&self, pfn: u32, pages: u32) -> bool {
        let last = pfn + pages.saturating_sub(1);
        (pfn >> SHIFT..=last >> SHIFT)
            .any(|bit| self.0.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1))
    }

    /// Clears all marks.
    pub(crate) fn forget(&mut self) {
        self.0.iter_mut().filter(|word| **word != 0).for_each(|word| *word = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touch_marks_every_overlapping_pageblock() {
        let mut touched = TouchedPageblocks::new(1 << 20);
        touched.touch(1023, 2);
        assert_eq!([511, 512, 1024, 1536].map(|pfn| touched.is_touched(pfn, 1)), [false, true, true, false]);
        touched.touch(u32::MAX - 1, 1);
        touched.forget();
        assert!(!touched.is_touched(0, 1 << 20));
    }
}
