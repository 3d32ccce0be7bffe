//! Blocks that were returned to the system: a stack, so that the block that was returned first is taken back last.
//!
//! Most blocks are whole blocks of 2 MiB. A block that is partly in use has smaller pieces returned as well, down to
//! [`LEAST`] and only after they have been free for long. An entry is a frame number, whose lowest bits are zero
//! because of the alignment, and hold the order. Where the limit of the address space is reached, whole blocks are
//! unmapped as well.

use freehold::base::{Order, Pfn};

use super::page_bytes;

/// Order of a huge page, and of the largest block that is returned.
pub(super) const HUGE: Order = Order::new(9);
/// Order of the smallest block that is returned: 32 KiB, which is the size of the largest usual slab.
pub(super) const LEAST: Order = Order::new(3);
/// Bits of an entry that hold the order, as a difference from [`LEAST`], or [`UNMAPPED`].
const ORDER_BITS: u32 = (1 << LEAST.get()) - 1;
/// Number in place of the order: the block is a whole one, and its addresses are not mapped.
const UNMAPPED: u32 = ORDER_BITS;

/// Block of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageBlock {
    pub first: Pfn,
    pub order: Order,
    /// Whether the addresses of the block are mapped.
    pub is_mapped: bool,
}

impl PageBlock {
    /// Returns the bytes of the block.
    pub(super) const fn bytes(self) -> usize {
        page_bytes(self.order.pages())
    }
}

/// Entry of the stack. Zeroed bytes are a valid entry.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Entry(u32);

impl Entry {
    fn new(block: PageBlock) -> Entry {
        debug_assert!(block.first.is_aligned(LEAST) && (LEAST..=HUGE).contains(&block.order));
        let order = if block.is_mapped { u32::from(block.order.get() - LEAST.get()) } else { UNMAPPED };
        Entry(block.first.raw() | order)
    }

    fn block(self) -> PageBlock {
        let first = Pfn::new(self.0 & !ORDER_BITS);
        match self.0 & ORDER_BITS {
            UNMAPPED => PageBlock { first, order: HUGE, is_mapped: false },
            order => PageBlock { first, order: Order::new(order as u8 + LEAST.get()), is_mapped: true },
        }
    }
}

/// Stack of returned blocks.
#[derive(Debug)]
pub(super) struct ReturnedBlocks {
    /// The first `count` entries are in use. There is one for each smallest block of the heap.
    entries: &'static mut [Entry],
    count: usize,
    /// Entries at the bottom that are set aside.
    aside: usize,
    bytes: usize,
}

impl ReturnedBlocks {
    /// Returns the number of entries that a heap of this many pages needs.
    pub(super) const fn entries(pages: u32) -> usize {
        (pages / LEAST.pages()) as usize
    }

    pub(super) fn new(entries: &'static mut [Entry]) -> ReturnedBlocks {
        ReturnedBlocks { entries, count: 0, aside: 0, bytes: 0 }
    }

    /// Moves the stack to other entries, which are at least as many.
    pub(super) fn move_to(&mut self, entries: &'static mut [Entry]) {
        entries[..self.count].copy_from_slice(&self.entries[..self.count]);
        self.entries = entries;
    }

    /// Returns the bytes of all blocks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, block: PageBlock) {
        self.entries[self.count] = Entry::new(block);
        self.count += 1;
        self.bytes += block.bytes();
    }

    /// Puts a block below all others, where it is not taken. [`unmap_whole`](Self::unmap_whole) ends this.
    pub(super) fn set_aside(&mut self, block: PageBlock) {
        self.push(block);
        self.entries.swap(self.aside, self.count - 1);
        self.aside += 1;
    }

    /// Passes each whole block that is mapped to `unmap`, which returns whether it unmapped the block. Blocks that were
    /// set aside can be taken again.
    pub(super) fn unmap_whole(&mut self, mut unmap: impl FnMut(PageBlock) -> bool) {
        self.aside = 0;
        for entry in &mut self.entries[..self.count] {
            let block = entry.block();
            if block.order == HUGE && block.is_mapped && unmap(block) {
                *entry = Entry::new(PageBlock { is_mapped: false, ..block });
            }
        }
    }

    /// Takes the block that was pushed last, or returns `None` if there is none, except for those set aside.
    pub(super) fn pop(&mut self) -> Option<PageBlock> {
        self.count = self.count.checked_sub(1).filter(|&count| count >= self.aside)?;
        let block = self.entries[self.count].block();
        self.bytes -= block.bytes();
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn blocks_come_back_in_reverse_order() {
        let entries = std::vec![Entry(0); 4].leak();
        let mut returned = ReturnedBlocks::new(entries);
        let blocks = [(512, HUGE), (8, LEAST), (1024, Order::new(8))];
        let blocks = blocks.map(|(pfn, order)| PageBlock { first: Pfn::new(pfn), order, is_mapped: true });
        blocks.into_iter().for_each(|block| returned.push(block));
        assert_eq!(returned.bytes(), (2 << 20) + (32 << 10) + (1 << 20));
        returned.unmap_whole(|block| block.first == Pfn::new(512));
        returned.move_to(std::vec![Entry(0); 4].leak());
        let unmapped = PageBlock { is_mapped: false, ..blocks[0] };
        returned.set_aside(blocks[0]);
        assert_eq!(core::array::from_fn(|_| returned.pop()), [Some(unmapped), Some(blocks[2]), Some(blocks[1]), None]);
        returned.unmap_whole(|_| false);
        assert_eq!(core::array::from_fn(|_| returned.pop()), [Some(blocks[0]), None]);
        assert_eq!(returned.bytes(), 0);
    }
}
