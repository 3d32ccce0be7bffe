//! Numbers of caches, by which pages, slabs and errors name them.

use core::fmt;

/// Number of a cache in its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CacheId(u8);

impl CacheId {
    /// Creates a cache number. A cache with that number need not exist.
    pub const fn new(number: u8) -> CacheId {
        CacheId(number)
    }

    /// Returns the number as it is stored in a byte of the slab map.
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the index of the cache in a table of all caches.
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
