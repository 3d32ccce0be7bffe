//! Return of free memory to the system: whole blocks of 2 MiB, and free pieces of other blocks.
//!
//! Where huge pages back the heap, the return of a piece splits a huge page, so only large pieces of most blocks are
//! returned. If less than a quarter of a huge page is in use, the memory is worth the split, so all its free pieces are
//! returned. Such a block is called sparse.

use freehold::base::{Gfp, Order, Pfn, State};
use freehold::platform::Platform;
use freehold::slab::CpuLocal;

use super::returned::{HUGE, LEAST, PageBlock};
use super::{Heap, supply};

/// Number of pieces of 32 KiB in a block of 2 MiB.
const PIECES: u32 = HUGE.pages() / LEAST.pages();
/// A block with fewer pieces in use is sparse.
const USED_LEAST: u32 = PIECES / 4;

/// Size of the smallest piece of a block of 2 MiB that is returned to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceSize {
    /// 32 KiB.
    Small,
    /// 1 MiB, for memory that huge pages back: half of a huge page. Of a huge page of which less than a quarter is in
    /// use, all free pieces of at least 32 KiB.
    HalfHuge,
}

impl PieceSize {
    fn order(self) -> Order {
        match self {
            PieceSize::Small => LEAST,
            PieceSize::HalfHuge => Order::new(HUGE.get() - 1),
        }
    }
}

impl<C: CpuLocal, P: Platform + 'static> Heap<C, P> {
    /// Returns free memory to the system in whole blocks of 2 MiB, until at least `bytes` bytes are returned, no block
    /// is free, or the system refuses a block. Returns the number of bytes. Each block costs some locks, and a system
    /// call during which no lock is held. If no block is wholly free, wholly free slabs of the node and the pages on
    /// CPUs' lists are freed first.
    pub fn give_back(&self, bytes: usize) -> usize {
        let whole = self.give_back_of(HUGE, bytes);
        if whole >= bytes {
            return whole;
        }
        // Pages in per-CPU lists and slabs that are kept for later keep a block from being wholly free.
        self.slab.shrink_nodes();
        self.pages().drain_all_pages();
        whole + self.give_back_of(HUGE, bytes - whole)
    }

    /// Returns free memory to the system as [`give_back`](Self::give_back) does, and then free pieces of blocks that
    /// are partly in use, the largest first, down to `least`. If huge pages back the heap, this splits them. Blocks of
    /// which less than a quarter is in use have all their pieces returned, down to 32 KiB.
    pub fn give_back_pieces(&self, bytes: usize, least: PieceSize) -> usize {
        let mut given = self.give_back(bytes);
        for order in least.order().to(HUGE).rev() {
            given += self.give_back_of(order, bytes.saturating_sub(given));
        }
        if least == PieceSize::HalfHuge {
            given += self.give_back_sparse(bytes.saturating_sub(given));
        }
        given
    }

    /// Returns free blocks of one order to the system, until at least `bytes` bytes are returned, no block is free, or
    /// the system refuses a block.
    fn give_back_of(&self, order: Order, bytes: usize) -> usize {
        let mut given = 0;
        while given < bytes
            && let Some(block) = supply::take_block(self.pages(), order)
            && self.give_back_block(block)
        {
            given += block.bytes();
        }
        given
    }

    /// Returns a block that was taken from the engine to the system, and returns whether the system accepted it.
    fn give_back_block(&self, block: PageBlock) -> bool {
        let is_empty = supply::empty(self.pages(), &self.ranges.memory, block).is_ok();
        if is_empty {
            let mut supply = self.supply.lock();
            supply.put(block);
            self.take_note(&supply);
        }
        is_empty
    }

    /// Unmaps the blocks of 2 MiB that were returned to the system. They are mapped again when they are needed. Costs a
    /// system call for each, with the lock of the supply.
    pub fn unmap_returned(&self) {
        self.supply.lock().unmap_returned(&self.ranges);
    }

    /// Returns free pieces of sparse blocks to the system, until at least `bytes` bytes are returned. A block of which
    /// the system refuses a piece is left. Returns the number of bytes. Reads a byte for each page that has come
    /// online, and the state of one page in each 2 MiB of a hole.
    fn give_back_sparse(&self, bytes: usize) -> usize {
        let (mut given, mut first) = (0, Pfn::new(0));
        while given < bytes && first < self.end() {
            if self.pages().state(first).is_some() && self.is_sparse(first) {
                given += self.give_back_all_pieces(first);
            }
            first = first.offset(HUGE.pages());
        }
        given
    }

    /// Returns whether fewer than a quarter of a block's pieces contain a page of a slab. Free and returned pages count
    /// alike.
    fn is_sparse(&self, first: Pfn) -> bool {
        let starts = (0..PIECES).map(|piece| first.offset(piece * LEAST.pages()));
        let used = starts.filter(|&start| self.slab.has_slab(start..start.offset(LEAST.pages())));
        (used.count() as u32) < USED_LEAST
    }

    /// Returns all free pieces of a block, and returns their bytes.
    fn give_back_all_pieces(&self, first: Pfn) -> usize {
        let (mut given, mut at) = (0, first);
        while at < first.offset(HUGE.pages()) {
            let order = match self.pages().state(at) {
                Some(State::ZoneFree { order, .. }) if order >= LEAST => order.min(HUGE),
                _ => {
                    at = at.offset(LEAST.pages());
                    continue;
                }
            };
            let block = PageBlock { first: at, order, is_mapped: true };
            if self.pages().isolate_free_page(at, order, Gfp::KERNEL) == Ok(true) {
                if !self.give_back_block(block) {
                    break;
                }
                given += block.bytes();
            }
            at = at.offset(order.pages());
        }
        given
    }
}
