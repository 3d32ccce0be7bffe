//! What the walk may find wrong.

use core::fmt;

use crate::base::{CpuId, MigrateType, Order, Pfn, State};

/// What is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A frame is not what the head before it says.
    Inside {
        /// The frame.
        pfn: Pfn,
        /// What it is.
        state: State,
    },
    /// A frame is Interior, but in no block.
    Orphan {
        /// The frame.
        pfn: Pfn,
    },
    /// Two buddies are free, of one type, and not merged.
    Unmerged {
        /// The lower one.
        pfn: Pfn,
        /// Their order.
        order: Order,
    },
    /// A free block is on the list of another type than its pageblock's.
    WrongType {
        /// The block.
        pfn: Pfn,
        /// The type of its list.
        listed: MigrateType,
    },
    /// A pageblock is owned although it is free as a whole or cannot be, or by a CPU that there is not; or it is on the list of
    /// a CPU that does not own it.
    Owner {
        /// Its first frame.
        pfn: Pfn,
    },
    /// A frame on a list has a word that names no, or another, list.
    WrongList {
        /// The frame.
        pfn: Pfn,
        /// What it is.
        state: State,
    },
    /// A list's links do not lead through as many blocks as it should have, or not to its last one.
    Links {
        /// Index of the zone.
        zone: usize,
        /// Blocks that it should have, or more than it can have.
        counted: u32,
        /// Blocks that the links lead through.
        linked: u32,
    },
    /// A frame's word is that of no state, or has bits that its state does not have.
    Word {
        /// The frame.
        pfn: Pfn,
        /// The word.
        bits: u64,
    },
    /// A block lies in two zones, or partly in none.
    Across {
        /// Its head.
        pfn: Pfn,
    },
    /// A frame is online outside of its zone's span.
    Span {
        /// The frame.
        pfn: Pfn,
        /// Index of the zone.
        zone: usize,
    },
    /// A pageblock belongs to a zone that there is not.
    Zone {
        /// Its first frame.
        pfn: Pfn,
        /// The number of the zone.
        zone: u8,
    },
    /// A pageblock is for nothing that there is; or it would be, once nobody isolates it any more.
    Type {
        /// Its first frame.
        pfn: Pfn,
    },
    /// A pageblock is isolated by nobody, or by somebody without being for [`MigrateType::Isolate`].
    Isolation {
        /// Its first frame.
        pfn: Pfn,
        /// How many isolate it.
        isolations: u8,
        /// What it is for.
        migratetype: MigrateType,
    },
    /// What a zone says of its lists without a lock is not so.
    Hint {
        /// Index of the zone.
        zone: usize,
        /// Order of the list.
        order: Order,
        /// Its type.
        migratetype: MigrateType,
    },
    /// A zone's watermarks are not in order.
    Marks {
        /// Index of the zone.
        zone: usize,
    },
    /// The limit of a CPU's lists, or of its stack, is outside of what it moves between.
    Limit {
        /// Index of the zone.
        zone: usize,
        /// The CPU.
        cpu: CpuId,
    },
    /// A counter differs from what it counts.
    Counter {
        /// Which.
        name: &'static str,
        /// Index of the zone.
        zone: usize,
        /// What it says.
        counted: u64,
        /// What there is.
        found: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the allocator is inconsistent: {self:?}")
    }
}

impl core::error::Error for Violation {}
