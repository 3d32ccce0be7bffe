//! The front that all peers have here, and the peers, each in a file of its own.
//!
//! A peer that has no lock is put under one ([`locked`]); a peer that keeps its books inside the memory that it
//! manages gets some ([`reserve`]). Calls are resolved when the program is built, so that a front costs nothing.

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

/// A page-frame allocator.
pub(crate) trait Peer: Sized {
    /// An allocator of `frames` frames, all of them free, in the largest blocks that it knows.
    ///
    /// # Errors
    /// When the system has no memory for it.
    fn boot(frames: u32) -> Result<Self, BootError>;

    /// A block that nobody else has; `None` when there is none or when this peer has no such order.
    fn alloc(&mut self, order: Order) -> Option<Frame>;

    /// Takes a block back.
    ///
    /// # Safety
    /// [`Peer::alloc`] of this very peer handed out `block` with this `order`, and it was not freed since.
    unsafe fn free(&mut self, block: Frame, order: Order);
}

/// Why a peer has no machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootError {
    /// The system refused the memory.
    #[error("cannot reserve {bytes} bytes of address space: {source}; raise the limit that `ulimit -v` shows")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The peer refused the memory.
    #[error("the peer does not take a machine of {frames} frames; try another version of its package")]
    Refused {
        /// How much it was given.
        frames: u32,
    },
}
