//! Blocks that a load allocates, and those that are still in use at its end.

/// Memory of so many bytes, written nowhere yet.
pub(super) type Block = Box<[std::mem::MaybeUninit<u8>]>;

/// Blocks that are still in use when a load ends.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Bytes that were asked for and are still in use.
    pub(super) bytes: usize,
    /// What holds them.
    _kept: Vec<Block>,
}

impl Live {
    pub(super) fn new(kept: Vec<Block>) -> Live {
        Live { bytes: kept.iter().map(|block| block.len()).sum(), _kept: kept }
    }
}
