//! Errors of the page allocator. An error about a frame carries the frame's number and the state that was found.

use core::fmt;

use crate::base::{Order, Pfn, State};

/// Reason why a request got no block of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// No zone that the request may use has such a block, or may give one up.
    OutOfMemory,
    /// The flags contradict each other: both mobility bits, or several zone modifiers.
    Flags,
    /// The given node does not exist.
    Node,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllocError::OutOfMemory => "no zone that the request may use can give a block of this order",
            AllocError::Flags => "the GFP flags contradict each other",
            AllocError::Node => "there is no such node",
        })
    }
}

impl core::error::Error for AllocError {}

/// Reason why a block was not freed, its references were not changed, or it was not split. The block is unchanged,
/// except under [`FreeError::Bad`]. If several blocks or a range were passed, the error is that of the first block that
/// could not be freed, and `pfn` is a frame of that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// The frame has no metadata or is Absent: its memory is not online.
    OutOfRange {
        /// The frame that was passed.
        pfn: Pfn,
    },
    /// The frame is not the head of an allocated block: a double free, or a pointer into a block.
    NotAllocated {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// The order that the caller passed is not the order of the block, or the block cannot be split into blocks of this
    /// order.
    WrongOrder {
        /// The frame that was passed.
        pfn: Pfn,
        /// Order that the caller passed.
        given: Order,
        /// State of the frame.
        state: State,
    },
    /// The range cannot be freed, regardless of its contents.
    Range(RangeError),
    /// The block extends past the end of the range to be freed.
    CrossesEnd {
        /// First frame of the block.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// The frame is in a CMA area and was not allocated by that area.
    NotHandedOut {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// A reference was added to, or dropped on, a block that has none.
    Frozen {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// The block belongs to a slab. Only the slab allocator frees it.
    Slab {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// Another call in progress has claimed the frame.
    Busy {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// The block already has the largest number of references that can be counted.
    References {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// The block was freed as frozen although it has references. It is withheld for ever.
    Bad {
        /// The frame that was passed.
        pfn: Pfn,
        /// State of the block before the call.
        state: State,
    },
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FreeError::OutOfRange { pfn } => write!(f, "frame {pfn} is in memory that was never online"),
            FreeError::NotAllocated { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected the head of an allocated block")
            }
            FreeError::WrongOrder { pfn, given, state } => {
                write!(f, "frame {pfn} is {state:?}; expected a block of order {given}")
            }
            FreeError::Range(error) => error.fmt(f),
            FreeError::CrossesEnd { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}, and its block extends past the end of the range")
            }
            FreeError::NotHandedOut { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected a frame that was allocated from its CMA area")
            }
            FreeError::Frozen { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected a block with references")
            }
            FreeError::Slab { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; only the slab allocator can free it")
            }
            FreeError::Busy { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; a call in progress has claimed it; try again")
            }
            FreeError::References { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; its reference counter is at its limit")
            }
            FreeError::Bad { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected a block without references, so it is withdrawn")
            }
        }
    }
}

impl core::error::Error for FreeError {}

impl From<RangeError> for FreeError {
    fn from(error: RangeError) -> FreeError {
        FreeError::Range(error)
    }
}

/// Reason why a range is invalid, regardless of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// The range holds no frame.
    Empty {
        /// Frame at which the range starts.
        start: Pfn,
    },
    /// A frame has no metadata, or is in no zone, because its memory is not online. For a CMA area: the range is not
    /// within the area, or the area belongs to another allocator.
    OutOfRange {
        /// The first such frame.
        pfn: Pfn,
    },
    /// The range starts in one zone and ends in another.
    CrossesZone {
        /// The first frame of the other zone.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// The start or the end of the range is not a multiple of the required number of frames.
    Misaligned {
        /// Start or end of the range, whichever is misaligned.
        pfn: Pfn,
        /// Number of frames of which the border must be a multiple.
        pages: u32,
    },
    /// A size or an alignment is not a power of two.
    PowerOfTwo {
        /// The size or the alignment that was passed, in frames.
        pages: u32,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Empty { start } => write!(f, "the range at frame {start} is empty"),
            RangeError::OutOfRange { pfn } => write!(f, "frame {pfn} is in memory that was never online"),
            RangeError::CrossesZone { pfn, state } => {
                write!(f, "frame {pfn} ({state:?}) is in another zone than the start of its range")
            }
            RangeError::Misaligned { pfn, pages } => {
                write!(f, "frame {pfn} must be a multiple of {pages} frames, as a border of this range")
            }
            RangeError::PowerOfTwo { pages } => {
                write!(f, "the number of frames must be a power of two, but is {pages}")
            }
        }
    }
}

impl core::error::Error for RangeError {}

/// Reason why a range was not allocated.
///
/// Every frame has the state, and every counter the value, that it would have without the attempt. The exceptions are
/// [`ContigError::Busy`] and [`ContigError::NoRange`]: blocks may have been migrated by then, which may also have
/// drained or filled per-CPU lists, claimed a pageblock, or reclaimed memory for the new places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContigError {
    /// The flags contradict each other.
    Flags,
    /// The range cannot be allocated, regardless of its contents.
    Range(RangeError),
    /// A pageblock of the range belongs to a CMA area, and only the area allocates its frames.
    Cma {
        /// The first such frame.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// The range contains a block that cannot be migrated, or a frame that is not online or, unless the range goes
    /// offline, Reserved or withheld.
    Unmovable {
        /// The frame, or the head of its block.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// The range contains a block that could not be migrated, or that was allocated again, until the attempts were used
    /// up; or a pageblock that too many ranges isolate.
    Busy {
        /// The first such frame.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// No zone, or no part of the area, has a range that can be emptied.
    NoRange,
}

impl ContigError {
    /// Returns the frame that prevented the allocation, after which a search for a range can continue. Returns `None`
    /// if no frame is the cause: the flags, the size or the alignment are invalid, or no range was found.
    pub fn pfn(&self) -> Option<Pfn> {
        match *self {
            ContigError::Cma { pfn, .. } | ContigError::Unmovable { pfn, .. } | ContigError::Busy { pfn, .. } => {
                Some(pfn)
            }
            ContigError::Range(RangeError::OutOfRange { pfn } | RangeError::CrossesZone { pfn, .. }) => Some(pfn),
            ContigError::Flags | ContigError::Range(_) | ContigError::NoRange => None,
        }
    }
}

impl From<RangeError> for ContigError {
    fn from(error: RangeError) -> ContigError {
        ContigError::Range(error)
    }
}

impl fmt::Display for ContigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContigError::Flags => f.write_str("the GFP flags contradict each other"),
            ContigError::Range(error) => error.fmt(f),
            ContigError::Cma { pfn, state } => {
                write!(f, "frame {pfn} is {state:?} in a CMA area; only the area can allocate it")
            }
            ContigError::Unmovable { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected free memory, or a block that may be moved")
            }
            ContigError::Busy { pfn, state } => write!(f, "frame {pfn} is {state:?}, and was not emptied in time"),
            ContigError::NoRange => f.write_str("no range of this size can be emptied"),
        }
    }
}

impl core::error::Error for ContigError {}
