//! Errors are values: what was asked, what was found, what was expected.

use core::fmt;

use crate::base::{Order, Pfn, State};

/// Why a request got no block of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// No zone that the request may use has a block, or may give it up.
    OutOfMemory,
    /// The flags contradict each other: both mobility bits, or several zone modifiers.
    Flags,
    /// No node has the number that was given.
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

/// Why a block was not freed. Nothing was changed, except under [`FreeError::Bad`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// The frame has no metadata: its memory was never online.
    OutOfRange {
        /// Number of the frame that was named.
        pfn: Pfn,
    },
    /// The frame is not the head of an allocated block: a double free, or a pointer into a block.
    NotAllocated {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// The block has another order than the caller gave.
    WrongOrder {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// Order that the caller gave.
        given: Order,
        /// State that the frame was found in.
        state: State,
    },
    /// The range cannot be freed, whatever is in it.
    Range(RangeError),
    /// The block extends past the end of the range that was to be freed.
    CrossesEnd {
        /// First frame of the block.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// The frame is in a CMA area that has not handed it out.
    NotHandedOut {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// A reference was dropped on a block that has none.
    Frozen {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// The block is a slab's, which alone gives it back.
    Slab {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// A call that is under way has the frame in hand.
    Busy {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// The block has as many references as can be counted.
    References {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the frame was found in.
        state: State,
    },
    /// The block was freed as frozen while it still has references. It is withheld for ever.
    Bad {
        /// Number of the frame that was named.
        pfn: Pfn,
        /// State that the block was in before.
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
                write!(f, "frame {pfn} is {state:?}; expected one that its CMA area handed out")
            }
            FreeError::Frozen { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected a block with references")
            }
            FreeError::Slab { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; only its slab gives it back")
            }
            FreeError::Busy { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; a call that is under way has it: ask again")
            }
            FreeError::References { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; no more references can be counted")
            }
            FreeError::Bad { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected a block without references: it is withheld")
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

/// What is wrong with a range, whatever is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// The range holds no frame.
    Empty {
        /// Frame at which the range would start.
        start: Pfn,
    },
    /// A frame has no metadata, or is in no zone: its memory was never online.
    OutOfRange {
        /// Number of the first such frame.
        pfn: Pfn,
    },
    /// It begins in one zone and goes on in another.
    CrossesZone {
        /// The first frame of the other zone.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// It must start, or end, at a multiple of so many frames, and does not.
    Misaligned {
        /// Frame at which the range starts, or ends.
        pfn: Pfn,
        /// Number of frames that the border is no multiple of.
        pages: u32,
    },
    /// A size or an alignment must be a power of two, and is not.
    PowerOfTwo {
        /// Number of frames that was asked for.
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
                write!(f, "frame {pfn} is no multiple of {pages} frames, as a border of this range must be")
            }
            RangeError::PowerOfTwo { pages } => write!(f, "{pages} frames are no power of two, as they must be here"),
        }
    }
}

impl core::error::Error for RangeError {}

/// Why a range was not allocated.
///
/// Every frame is in the state, and every counter at the value, that it would have without the attempt; but under
/// [`ContigError::Busy`] blocks that could be moved may have been, and what comes with that: per-CPU lists drained or
/// filled, a pageblock claimed or memory reclaimed for the new places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContigError {
    /// The flags contradict each other.
    Flags,
    /// The range cannot be allocated, whatever is in it.
    Range(RangeError),
    /// Its pageblock belongs to a CMA area, which hands out its frames itself.
    Cma {
        /// Number of the first such frame.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// Something in it will never move.
    Unmovable {
        /// The frame, or the head of the block it is in.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// Something in it could not be moved, or was taken again, until patience ended.
    Busy {
        /// Number of the first such frame.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// No range in any zone, or nowhere in the area, that can be emptied.
    NoRange,
}

impl ContigError {
    /// The frame that stood in the way, if it was one.
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
                write!(f, "frame {pfn} is {state:?} in a CMA area; only the area hands it out")
            }
            ContigError::Unmovable { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected free memory, or a block that may be moved")
            }
            ContigError::Busy { pfn, state } => write!(f, "frame {pfn} is {state:?}, and could not be emptied in time"),
            ContigError::NoRange => f.write_str("no range of this size can be emptied"),
        }
    }
}

impl core::error::Error for ContigError {}
