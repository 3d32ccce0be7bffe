//! What threads share beside the engine: which thread holds which frame, and blocks on their way to other threads.
//!
//! Two holders of a frame at once are seen at the moment it happens. The locks are the engine's own, so that a
//! sanitizer that does not see into the standard library sees every hand-over.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use freehold::base::lock::{Guard, Locked, Rank, Ranked, SpinLock};
use freehold::base::{Order, Pfn};

/// A block that somebody holds.
pub(crate) type Block = (Pfn, Order);

/// What becomes of the marks of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Taken,
    Dropped,
}

/// Blocks for the next thread that takes one.
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
    /// Nobody holds anything yet.
    pub(crate) fn new(frames: u32) -> Beside {
        let held = (0..frames).map(|_| AtomicBool::new(false)).collect();
        Beside { held, mailbox: Locked::new(Mailbox::default()) }
    }

    /// Marks every frame of a block, which must have been marked otherwise.
    pub(crate) fn mark(&self, (pfn, order): Block, hold: Hold) {
        for held in &self.held[pfn.index()..][..order.pages() as usize] {
            let before = held.swap(hold == Hold::Taken, Relaxed);
            assert_eq!(before, hold == Hold::Dropped, "a frame of block {pfn} of order {order}, now {hold:?}");
        }
    }

    /// Frames that somebody holds.
    pub(crate) fn held(&self) -> u64 {
        self.held.iter().filter(|held| held.load(Relaxed)).count() as u64
    }

    /// Leaves a block for the next thread that takes one.
    pub(crate) fn post(&self, block: Block) {
        self.open().0.push(block);
    }

    /// A block that somebody left.
    pub(crate) fn collect(&self) -> Option<Block> {
        self.open().0.pop()
    }

    fn open(&self) -> Guard<'_, SpinLock, Mailbox> {
        self.mailbox.lock()
    }
}
