//! What is asked for when a cache is made.

bitflags::bitflags! {
    /// What a cache can be asked for. linux: include/linux/slab.h
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CacheFlags: u32 {
        /// Objects on cache lines of their own. linux: SLAB_HWCACHE_ALIGN
        const HWCACHE_ALIGN = 1;
        /// Shrinkers free the objects: pages are grouped with others of that kind. linux: SLAB_RECLAIM_ACCOUNT
        const RECLAIM_ACCOUNT = 2;
        /// Each free looks through the list of what is free in its slab. linux: SLAB_CONSISTENCY_CHECKS
        const SANITY = 4;
        /// Bytes around an object show a write outside of it. linux: SLAB_RED_ZONE
        const RED_ZONE = 8;
        /// Bytes of free objects show a write into them. linux: SLAB_POISON
        const POISON = 16;
        /// Each object remembers who allocated and who freed it. linux: SLAB_STORE_USER
        const STORE_USER = 32;
    }
}

impl CacheFlags {
    /// Those that cost every allocation and free.
    pub const DEBUG: CacheFlags =
        CacheFlags::SANITY.union(CacheFlags::RED_ZONE).union(CacheFlags::POISON).union(CacheFlags::STORE_USER);
}

/// What is asked for when a cache is made.
#[derive(Clone, Copy, Debug)]
pub struct CacheConfig<'a> {
    /// Name in slabinfo; what is beyond 31 bytes is cut off.
    pub name: &'a str,
    /// Bytes of an object, from 1 to what the largest slab holds.
    pub size: u32,
    /// Alignment, a power of two up to the page size; 0 for that of a word.
    pub align: u32,
    /// Options by bits: debugging, alignment to cache lines, and the like.
    pub flags: CacheFlags,
    /// Prepares each object once, when its slab is made; a free leaves the object as it is, for the next allocation.
    pub constructor: Option<fn(core::ptr::NonNull<u8>)>,
}

impl<'a> CacheConfig<'a> {
    /// Objects of so many bytes, and nothing special.
    pub const fn new(name: &'a str, size: u32) -> CacheConfig<'a> {
        CacheConfig { name, size, align: 0, flags: CacheFlags::empty(), constructor: None }
    }

    /// The same with objects at multiples of `align` bytes, a power of two.
    pub const fn with_align(self, align: u32) -> CacheConfig<'a> {
        CacheConfig { align, ..self }
    }

    /// The same with these flags instead of none.
    pub const fn with_flags(self, flags: CacheFlags) -> CacheConfig<'a> {
        CacheConfig { flags, ..self }
    }

    /// The same with a function that prepares each object of a new slab.
    pub const fn with_constructor(self, constructor: fn(core::ptr::NonNull<u8>)) -> CacheConfig<'a> {
        CacheConfig { constructor: Some(constructor), ..self }
    }
}
