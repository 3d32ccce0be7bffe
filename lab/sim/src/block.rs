//! Blocks of pages that workloads hold.

use freehold::base::{Order, Pfn};

/// A block that a workload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First frame.
    pub pfn: Pfn,
    /// Its order.
    pub order: Order,
    /// The CPU that allocated it.
    pub from: u16,
}
