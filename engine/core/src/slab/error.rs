//! What can be wrong with what a caller hands in, as values.

use core::fmt;

use super::id::CacheId;
use crate::page::AllocError;

/// Why a cache could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Objects of no bytes, or larger than any slab.
    Size {
        /// Size of an object that was asked for, in bytes.
        size: u32,
    },
    /// Not a power of two, or larger than a page.
    Align {
        /// Alignment that was asked for, in bytes.
        align: u32,
    },
    /// There are as many caches as there can be: 254, of which kmalloc has 13, and sheaves, where there are any, 5.
    TooMany,
    /// Objects that a constructor prepares cannot have their bytes overwritten by poison.
    PoisonedConstructor,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Size { size } => write!(
                f,
                "no slab can hold objects of {size} bytes; give 1 byte to the size of the largest block of pages"
            ),
            CreateError::Align { align } => {
                write!(f, "objects cannot be aligned to {align} bytes; give a power of two up to the page size")
            }
            CreateError::TooMany => f.write_str("there are as many caches as there can be; destroy one first"),
            CreateError::PoisonedConstructor => {
                f.write_str("a cache with a constructor cannot be poisoned; leave out one of the two")
            }
        }
    }
}

impl core::error::Error for CreateError {}

/// Why an object was not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// The page allocator had no block for a slab, for this reason.
    Pages(AllocError),
    /// More bytes than the largest block of pages has.
    TooLarge {
        /// Size that was asked for, in bytes.
        size: usize,
    },
    /// The cache was destroyed while the request was under way.
    NoCache,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::Pages(error) => error.fmt(f),
            ObjectError::TooLarge { size } => write!(f, "no block of pages has {size} bytes; ask for less at once"),
            ObjectError::NoCache => f.write_str("the cache was destroyed; allocate from one that is there"),
        }
    }
}

impl core::error::Error for ObjectError {}

/// Why an object was not freed. Nothing was changed, but for one that is [`Damaged`](Self::Damaged).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFreeError {
    /// No object that can be freed here has this address now: it is in no page of a slab. An object whose slab was
    /// given back is no object any more, and a block of pages that `kmalloc` gave out is none of a cache.
    Foreign {
        /// The address that was given back.
        address: u64,
    },
    /// It points into an object, or between two.
    Interior {
        /// The address that was given back.
        address: u64,
    },
    /// It is in a page of another cache.
    WrongCache {
        /// The address that was given back.
        address: u64,
        /// The number of that cache; [`name_of`](super::SlabAllocator::name_of) says its name.
        cache: CacheId,
    },
    /// It is free already, and that was noticed, which no caller may count on:
    ///
    /// - at once, where it is the last one that went into this CPU's sheaf, or onto its slab's list from elsewhere;
    /// - at once, where it goes to its slab, and free objects are bits there;
    /// - where sheaves hold such objects, later, when the sheaf is flushed: that is reported to the platform;
    /// - always, by a cache with [`SANITY`](super::CacheFlags::SANITY).
    ///
    /// Unnoticed, it is given out twice, or its slab's lists are no lists any more.
    DoubleFree {
        /// The address that was given back.
        address: u64,
    },
    /// A debugging check found it damaged, and reported what was found; the object is not used again.
    Damaged {
        /// The address that was given back.
        address: u64,
    },
}

impl fmt::Display for ObjectFreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectFreeError::Foreign { address } => {
                write!(f, "{address:#x} is no object here, or no more; free what was given out, where it was, once")
            }
            ObjectFreeError::Interior { address } => {
                write!(f, "{address:#x} is not where an object begins; free the address that was given out")
            }
            ObjectFreeError::WrongCache { address, cache } => {
                write!(
                    f,
                    "{address:#x} is in a page of cache {cache}; free it there (name_of({cache}) says which), or by kfree"
                )
            }
            ObjectFreeError::DoubleFree { address } => {
                write!(f, "the object at {address:#x} is free already; free it once")
            }
            ObjectFreeError::Damaged { address } => {
                write!(
                    f,
                    "the object at {address:#x} is damaged and out of use; the platform's report says who wrote there"
                )
            }
        }
    }
}

impl core::error::Error for ObjectFreeError {}
