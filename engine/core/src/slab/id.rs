//! The number of a cache: how pages, slabs and errors name it.

use core::fmt;

/// The number of a cache among those of its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CacheId(u8);

impl CacheId {
    /// The number, whether a cache has it or not.
    pub const fn new(number: u8) -> CacheId {
        CacheId(number)
    }

    /// The number as it stands in a slab map's byte.
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Where the cache has its place in a table of all.
    #[inline(always)]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CacheId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
