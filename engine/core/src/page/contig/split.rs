//! Freeing a part of a frozen block: the block is split where the range starts and where it ends.
//!
//! A frozen block has no references, and unless it is compound, its size does not matter to its owner, which uses it as
//! a number of pages. A block is split only after all other blocks in the range were found to be the owner's as well.

use core::ops::Range;

use super::free::Terms;
use crate::base::Pfn;
use crate::base::word::Word;
use crate::page::allocator::PageAllocator;
use crate::page::error::FreeError;
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// Splits the frozen blocks that cross a border of the range into the largest blocks that fit on either side.
    /// Fails, without a split, if a block between these two is not the caller's to free.
    #[inline]
    pub(super) fn split_at_borders(&self, range: &Range<Pfn>, terms: Terms) -> Result<(), FreeError> {
        let across = [range.start, range.end].map(|border| self.frozen_block_across(border));
        if let [None, None] = across { Ok(()) } else { self.split_both(range, across, terms) }
    }

    #[cold]
    fn split_both(&self, range: &Range<Pfn>, across: [Option<(Pfn, Word)>; 2], terms: Terms) -> Result<(), FreeError> {
        let [first, last] = across;
        let start = first.map_or(range.start, |(head, word)| head.offset(word.order().pages()));
        let end = last.map_or(range.end, |(head, _)| head);
        self.expect_all_held(&(start..end), terms)?;
        for border in [range.start, range.end] {
            // The block is looked up again, because one block may cross both borders, and another call may have changed
            // it.
            while let Some((head, word)) = self.frozen_block_across(border) {
                let lower = head.blocks_up_to(border, word.order());
                let upper = border.blocks_up_to(head.offset(word.order().pages()), word.order());
                if self.split_allocated(head, word, word, lower.chain(upper)).is_ok() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the frozen block, not compound, that a border between frames cuts in two.
    #[inline]
    fn frozen_block_across(&self, border: Pfn) -> Option<(Pfn, Word)> {
        self.map.try_frame(border).filter(|frame| frame.word().is_interior())?;
        let (head, word) = self.map.block_around(border)?;
        let whole = word.is_allocated() && word.refs() == 0 && !word.is_compound() && !word.is_slab();
        whole.then_some((head, word))
    }
}
