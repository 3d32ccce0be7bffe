//! Parameters of a new cache.

bitflags::bitflags! {
    /// Options of a cache. linux: include/linux/slab.h
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CacheFlags: u32 {
        /// Aligns objects to cache lines; smaller objects to the next power of two, so that none crosses a line. linux:
        /// SLAB_HWCACHE_ALIGN
        const HWCACHE_ALIGN = 1;
        /// Objects are freed by shrinkers, so their pages are grouped with other reclaimable pages. linux:
        /// SLAB_RECLAIM_ACCOUNT
        const RECLAIM_ACCOUNT = 2;
        /// Each free checks the list of free objects of the object's slab. linux: SLAB_CONSISTENCY_CHECKS
        const SANITY = 4;
        /// Bytes around an object reveal writes outside of it. linux: SLAB_RED_ZONE
        const RED_ZONE = 8;
        /// Bytes of free objects reveal writes into them. linux: SLAB_POISON
        const POISON = 16;
        /// Each object records its last allocation and its last free. linux: SLAB_STORE_USER
        const STORE_USER = 32;
    }
}

impl CacheFlags {
    /// All flags that make a cache a checked one, which adds a cost to every allocation and free.
    pub const DEBUG: CacheFlags =
        CacheFlags::SANITY.union(CacheFlags::RED_ZONE).union(CacheFlags::POISON).union(CacheFlags::STORE_USER);
}

/// Parameters of a new cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheConfig<'a> {
    /// Name in slabinfo, of which the first 31 bytes are kept.
    pub name: &'a str,
    /// Bytes of an object, from 1 to the size of the largest slab.
    pub size: u32,
    /// Alignment in bytes, a power of two up to the page size; 0 for that of a word.
    pub align: u32,
    /// Options, such as checks and alignment to cache lines.
    pub flags: CacheFlags,
    /// Function that prepares each object once, when its slab is made. A free leaves the object as it is, for the next
    /// allocation.
    pub constructor: Option<fn(core::ptr::NonNull<u8>)>,
}

impl<'a> CacheConfig<'a> {
    /// Creates the parameters of a cache of objects of `size` bytes without any options.
    pub const fn new(name: &'a str, size: u32) -> CacheConfig<'a> {
        CacheConfig { name, size, align: 0, flags: CacheFlags::empty(), constructor: None }
    }

    /// Returns these parameters with objects at multiples of `align` bytes, a power of two.
    pub const fn with_align(self, align: u32) -> CacheConfig<'a> {
        CacheConfig { align, ..self }
    }

    /// Returns these parameters with the given flags instead of the former ones.
    pub const fn with_flags(self, flags: CacheFlags) -> CacheConfig<'a> {
        CacheConfig { flags, ..self }
    }

    /// Returns these parameters with a function that prepares each object of a new slab.
    pub const fn with_constructor(self, constructor: fn(core::ptr::NonNull<u8>)) -> CacheConfig<'a> {
        CacheConfig { constructor: Some(constructor), ..self }
    }
}
