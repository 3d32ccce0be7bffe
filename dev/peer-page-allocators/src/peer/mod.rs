//! Interface of all peers, and the peers, each in its own file.
//!
//! A peer without a lock is put under one ([`locked`]). A peer that keeps its metadata inside the memory that it
//! manages gets a reserve of memory ([`reserve`]). Calls are resolved at compile time, so the interface has no cost.

pub(crate) mod bitmap;
pub(crate) mod buddy_alloc;
pub(crate) mod buddy_system;
#[cfg(test)]
mod conformance;
pub(crate) mod floor;
pub(crate) mod frame_alloc;
pub(crate) mod free_list;
pub(crate) mod locked;
mod reserve;
pub(crate) mod talc;

use std::io;

use crate::units::{Frame, Order};

/// Page-frame allocator.
pub(crate) trait Peer: Sized {
    /// Creates an allocator of `frames` frames. All are free, in the largest blocks that the allocator supports.
    ///
    /// # Errors
    /// Returns an error if the system has no memory for it.
    fn boot(frames: u32) -> Result<Self, BootError>;

    /// Allocates a block. Returns `None` if there is no such block, or if this peer does not support the order.
    fn alloc(&mut self, order: Order) -> Option<Frame>;

    /// Frees a block.
    ///
    /// # Safety
    /// [`Peer::alloc`] of this peer must have returned `block` for this `order`, and the block must not have been freed
    /// since.
    unsafe fn free(&mut self, block: Frame, order: Order);
}

/// Reason for which a machine could not be booted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootError {
    /// The system refused the memory.
    #[error("cannot reserve {bytes} bytes of address space: {source}; raise the limit that `ulimit -v` shows")]
    Memory {
        /// Requested bytes.
        bytes: usize,
        /// Error of the system.
        source: io::Error,
    },
    /// The peer refused the memory.
    #[error("the peer does not accept a machine of {frames} frames; use another version of its package")]
    Refused {
        /// Frames that the peer was given.
        frames: u32,
    },
}
