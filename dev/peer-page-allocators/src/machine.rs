//! Machines: a peer with its own memory, timed with the loops of the engine's own benchmark.
//!
//! The clock is the CPU time of the thread, read twice per sample. A fill is done once without timing when its machine
//! boots. The first access to memory costs time in the system, which is not the allocator's cost, and a kernel has all
//! of its memory mapped.

use std::hint::black_box;

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};

use crate::case::Case;
use crate::peer::{BootError, Peer};
use crate::units::{Frame, Order};

/// Time of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// CPU time of the thread in nanoseconds.
    pub(crate) nanoseconds: u64,
    /// Number of operations.
    pub(crate) operations: u64,
}

/// Machine for one case, independent of the type of its peer.
pub(crate) trait Machine {
    /// Times this number of operations; a fill rounds odd numbers down. Returns `None` if the peer ran out of memory.
    /// All memory is free before and after.
    fn sample(&mut self, operations: u64) -> Option<Sample>;
}

/// Boots a machine of `frames` frames with the peer `P`.
///
/// # Errors
/// Returns an error if the system has no memory for it.
pub(crate) fn boot<P: Peer + 'static>(frames: u32, case: Case) -> Result<Box<dyn Machine>, BootError> {
    let peer = P::boot(frames)?;
    match case {
        Case::Pair(order) => Ok(Box::new(Pairs { peer, order })),
        Case::FillFreeRandom => {
            let mut fill = Fill { peer, pages: Vec::with_capacity(frames as usize / 2) };
            fill.sample(*case.operations(frames).end()).ok_or(BootError::Refused { frames })?;
            Ok(Box::new(fill))
        }
    }
}

/// Machine for pairs: one block at a time.
struct Pairs<P> {
    peer: P,
    order: Order,
}

impl<P: Peer> Pairs<P> {
    #[inline]
    fn once(&mut self, order: Order) -> Option<()> {
        let block = black_box(self.peer.alloc(order)?);
        // SAFETY: `alloc` of this peer has just returned the block for this order, and it is freed once.
        unsafe { self.peer.free(block, order) };
        Some(())
    }
}

impl<P: Peer> Machine for Pairs<P> {
    fn sample(&mut self, operations: u64) -> Option<Sample> {
        // Hides the order from the compiler, so that it cannot precompute anything.
        let order = black_box(self.order);
        self.once(order)?;
        let start = cpu_time();
        for _ in 0..operations {
            self.once(order)?;
        }
        Some(Sample { nanoseconds: cpu_time() - start, operations })
    }
}

/// Machine for the fill: many single pages at once.
struct Fill<P> {
    peer: P,
    /// Allocated pages; empty between samples.
    pages: Vec<Frame>,
}

impl<P: Peer> Fill<P> {
    /// Allocates `count` pages, or as many as the peer has.
    fn fill(&mut self, count: usize) {
        let order = black_box(Order::ZERO);
        while self.pages.len() < count
            && let Some(page) = self.peer.alloc(order)
        {
            self.pages.push(page);
        }
    }

    /// Frees all pages in the order of the list.
    fn drain(&mut self) {
        let order = black_box(Order::ZERO);
        for page in self.pages.drain(..) {
            // SAFETY: `fill` allocated each of these pages with order 0, and `drain` removes them from the list.
            unsafe { self.peer.free(page, order) };
        }
    }
}

impl<P: Peer> Machine for Fill<P> {
    fn sample(&mut self, operations: u64) -> Option<Sample> {
        let count = (operations / 2) as usize;
        self.pages.reserve(count);
        let start = cpu_time();
        self.fill(count);
        let filled = cpu_time();
        let is_full = self.pages.len() == count;
        Rng::with_seed(1).shuffle(&mut self.pages);
        let shuffled = cpu_time();
        self.drain();
        let nanoseconds = cpu_time() - shuffled + (filled - start);
        is_full.then_some(Sample { nanoseconds, operations: 2 * count as u64 })
    }
}

/// Returns the CPU time of this thread so far, in nanoseconds.
fn cpu_time() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::floor::Array;

    const FRAMES: u32 = 64;

    /// Peer with only ten frames, regardless of the requested number.
    struct Poor(Array);

    impl Peer for Poor {
        fn boot(_frames: u32) -> Result<Self, BootError> {
            Array::boot(10).map(Poor)
        }

        fn alloc(&mut self, order: Order) -> Option<Frame> {
            self.0.alloc(order)
        }

        unsafe fn free(&mut self, block: Frame, order: Order) {
            // SAFETY: the caller promises that `alloc`, which forwards to the inner peer, returned the block with this
            // order.
            unsafe { self.0.free(block, order) }
        }
    }

    #[test]
    fn samples_count_the_requested_operations() {
        let mut pairs = boot::<Array>(FRAMES, Case::Pair(Order::ZERO)).unwrap();
        assert_eq!(pairs.sample(7).unwrap().operations, 7);
        let mut fill = boot::<Array>(FRAMES, Case::FillFreeRandom).unwrap();
        assert_eq!(fill.sample(64).unwrap().operations, 64);
        assert_eq!(fill.sample(9).unwrap().operations, 8);
    }

    #[test]
    fn fill_frees_all_pages_in_another_order() {
        let mut fill = Fill { peer: Array::boot(FRAMES).unwrap(), pages: Vec::new() };
        fill.sample(64).unwrap();
        let left: Vec<Frame> = std::iter::from_fn(|| fill.peer.alloc(Order::ZERO)).collect();
        assert_eq!(left.len(), FRAMES as usize);
        assert!(!left.is_sorted() && !left.iter().rev().is_sorted(), "{left:?}");
    }

    #[test]
    fn exhausted_peer_gives_no_sample_and_keeps_its_memory() {
        let mut pairs = boot::<Array>(FRAMES, Case::Pair(Order::new(3))).unwrap();
        assert_eq!(pairs.sample(1), None);
        let mut fill = Fill { peer: Poor::boot(FRAMES).unwrap(), pages: Vec::new() };
        assert_eq!(fill.sample(64), None);
        assert_eq!(fill.sample(20).unwrap().operations, 20);
        assert!(boot::<Poor>(FRAMES, Case::FillFreeRandom).is_err());
    }
}
