//! State that the CPUs of a run share besides the allocator: mailboxes, and blocks that are kept for good.

use std::iter;
use std::sync::{Mutex, PoisonError};

use super::block::Block;
use super::mailbox::Mailboxes;
use super::playback::Play;
use super::window::Window;

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
