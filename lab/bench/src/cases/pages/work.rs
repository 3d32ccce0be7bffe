//! The timed loops, on any allocator of pages: the engine or the lower bound.

use std::hint::black_box;
use std::sync::Mutex;

use fastrand::Rng;
use freehold::base::{Gfp, Order, Pfn};
use freehold_timing::clock::Sample;
use freehold_timing::clock::time;
use freehold_timing::spin_barrier::SpinBarrier;

use crate::engine::Engine;

/// Pages per handover between two CPUs: one huge page's worth.
const ROUND: u64 = 512;

/// Allocator of blocks of one kind.
pub(super) trait Blocks: Sync {
    /// Allocates a block.
    fn get(&self) -> Pfn;
    /// Frees a block.
    fn put(&self, pfn: Pfn);
}

/// Blocks of an engine.
pub(super) struct EngineBlocks<'e, 'm> {
    engine: &'e Engine<'m>,
    gfp: Gfp,
    order: Order,
}

impl<'e, 'm> EngineBlocks<'e, 'm> {
    /// Creates the allocator for requests with these flags and this order. The compiler does not know the values, so it
    /// cannot precompute anything from them.
    pub(super) fn new(engine: &'e Engine<'m>, gfp: Gfp, order: u8) -> EngineBlocks<'e, 'm> {
        EngineBlocks { engine, gfp: black_box(gfp), order: black_box(Order::new(order)) }
    }
}

impl Blocks for EngineBlocks<'_, '_> {
    #[inline]
    fn get(&self) -> Pfn {
        self.engine.alloc_pages(self.gfp, self.order).expect("free memory suffices")
    }

    #[inline]
    fn put(&self, pfn: Pfn) {
        self.engine.free_pages(pfn, self.order).expect("the block is allocated");
    }
}

/// Work of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Allocates and frees a block, again and again.
    Pair,
    /// Allocates blocks one after the other; freeing them is not timed.
    BulkGet,
    /// Frees blocks in the order in which they were allocated; allocating them is not timed.
    BulkPut,
    /// Frees blocks in random order; allocating and shuffling them is not timed.
    RandomPut,
    /// Allocates blocks, then frees them in random order; shuffling them is not timed.
    FillFreeRandom,
}

impl Work {
    /// Times a number of operations. Threads that do the same work concurrently meet at the barrier before each timed
    /// part.
    pub(super) fn time(self, blocks: &impl Blocks, operations: u64, barrier: &SpinBarrier) -> Sample {
        match self {
            Work::Pair => pairs(blocks, operations, barrier),
            Work::BulkGet => fill(blocks, operations, Turn::AsTaken, barrier).got,
            Work::BulkPut => fill(blocks, operations, Turn::AsTaken, barrier).put,
            Work::RandomPut => fill(blocks, operations, Turn::Shuffled, barrier).put,
            Work::FillFreeRandom => {
                let Fill { got, put } = fill(blocks, operations / 2, Turn::Shuffled, barrier);
                got + put
            }
        }
    }
}

fn pairs(blocks: &impl Blocks, pairs: u64, barrier: &SpinBarrier) -> Sample {
    barrier.wait();
    time(pairs, || {
        for _ in 0..pairs {
            blocks.put(blocks.get());
        }
    })
}

/// Order in which blocks are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    AsTaken,
    Shuffled,
}

/// Samples of both halves of a fill.
struct Fill {
    got: Sample,
    put: Sample,
}

/// Allocates `count` blocks, then frees them.
fn fill(blocks: &impl Blocks, count: u64, turn: Turn, barrier: &SpinBarrier) -> Fill {
    let mut taken = vec![Pfn::new(0); count as usize];
    barrier.wait();
    let got = time(count, || taken.iter_mut().for_each(|place| *place = blocks.get()));
    if turn == Turn::Shuffled {
        Rng::with_seed(1).shuffle(&mut taken);
    }
    barrier.wait();
    let put = time(count, || taken.iter().for_each(|&block| blocks.put(block)));
    barrier.wait();
    Fill { got, put }
}

/// Does the part of the first of two threads for [`put_elsewhere`]: allocates, and waits until the other thread has
/// freed the blocks.
pub(super) fn get_for_another(blocks: &impl Blocks, operations: u64, mailbox: &Mutex<Vec<Pfn>>, barrier: &SpinBarrier) {
    for _ in 0..operations.div_ceil(ROUND) {
        mailbox.lock().expect("no thread panicked").extend((0..ROUND).map(|_| blocks.get()));
        barrier.wait();
        barrier.wait();
    }
}

/// Times the frees of blocks that another thread allocated, [`ROUND`] blocks at a time.
pub(super) fn put_elsewhere(
    blocks: &impl Blocks,
    operations: u64,
    mailbox: &Mutex<Vec<Pfn>>,
    barrier: &SpinBarrier,
) -> Sample {
    (0..operations.div_ceil(ROUND))
        .map(|_| {
            barrier.wait();
            let taken = std::mem::take(&mut *mailbox.lock().expect("no thread panicked"));
            let sample = time(ROUND, || taken.iter().for_each(|&block| blocks.put(block)));
            barrier.wait();
            sample
        })
        .sum()
}
