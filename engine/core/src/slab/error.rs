//! Errors of the slab's functions: invalid parameters of caches, failed allocations and refused frees.

use core::fmt;

use super::id::CacheId;
use crate::page::AllocError;

/// Reasons why a cache cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Objects have no bytes, or are larger than any slab.
    Size {
        /// Requested size of an object, in bytes.
        size: u32,
    },
    /// The alignment is not a power of two, or larger than a page.
    Align {
        /// Requested alignment, in bytes.
        align: u32,
    },
    /// All cache numbers are used. At most 254 caches exist, or fewer if [`Memory::caches`](super::Memory::caches) is
    /// smaller. The allocator itself uses 13 or 41 of them for kmalloc, depending on the policy, and 5 for sheaves if
    /// there are any.
    TooMany,
    /// A cache with a constructor cannot be poisoned, since poison would overwrite the prepared objects.
    PoisonedConstructor,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Size { size } => write!(
                f,
                "no slab can contain objects of {size} bytes; use a size from 1 byte to the largest block of pages"
            ),
            CreateError::Align { align } => {
                write!(f, "objects cannot be aligned to {align} bytes; use a power of two up to the page size")
            }
            CreateError::TooMany => f.write_str("all numbers for caches are in use; destroy a cache first"),
            CreateError::PoisonedConstructor => {
                f.write_str("a cache with a constructor cannot be poisoned; omit one of the two")
            }
        }
    }
}

impl core::error::Error for CreateError {}

/// Reasons why an object was not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// The page allocator had no block for a slab, or for a request that gets whole pages, for this reason.
    Pages(AllocError),
    /// The request is larger than the largest block of pages.
    TooLarge {
        /// Requested size, in bytes.
        size: usize,
    },
    /// The cache was destroyed while the request was under way.
    NoCache,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::Pages(error) => error.fmt(f),
            ObjectError::TooLarge { size } => write!(f, "no block of pages has {size} bytes; request less at once"),
            ObjectError::NoCache => f.write_str("the cache was destroyed; allocate from an existing cache"),
        }
    }
}

impl core::error::Error for ObjectError {}

/// Reasons why an object was not freed. Nothing was changed, except for an object that is [`Damaged`](Self::Damaged).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFreeError {
    /// The address is in no page of a slab and, for `kfree`, not in the first page of a block that `kmalloc` allocated.
    /// So no object that can be freed here has it now. This is also the case if the object's slab was given back, or if
    /// a cache is given a block of pages that `kmalloc` allocated.
    Foreign {
        /// Address that was freed.
        address: u64,
    },
    /// The address points into an object, or between two objects.
    Interior {
        /// Address that was freed.
        address: u64,
    },
    /// The address is in a page of another cache.
    WrongCache {
        /// Address that was freed.
        address: u64,
        /// Number of that cache; [`name_of`](super::SlabAllocator::name_of) returns its name.
        cache: CacheId,
    },
    /// The object is already free. Detection is best effort, and callers must not rely on it:
    ///
    /// - immediately, if the object is the last one that was put into this CPU's main sheaf or, in the slow path of a
    ///   free, the last one that was put on a list of its slab or on this CPU's list;
    /// - immediately, if the object is freed to its slab, not into a sheaf, and the slab's free objects are bits;
    /// - later, if the object is in a sheaf and its slab's free objects are bits: when that sheaf is flushed, the
    ///   platform gets a report;
    /// - always, in a checked cache, one with any of [`CacheFlags::DEBUG`](super::CacheFlags::DEBUG).
    ///
    /// If the double free is not detected, the object is handed out twice, or its slab's lists are corrupted.
    DoubleFree {
        /// Address that was freed.
        address: u64,
    },
    /// A debugging check found the object damaged and reported the damage. The object is not used again.
    Damaged {
        /// Address that was freed.
        address: u64,
    },
}

impl fmt::Display for ObjectFreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectFreeError::Foreign { address } => {
                write!(
                    f,
                    "{address:#x} is not an allocated object of this allocator; free each object once, where it was \
                     allocated"
                )
            }
            ObjectFreeError::Interior { address } => {
                write!(f, "no object begins at {address:#x}; free the address that was allocated")
            }
            ObjectFreeError::WrongCache { address, cache } => {
                write!(
                    f,
                    "{address:#x} is in a page of cache {cache}; free it there (see name_of({cache})), or with kfree"
                )
            }
            ObjectFreeError::DoubleFree { address } => {
                write!(f, "the object at {address:#x} is already free; free it once")
            }
            ObjectFreeError::Damaged { address } => {
                write!(f, "the object at {address:#x} is damaged and was taken out of use; see the platform's report")
            }
        }
    }
}

impl core::error::Error for ObjectFreeError {}
