//! Blocks that a load allocates, and those still in use when it ends.

/// Memory of a number of bytes, not written yet.
pub(super) type Block = Box<[std::mem::MaybeUninit<u8>]>;

/// Blocks that are still in use when a load ends.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Requested bytes of the blocks in use.
    pub(super) bytes: usize,
    /// Blocks in use.
    _kept: Vec<Block>,
}

impl Live {
    pub(super) fn new(kept: Vec<Block>) -> Live {
        Live { bytes: kept.iter().map(|block| block.len()).sum(), _kept: kept }
    }
}
