//! The probe: what the engine tells a listener about itself.
//!
//! Each event is reported where the thing happens, with its locks held; a listener must not call back.
//! With [`NoProbe`], whose method is empty, events cost nothing: they vanish from the machine code.

use super::{CompactResult, Migrated, Promise, Reclaimer};
use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneKind};

/// Index of a zone in the allocator's table.
pub type ZoneIndex = u8;

/// Something that the engine did, reported when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A section under a zone's lock ended, in which so many pages were moved to or from the free lists.
    ZoneLockReleased {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Pages moved to or from the free lists.
        pages: u32,
        /// Insertions into free lists and removals from them, merging and splitting included.
        links: u32,
    },
    /// A block left the free lists of the type asked for. linux: trace mm_page_alloc_zone_locked
    ZoneLocked {
        /// First frame of the block.
        pfn: Pfn,
        /// Order that was asked for.
        order: Order,
        /// Migratetype of the list.
        migratetype: MigrateType,
    },
    /// A block went from a per-CPU list to the zone. linux: trace mm_page_pcpu_drain
    PcpuDrain {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block or request.
        order: Order,
        /// Migratetype of the block's pageblock.
        migratetype: MigrateType,
    },
    /// A per-CPU list was filled under one hold of the zone lock.
    Refill {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The CPU that the lists belong to.
        cpu: CpuId,
        /// Order of the blocks that came.
        order: Order,
        /// Number of blocks that came.
        blocks: u32,
    },
    /// A per-CPU list gave pages back under one hold of the zone lock.
    Drain {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The CPU that the lists belong to.
        cpu: CpuId,
        /// Pages that the zone got.
        pages: u32,
    },
    /// A block of a per-CPU list was cut under the list's own lock.
    PcpSplit {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The CPU that the list belongs to.
        cpu: CpuId,
        /// Parts that went to the lists, besides the one that was wanted.
        blocks: u32,
    },
    /// Blocks of per-CPU lists were merged under the lists' own lock, to be given back.
    PcpMerge {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The CPU whose lists they were on.
        cpu: CpuId,
        /// Number of blocks before they were merged.
        blocks: u32,
    },
    /// A freed block is about to be pushed onto its owner's stack.
    StackPush {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The CPU that the stack belongs to.
        owner: CpuId,
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block or request.
        order: Order,
    },
    /// A stack is about to be taken whole.
    StackTake {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The CPU that the stack belongs to.
        owner: CpuId,
    },
    /// A request took over a pageblock of another type, or its free pages. linux: trace mm_page_alloc_extfrag
    Claim {
        /// Order of the block that was found.
        found: Order,
        /// Migratetype that the request asks for.
        wanted: MigrateType,
        /// Type of the list it was found on.
        from: MigrateType,
    },
    /// A request took pages of another type's block and left the block as it is.
    Steal {
        /// Order of the block that was found.
        found: Order,
        /// Migratetype that the request asks for.
        wanted: MigrateType,
        /// Type of the list it was found on.
        from: MigrateType,
    },
    /// A watermark was boosted, to so many pages.
    Boost {
        /// Index of the zone.
        zone: ZoneIndex,
        /// The zone's boost from now on, in pages.
        pages: u64,
    },
    /// A pageblock joined the high-atomic reserve.
    Reserve {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Order of the request that did it.
        order: Order,
    },
    /// A pageblock left the high-atomic reserve.
    Unreserve {
        /// Index of the zone.
        zone: ZoneIndex,
    },
    /// A CPU found its own list locked and went to the zone.
    TrylockFailed {
        /// Index of the zone.
        zone: ZoneIndex,
    },
    /// A frame was taken out of use for ever.
    Withheld {
        /// Number of the frame.
        pfn: Pfn,
    },
    /// The platform was asked to move a block out of the way.
    Migrate {
        /// Order of the block to be moved.
        order: Order,
        /// The platform's answer.
        answer: Migrated,
    },
    /// A request for which the high-atomic reserve is kept was served.
    HighAtomicServed {
        /// Order of the block or request.
        order: Order,
        /// Which list served it.
        from: ServedFrom,
    },
    /// A request begins to reclaim for itself. linux: allocstall
    DirectReclaim {
        /// The highest zone that it may use.
        highest: ZoneKind,
    },
    /// The platform was asked once to reclaim.
    Reclaim {
        /// Whether a request or kswapd reclaims.
        by: Reclaimer,
        /// Pages that came back, by the engine's count.
        pages: u64,
        /// Pages that it says it looked at.
        scanned: u64,
    },
    /// kswapd begins to balance a node. linux: pageoutrun
    KswapdRun {
        /// Number of the node.
        node: NodeId,
    },
    /// kcompactd begins to work for somebody. linux: compact_daemon_wake
    KcompactdRun {
        /// Number of the node.
        node: NodeId,
    },
    /// A request compacted for itself. linux: compact_stall
    CompactStall {
        /// How that ended for the request: whether it has its block.
        result: CompactResult,
    },
    /// Compaction looked at a part of a zone.
    CompactScan {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Whether a request or kcompactd compacts.
        by: Compactor,
        /// Frames that the scanner of pages to move looked at.
        migrate_scanned: u32,
        /// Frames that the scanner of free pages looked at.
        free_scanned: u32,
        /// Pages that were set apart, to be moved or to be moved to.
        isolated: u32,
    },
    /// A platform did not do what it said.
    BrokenPromise {
        /// The promise that was broken.
        promise: Promise,
    },
    /// A request failed, and gets no block.
    Failed {
        /// Order of the block or request.
        order: Order,
    },
}

/// From where a request for which the high-atomic reserve is kept was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFrom {
    /// A list of the calling CPU.
    List,
    /// The high-atomic reserve of the zone.
    Reserve,
    /// Another free list of the zone.
    Ordinary,
}

/// The part on whose behalf memory is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compactor {
    /// A request, which waits for it.
    Direct,
    /// The background task of the node.
    Kcompactd,
}

/// Receives each event of the engine, on the CPU on which it happens.
pub trait Probe {
    /// Hears of one event, maybe with locks held.
    fn report(&self, event: Event);
}

/// Hears nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn report(&self, _event: Event) {}
}
