//! State that the CPUs of a run share besides the allocator: mailboxes, and blocks that stay until the run ends.

use std::iter;
use std::sync::{Mutex, PoisonError};

use super::block::Block;
use super::mailbox::Mailboxes;
use super::playback::Play;
use super::window::Window;

/// State that the CPUs share.
#[derive(Debug)]
pub struct World {
    /// Number of CPUs.
    pub cpus: u16,
    /// Measured part of the run.
    pub window: Window,
    /// Limit (`high`) of the list of CPU 0 in the first zone with memory, right after boot, in pages. It is the minimum
    /// of that limit.
    pub list_high: u32,
    /// Parcels in transit.
    pub mailboxes: Mailboxes,
    /// Page cache of executors without a memory model. Blocks never leave it during the run.
    kept: Mutex<Vec<Block>>,
    /// Recording to play, if the workload is one.
    pub play: Option<Play>,
}

impl World {
    /// Creates the state at the beginning of a run.
    pub fn new(cpus: u16, window: Window, list_high: u32) -> World {
        World { cpus, window, list_high, mailboxes: Mailboxes::new(cpus), kept: Mutex::default(), play: None }
    }

    /// Keeps a block until the run is over.
    pub fn keep(&self, block: Block) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }

    /// Takes the blocks that no CPU holds when a run is over: parcels in mailboxes, and kept blocks.
    pub fn leftovers(&self) -> Vec<Block> {
        let parcels = (0..self.cpus).flat_map(|cpu| iter::from_fn(move || self.mailboxes.take(cpu)));
        let mut blocks: Vec<Block> = parcels.flat_map(|(parcel, _)| parcel).collect();
        blocks.append(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        blocks
    }
}
