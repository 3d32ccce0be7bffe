//! Return of the free pieces of sparse blocks: blocks of 2 MiB of which less than a quarter is in use.
//!
//! Where huge pages back the heap, the return of a piece splits a huge page, so only large pieces of most blocks are
//! returned. A huge page that is mostly free costs more memory than it saves time. So a sparse block has all its free
//! pieces returned.

use core::sync::atomic::Ordering::Relaxed;

use freehold::base::{Gfp, Pfn, State};
use freehold::platform::Platform;
use freehold::slab::CpuLocal;

use super::returned::{HUGE, LEAST, PageBlock};
use super::{Heap, PAGE_SIZE};

/// Pieces of the smallest size in a block, and the number of them in use from which on a block is not sparse.
const PIECES: u32 = HUGE.pages() / LEAST.pages();
const USED_LEAST: u32 = PIECES / 4;

impl<C: CpuLocal, P: Platform + 'static> Heap<C, P> {
    /// Returns free pieces of sparse blocks to the system, until at least `bytes` bytes are returned or the system
    /// refuses a piece. Returns the number of bytes. Reads a byte for each page that has come online, and
    /// the state of one page in each 2 MiB of a hole.
    pub(super) fn give_back_sparse(&self, bytes: usize) -> usize {
        let pages = (self.end.load(Relaxed) / PAGE_SIZE as usize) as u32;
        let (mut given, mut first) = (0, 0);
        while given < bytes && first < pages {
            if self.pages().state(Pfn::new(first)).is_some() && self.is_sparse(Pfn::new(first)) {
                given += self.give_back_all_pieces(Pfn::new(first));
            }
            first += HUGE.pages();
        }
        given
    }

    /// Returns whether less than a quarter of a block is in slabs. Free and returned pages count alike.
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
