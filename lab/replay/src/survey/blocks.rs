//! Blocks and pageblocks of the start state.

use freehold_trace::{Kind, Row};

use super::age::Age;

/// A block that was on a CPU's list when the recording started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedBlock {
    pub(crate) pfn: u32,
    pub(crate) order: u8,
    pub(crate) cpu: u16,
    /// Type of the list: that of the request that was served from it, or of the pageblock when it was drained.
    pub(crate) migratetype: i8,
    /// Whether `cpu` is only the CPU that drained the block. The block may have been on another CPU's list.
    pub(crate) drained: bool,
}

impl CachedBlock {
    pub(super) fn from_row(start: usize, row: &Row) -> CachedBlock {
        CachedBlock {
            pfn: start as u32,
            order: row.order,
            cpu: row.cpu,
            migratetype: row.migratetype,
            drained: row.kind == Kind::PcpuDrain,
        }
    }
}

/// Consecutive blocks of one order that were allocated when the recording started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocatedBlocks {
    pub(crate) pfn: u32,
    pub(crate) blocks: u32,
    pub(crate) order: u8,
    pub(crate) movable: bool,
    /// Whether the pages have a mapping: they belong to a file, or are shared memory.
    pub(crate) mapping: bool,
    /// Age, if it is page cache that can be reclaimed.
    pub(crate) age: Option<Age>,
}

impl AllocatedBlocks {
    /// Returns the first frame of each block.
    pub(crate) fn heads(self) -> impl Iterator<Item = u32> {
        (0..self.blocks).map(move |block| self.pfn + (block << self.order))
    }
}

/// A block that was free when the recording started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeBlock {
    pub(crate) pfn: u32,
    pub(crate) order: u8,
}

/// A run of pageblocks of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageblockRun {
    pub(crate) pfn: u32,
    pub(crate) blocks: u32,
    pub(crate) migratetype: i8,
}
