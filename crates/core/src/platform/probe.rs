//! The probe: what the engine tells a listener about itself.
//!
//! Each event is reported where the thing happens, with its locks held; a listener must not call back.
//! With [`NoProbe`], whose method is empty, events cost nothing: they vanish from the machine code.

use super::Migrated;
use crate::base::{CpuId, MigrateType, Order, Pfn};

/// Index of a zone in the allocator's table.
pub type ZoneIndex = u8;

/// Something the engine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A section under a zone's lock ended, in which so many pages were moved to or from the free lists.
    ZoneLockReleased {
        /// The zone.
        zone: ZoneIndex,
        /// Pages moved.
        pages: u32,
        /// Insertions into free lists and removals from them, merging and splitting included.
        links: u32,
    },
    /// A block left the free lists of the type asked for. linux: trace mm_page_alloc_zone_locked
    ZoneLocked {
        /// First frame.
        pfn: Pfn,
        /// Order that was asked for.
        order: Order,
        /// Type of the list.
        migratetype: MigrateType,
    },
    /// A block went from a per-CPU list to the zone. linux: trace mm_page_pcpu_drain
    PcpuDrain {
        /// First frame.
        pfn: Pfn,
        /// Its order.
        order: Order,
        /// Type of its pageblock.
        migratetype: MigrateType,
    },
    /// A per-CPU list was filled under one hold of the zone lock.
    Refill {
        /// The zone.
        zone: ZoneIndex,
        /// The CPU.
        cpu: CpuId,
        /// Order of the blocks.
        order: Order,
        /// How many came.
        blocks: u32,
    },
    /// A per-CPU list gave pages back under one hold of the zone lock.
    Drain {
        /// The zone.
        zone: ZoneIndex,
        /// The CPU.
        cpu: CpuId,
        /// Pages given back.
        pages: u32,
    },
    /// A block of a per-CPU list was cut under the list's own lock.
    PcpSplit {
        /// The zone.
        zone: ZoneIndex,
        /// The CPU whose list it is.
        cpu: CpuId,
        /// Parts that went to the lists, besides the one that was wanted.
        blocks: u32,
    },
    /// Blocks of per-CPU lists were merged under the lists' own lock, to be given back.
    PcpMerge {
        /// The zone.
        zone: ZoneIndex,
        /// The CPU whose lists they were on.
        cpu: CpuId,
        /// How many there were before.
        blocks: u32,
    },
    /// A freed block is about to be pushed onto its owner's stack.
    StackPush {
        /// The zone.
        zone: ZoneIndex,
        /// The owner.
        owner: CpuId,
        /// First frame.
        pfn: Pfn,
        /// Its order.
        order: Order,
    },
    /// A stack is about to be taken whole.
    StackTake {
        /// The zone.
        zone: ZoneIndex,
        /// The owner.
        owner: CpuId,
    },
    /// A request took over a pageblock of another type, or its free pages. linux: trace mm_page_alloc_extfrag
    Claim {
        /// Order of the block that was found.
        found: Order,
        /// Type asked for.
        wanted: MigrateType,
        /// Type of the list it was found on.
        from: MigrateType,
    },
    /// A request took pages of another type's block and left the block as it is.
    Steal {
        /// Order of the block that was found.
        found: Order,
        /// Type asked for.
        wanted: MigrateType,
        /// Type of the list it was found on.
        from: MigrateType,
    },
    /// A watermark was boosted, to so many pages.
    Boost {
        /// The zone.
        zone: ZoneIndex,
        /// The boost now.
        pages: u64,
    },
    /// A pageblock joined the high-atomic reserve.
    Reserve {
        /// The zone.
        zone: ZoneIndex,
        /// Order of the request that did it.
        order: Order,
    },
    /// A pageblock left the high-atomic reserve.
    Unreserve {
        /// The zone.
        zone: ZoneIndex,
    },
    /// A CPU found its own list locked and went to the zone.
    TrylockFailed {
        /// The zone.
        zone: ZoneIndex,
    },
    /// A frame was taken out of use.
    Withheld {
        /// The frame.
        pfn: Pfn,
    },
    /// The platform was asked to move a block out of the way.
    Migrate {
        /// Order of the block.
        order: Order,
        /// What it answered.
        answer: Migrated,
    },
    /// A request failed.
    Failed {
        /// Its order.
        order: Order,
    },
}

/// A listener.
pub trait Probe {
    /// Hears of one event.
    fn report(&self, event: Event);
}

/// Hears nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn report(&self, _event: Event) {}
}
