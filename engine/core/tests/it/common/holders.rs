//! State that threads share outside the engine: a mark for each frame that a thread holds, and a mailbox of blocks for
//! other threads.
//!
//! A frame with two holders is detected when the second holder marks it. The locks are the engine's own, so that
//! sanitizers that do not instrument the standard library still see every hand-over.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use freehold::base::lock::{Guard, Locked, Rank, Ranked, SpinLock};
use freehold::base::{Order, Pfn};

/// An allocated block.
pub(crate) type Block = (Pfn, Order);

/// Transition of the marks of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Taken,
    Dropped,
}

/// Blocks that any thread may take.
#[derive(Default)]
struct Mailbox(Vec<Block>);

impl Ranked for Mailbox {
    const RANK: Rank = Rank::Cma;
}

/// The marks and the mailbox.
pub(crate) struct Beside {
    held: Vec<AtomicBool>,
    mailbox: Locked<SpinLock, Mailbox>,
}

impl Beside {
    /// Creates marks for `frames` frames, none of which is held.
    pub(crate) fn new(frames: u32) -> Beside {
        let held = (0..frames).map(|_| AtomicBool::new(false)).collect();
        Beside { held, mailbox: Locked::new(Mailbox::default()) }
    }

    /// Changes the mark of every frame of a block. Panics if a frame already has the new mark.
    pub(crate) fn mark(&self, (pfn, order): Block, hold: Hold) {
        for held in &self.held[pfn.index()..][..order.pages() as usize] {
            let before = held.swap(hold == Hold::Taken, Relaxed);
            assert_eq!(before, hold == Hold::Dropped, "a frame of block {pfn} of order {order} was already {hold:?}");
        }
    }

    /// Returns the number of frames that are held.
    pub(crate) fn held(&self) -> u64 {
        self.held.iter().filter(|held| held.load(Relaxed)).count() as u64
    }

    /// Puts a block into the mailbox.
    pub(crate) fn post(&self, block: Block) {
        self.open().0.push(block);
    }

    /// Takes a block out of the mailbox.
    pub(crate) fn collect(&self) -> Option<Block> {
        self.open().0.pop()
    }

    fn open(&self) -> Guard<'_, SpinLock, Mailbox> {
        self.mailbox.lock()
    }
}
