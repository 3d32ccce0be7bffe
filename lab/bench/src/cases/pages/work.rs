//! What is timed, as loops over anything that hands out pages: the engine, or the floor below it.

use std::hint::black_box;
use std::sync::Mutex;

use fastrand::Rng;
use freehold::base::{Gfp, Order, Pfn};
use freehold_timing::clock::Sample;
use freehold_timing::clock::time;
use freehold_timing::spin_barrier::SpinBarrier;

use crate::engine::Engine;

/// Pages that change hands at once when one CPU frees what another allocated: a huge page's worth.
const ROUND: u64 = 512;

/// Something that hands out blocks of one kind and takes them back.
pub(super) trait Blocks: Sync {
    /// A block.
    fn get(&self) -> Pfn;
    /// Takes it back.
    fn put(&self, pfn: Pfn);
}

/// Blocks of an engine.
pub(super) struct EngineBlocks<'e, 'm> {
    engine: &'e Engine<'m>,
    gfp: Gfp,
    order: Order,
}

impl<'e, 'm> EngineBlocks<'e, 'm> {
    /// Blocks that this request gets, which the compiler does not know, so that nothing is worked out ahead.
    pub(super) fn new(engine: &'e Engine<'m>, gfp: Gfp, order: u8) -> EngineBlocks<'e, 'm> {
        EngineBlocks { engine, gfp: black_box(gfp), order: black_box(Order::new(order)) }
    }
}

impl Blocks for EngineBlocks<'_, '_> {
    #[inline]
    fn get(&self) -> Pfn {
        self.engine.alloc_pages(self.gfp, self.order).expect("memory is plenty")
    }

    #[inline]
    fn put(&self, pfn: Pfn) {
        self.engine.free_pages(pfn, self.order).expect("the block is ours");
    }
}

/// What one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A block allocated and freed, again and again.
    Pair,
    /// Blocks allocated one after the other; freeing them is not timed.
    BulkGet,
    /// Blocks freed in the order in which they were allocated; allocating them is not timed.
    BulkPut,
    /// Blocks freed in random order; allocating and shuffling them is not timed.
    RandomPut,
    /// Blocks allocated, then freed in random order; shuffling them is not timed.
    FillFreeRandom,
}

impl Work {
    /// Times so many operations. Threads that do the same at the same time meet before each timed part.
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

/// In what order blocks are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    AsTaken,
    Shuffled,
}

/// Both halves of a fill.
struct Fill {
    got: Sample,
    put: Sample,
}

/// Takes so many blocks, then frees them.
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

/// What the first of two threads does for [`put_elsewhere`]: it allocates, and waits until the other one has freed.
pub(super) fn get_for_another(blocks: &impl Blocks, operations: u64, mailbox: &Mutex<Vec<Pfn>>, barrier: &SpinBarrier) {
    for _ in 0..operations.div_ceil(ROUND) {
        mailbox.lock().expect("no thread panicked").extend((0..ROUND).map(|_| blocks.get()));
        barrier.wait();
        barrier.wait();
    }
}

/// Times the frees of what another thread allocated, a few hundred blocks at a time.
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
