//! Conformance of the peers. Blocks must not overlap, must be aligned, must be sufficient in number, and must not be
//! lost.
//!
//! A small machine is emptied and refilled at each order. Then blocks of random orders are allocated and freed. A
//! record of the allocated frames checks every step. For each promise there is a test peer that breaks it, and the
//! checks must detect that.

use fastrand::Rng;

use super::Peer;
use crate::units::{Frame, ORDERS, Order};

/// Frames of the machine.
const FRAMES: u32 = 1 << 13;
/// Steps of the part with random orders.
const STEPS: usize = 20_000;

/// Broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Overlap,
    Outside,
    Misaligned,
    TooFew,
    Lost,
}

/// For each frame, whether it is allocated.
struct TakenFrames {
    taken: Vec<bool>,
}

impl TakenFrames {
    fn new() -> TakenFrames {
        // A peer may spread its frames over twice their number.
        TakenFrames { taken: vec![false; 2 * FRAMES as usize] }
    }

    fn take(&mut self, block: Frame, order: Order) -> Result<(), Fault> {
        if !block.index().is_multiple_of(order.frames()) {
            return Err(Fault::Misaligned);
        }
        let frames = self.taken.get_mut(block.index()..block.index() + order.frames()).ok_or(Fault::Outside)?;
        if frames.contains(&true) {
            return Err(Fault::Overlap);
        }
        frames.fill(true);
        Ok(())
    }

    fn give_back(&mut self, block: Frame, order: Order) {
        self.taken[block.index()..block.index() + order.frames()].fill(false);
    }
}

/// Peer under test, with a record of all frames that it has allocated.
struct Examination<P> {
    peer: P,
    taken_frames: TakenFrames,
}

impl<P: Peer> Examination<P> {
    fn boot() -> Examination<P> {
        Examination { peer: P::boot(FRAMES).expect("the peer has enough memory"), taken_frames: TakenFrames::new() }
    }

    fn alloc(&mut self, order: Order) -> Result<Option<Frame>, Fault> {
        let Some(block) = self.peer.alloc(order) else { return Ok(None) };
        self.taken_frames.take(block, order)?;
        Ok(Some(block))
    }

    fn free(&mut self, block: Frame, order: Order) {
        self.taken_frames.give_back(block, order);
        // SAFETY: both callers free each block once, with the order with which `alloc` returned it.
        unsafe { self.peer.free(block, order) }
    }

    /// Allocates all blocks of one order, frees them in random order, and returns their number.
    fn empty_and_fill(&mut self, order: Order) -> Result<usize, Fault> {
        let mut blocks = Vec::new();
        while let Some(block) = self.alloc(order)? {
            blocks.push(block);
        }
        Rng::with_seed(1).shuffle(&mut blocks);
        for &block in &blocks {
            self.free(block, order);
        }
        Ok(blocks.len())
    }

    /// Allocates and frees blocks of all these orders at random, then frees the rest.
    fn mix(&mut self, orders: &[Order]) -> Result<(), Fault> {
        let mut rng = Rng::with_seed(2);
        let mut held = Vec::new();
        for _ in 0..STEPS {
            let order = orders[rng.usize(..orders.len())];
            if rng.u8(..5) < 3
                && let Some(block) = self.alloc(order)?
            {
                held.push((block, order));
            } else if !held.is_empty() {
                let (block, order) = held.swap_remove(rng.usize(..held.len()));
                self.free(block, order);
            }
        }
        held.into_iter().for_each(|(block, order)| self.free(block, order));
        Ok(())
    }
}

/// Panics unless `P` keeps its promises at these orders.
pub(crate) fn examine<P: Peer>(orders: &[u8]) {
    let orders: Vec<Order> = orders.iter().copied().map(Order::new).collect();
    assert_eq!(inspect::<P>(&orders), Ok(()));
}

/// Panics unless a new machine of the peer consists of whole blocks of the largest order. The peer's metadata must be
/// elsewhere.
pub(crate) fn examine_wholeness<P: Peer>() {
    let largest = Order::new(ORDERS as u8 - 1);
    let blocks = Examination::<P>::boot().empty_and_fill(largest);
    assert_eq!(blocks, Ok(FRAMES as usize / largest.frames()));
}

fn inspect<P: Peer>(orders: &[Order]) -> Result<(), Fault> {
    let mut machine = Examination::<P>::boot();
    let mut counts = Vec::new();
    for &order in orders {
        let count = machine.empty_and_fill(order)?;
        // One block may be lost to metadata, or to gaps between aligned blocks.
        if (count + 1) * order.frames() < FRAMES as usize {
            return Err(Fault::TooFew);
        }
        counts.push(count);
    }
    machine.mix(orders)?;
    for (&order, count) in orders.iter().zip(counts) {
        if machine.empty_and_fill(order)? != count {
            return Err(Fault::Lost);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::BootError;
    use super::super::bitmap::Bitmap;
    use super::*;

    /// Correct peer that breaks one promise, once in a hundred calls.
    struct Broken<const FLAW: char> {
        good: Bitmap,
        calls: u32,
    }

    impl<const FLAW: char> Broken<FLAW> {
        fn is_due(&mut self, flaw: char) -> bool {
            self.calls += 1;
            FLAW == flaw && self.calls.is_multiple_of(100)
        }
    }

    const OVERLAPS: char = 'o';
    const STRAYS: char = 's';
    const TILTS: char = 't';
    const FORGETS: char = 'f';
    const TIRES: char = 'r';
    const NOTHING: char = 'n';

    impl<const FLAW: char> Peer for Broken<FLAW> {
        fn boot(frames: u32) -> Result<Self, BootError> {
            Ok(Broken { good: Bitmap::boot(frames)?, calls: 0 })
        }

        fn alloc(&mut self, order: Order) -> Option<Frame> {
            if self.is_due(OVERLAPS) {
                return Some(Frame(0));
            }
            if self.is_due(STRAYS) {
                return Some(Frame(4 * FRAMES));
            }
            if self.is_due(TILTS) {
                return self.good.alloc(order).map(|block| Frame(block.0 + 1));
            }
            if self.is_due(TIRES) {
                return None;
            }
            self.good.alloc(order)
        }

        unsafe fn free(&mut self, block: Frame, order: Order) {
            if !self.is_due(FORGETS) {
                // SAFETY: the caller promises that `alloc`, which forwards to the correct peer, returned the block with
                // this order.
                unsafe { self.good.free(block, order) }
            }
        }
    }

    fn verdict<const FLAW: char>(order: u8) -> Result<(), Fault> {
        inspect::<Broken<FLAW>>(&[Order::new(order)])
    }

    #[test]
    fn every_planted_fault_is_found() {
        assert_eq!(verdict::<OVERLAPS>(0), Err(Fault::Overlap));
        assert_eq!(verdict::<STRAYS>(0), Err(Fault::Outside));
        assert_eq!(verdict::<TILTS>(3), Err(Fault::Misaligned));
        assert_eq!(verdict::<FORGETS>(0), Err(Fault::Lost));
        assert_eq!(verdict::<TIRES>(0), Err(Fault::TooFew));
        assert_eq!(verdict::<NOTHING>(3), Ok(()));
    }
}
