//! Blocks of pages that workloads hold.

use freehold::base::{Order, Pfn};

/// A block that a workload has allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First frame.
    pub pfn: Pfn,
    /// Order of the block.
    pub order: Order,
    /// Number of the CPU that allocated the block.
    pub from: u16,
}
