//! Errors are values: what was asked, what was found, what was expected.

use core::fmt;

use super::contig::error::RangeError;
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
