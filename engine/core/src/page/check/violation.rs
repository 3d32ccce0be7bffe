//! What the walk may find wrong.

use core::fmt;

use crate::base::{CpuId, MigrateType, Order, Pfn, State};

/// State of the page allocator that must not be, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A frame is not what the head before it says.
    Inside {
        /// Number of the frame.
        pfn: Pfn,
        /// State that the frame's word says.
        state: State,
    },
    /// A frame is Interior, but in no block.
    Orphan {
        /// Number of the frame.
        pfn: Pfn,
    },
    /// Two buddies are free, of one type, and not merged.
    Unmerged {
        /// First frame of the lower buddy.
        pfn: Pfn,
        /// Order of both buddies.
        order: Order,
    },
    /// A free block is on the list of another type than its pageblock's.
    WrongType {
        /// First frame of the block.
        pfn: Pfn,
        /// Migratetype of the list that it is on.
        listed: MigrateType,
    },
    /// A pageblock is owned although it is free as a whole or cannot be, or by a CPU that there is not; or it is on the
    /// list of a CPU that does not own it.
    Owner {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// A CPU took a pageblock whole while something smaller of its type would have done, and owns it still.
    OpenedEarly {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// A frame on a list has a word that names no, or another, list.
    WrongList {
        /// Number of the frame.
        pfn: Pfn,
        /// State that the frame's word says.
        state: State,
    },
    /// A list's links do not lead through as many blocks as it should have, or not to its last one.
    Links {
        /// Index of the zone among all zones.
        zone: usize,
        /// Blocks that it should have, or more than it can have.
        counted: u32,
        /// Blocks that the links lead through.
        linked: u32,
    },
    /// A frame's word is that of no state, or has bits that its state does not have.
    Word {
        /// Number of the frame.
        pfn: Pfn,
        /// The frame's word, as it is.
        bits: u32,
    },
    /// A block lies in two zones, or partly in none.
    Across {
        /// First frame of the block.
        pfn: Pfn,
    },
    /// A frame is online outside of its zone's span.
    Span {
        /// Number of the frame.
        pfn: Pfn,
        /// Index of the zone among all zones.
        zone: usize,
    },
    /// A pageblock belongs to a zone that there is not.
    Zone {
        /// First frame of the pageblock.
        pfn: Pfn,
        /// Number that the pageblock gives for its zone.
        zone: u8,
    },
    /// A pageblock is for nothing that there is; or it would be, once nobody isolates it any more.
    Type {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// A pageblock is isolated by nobody, or by somebody without being for [`MigrateType::Isolate`].
    Isolation {
        /// First frame of the pageblock.
        pfn: Pfn,
        /// How many ranges isolate it, by its count.
        isolations: u8,
        /// Migratetype that the pageblock is for.
        migratetype: MigrateType,
    },
    /// What a zone says of its lists without a lock is not so.
    Hint {
        /// Index of the zone among all zones.
        zone: usize,
        /// Order of the blocks on the list.
        order: Order,
        /// Migratetype of the list.
        migratetype: MigrateType,
    },
    /// A zone says that whole free pageblocks are few, or that they are not, and it is not so.
    FewWhole {
        /// Index of the zone among all zones.
        zone: usize,
        /// Whole pageblocks that are free.
        whole: u32,
    },
    /// A zone's watermarks are not in order.
    Marks {
        /// Index of the zone among all zones.
        zone: usize,
    },
    /// The limit of a CPU's lists, or of its stack, is outside of what it moves between.
    Limit {
        /// Index of the zone among all zones.
        zone: usize,
        /// CPU that the lists belong to.
        cpu: CpuId,
    },
    /// A counter differs from what it counts.
    Counter {
        /// What the counter counts, as a phrase.
        name: &'static str,
        /// Index of the zone among all zones.
        zone: usize,
        /// Value of the counter.
        counted: u64,
        /// Number that was found instead.
        found: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the allocator is inconsistent: {self:?}")
    }
}

impl core::error::Error for Violation {}
