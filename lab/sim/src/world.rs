//! What the CPUs of a run share besides the allocator: when it is measured, mailboxes, and what is kept for good.

use std::iter;
use std::sync::{Mutex, PoisonError};

use super::cpu::Block;
use super::mailbox::Mailboxes;
use super::workload::recording::Play;

/// When a run is measured, in picoseconds since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// What is done before is not counted: lists fill, and limits find their place.
    pub begin: u64,
    /// What is done from here on is not counted: CPUs wind down.
    pub end: u64,
}

/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;

impl Window {
    /// So many milliseconds, after so many others.
    pub fn after_ms(warmup_ms: u64, duration_ms: u64) -> Window {
        Window { begin: warmup_ms * PS_PER_MS, end: (warmup_ms + duration_ms) * PS_PER_MS }
    }

    /// Whether what happens now counts.
    pub fn contains(&self, now: u64) -> bool {
        (self.begin..self.end).contains(&now)
    }

    /// How long it is.
    pub fn picoseconds(&self) -> u64 {
        self.end - self.begin
    }
}

/// What CPUs share.
#[derive(Debug)]
pub struct World {
    /// Number of CPUs.
    pub cpus: u16,
    /// When the run is measured.
    pub window: Window,
    /// The limit of a per-CPU list as the machine comes up, in pages: the lowest that it can be.
    pub list_high: u32,
    /// Parcels under way.
    pub mailboxes: Mailboxes,
    /// The page cache of executors without a memory model: nothing ever leaves it.
    kept: Mutex<Vec<Block>>,
    /// What is played, if the workload is a recording.
    pub play: Option<Play>,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(cpus: u16, window: Window, list_high: u32) -> World {
        World { cpus, window, list_high, mailboxes: Mailboxes::new(cpus), kept: Mutex::default(), play: None }
    }

    /// Keeps a block until the run is over.
    pub fn keep(&self, block: Block) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }

    /// What nobody has when a run is over: what is under way between CPUs, and what was kept.
    pub fn leftovers(&self) -> Vec<Block> {
        let parcels = (0..self.cpus).flat_map(|cpu| iter::from_fn(move || self.mailboxes.take(cpu)));
        let mut blocks: Vec<Block> = parcels.flat_map(|(parcel, _)| parcel).collect();
        blocks.append(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        blocks
    }
}
