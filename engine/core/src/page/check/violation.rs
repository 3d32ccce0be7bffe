//! Violations that the consistency check can find.

use core::fmt;

use crate::base::{CpuId, MigrateType, Order, Pfn, State};

/// Inconsistent state of the page allocator, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The state of a frame does not fit the head before it.
    Inside {
        /// Number of the frame.
        pfn: Pfn,
        /// State of the frame.
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
    /// A free block is on the list of a type that is not its pageblock's.
    WrongType {
        /// First frame of the block.
        pfn: Pfn,
        /// Migratetype of the list that the block is on.
        listed: MigrateType,
    },
    /// A pageblock is owned although it is wholly free or its type cannot be owned, or its owner is a CPU that does not
    /// exist, or it is on the list of a CPU that does not own it or on the list of another type, or it has free pages
    /// in the zone and an owner, and is on no list.
    Owner {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// A CPU took a whole pageblock although a smaller block of its type would have sufficed, and still owns the
    /// pageblock.
    OpenedEarly {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// A frame on a list has a word that names no list or another list, or is in another zone.
    WrongList {
        /// Number of the frame.
        pfn: Pfn,
        /// State of the frame.
        state: State,
    },
    /// The links of a list lead through the wrong number of blocks, or do not lead to the last block.
    Links {
        /// Index of the zone among all zones.
        zone: usize,
        /// Number of blocks that the list should have, or its upper bound.
        counted: u32,
        /// Number of blocks that the links lead through.
        linked: u32,
    },
    /// A frame's word is not a valid state, or has bits that its state does not use.
    Word {
        /// Number of the frame.
        pfn: Pfn,
        /// Bits of the frame's word.
        bits: u32,
    },
    /// A block is in two zones, or partly in none.
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
    /// A pageblock belongs to a zone that does not exist.
    Zone {
        /// First frame of the pageblock.
        pfn: Pfn,
        /// Zone number of the pageblock.
        zone: u8,
    },
    /// A pageblock has an invalid type, or would have one after its isolation ends.
    Type {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// A pageblock has the type [`MigrateType::Isolate`] but no range isolates it, or the reverse.
    Isolation {
        /// First frame of the pageblock.
        pfn: Pfn,
        /// Number of ranges that isolate the pageblock, by its count.
        isolations: u8,
        /// Migratetype of the pageblock.
        migratetype: MigrateType,
    },
    /// A hint about a zone's free lists, which is read without a lock, is wrong.
    Hint {
        /// Index of the zone among all zones.
        zone: usize,
        /// Order of the blocks on the list.
        order: Order,
        /// Migratetype of the list.
        migratetype: MigrateType,
    },
    /// A zone's flag for few whole free pageblocks is wrong.
    FewWhole {
        /// Index of the zone among all zones.
        zone: usize,
        /// Number of whole pageblocks that are free.
        whole: u32,
    },
    /// A zone's watermarks are not in order.
    Marks {
        /// Index of the zone among all zones.
        zone: usize,
    },
    /// The limit of a CPU's lists, or of its stack, is outside of its bounds.
    Limit {
        /// Index of the zone among all zones.
        zone: usize,
        /// CPU that the lists belong to.
        cpu: CpuId,
    },
    /// The value of a counter differs from the sum that was found.
    Counter {
        /// Name of the counter.
        name: &'static str,
        /// Index of the zone among all zones.
        zone: usize,
        /// Value of the counter.
        counted: u64,
        /// Sum that was found.
        found: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the allocator is inconsistent: {self:?}")
    }
}

impl core::error::Error for Violation {}
