//! The probe: a listener for events of the engine.
//!
//! An event is reported where it happens, possibly with locks held, so a listener must not call the engine. With
//! [`NoProbe`], whose method is empty, the compiler removes the events, and they cost nothing.

use super::{CompactEffort, CompactResult, Migrated, Promise, Reclaimer};
use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneKind};

/// Index of a zone in the allocator's table.
pub type ZoneIndex = u8;

/// An action of the engine, reported when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A zone's lock was released.
    ZoneLockReleased {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Pages moved to or from the free lists.
        pages: u32,
        /// Insertions into and removals from free lists, including those for merging and splitting.
        links: u32,
    },
    /// A block left a free list, for a request of the list's type, or because the owner of the block's pageblock
    /// recalled it. linux: trace mm_page_alloc_zone_locked
    ZoneLocked {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block that was taken, after a split.
        order: Order,
        /// Migratetype of the list.
        migratetype: MigrateType,
    },
    /// A block moved from a per-CPU list to the zone. linux: trace mm_page_pcpu_drain
    PcpuDrain {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Migratetype of the block's pageblock.
        migratetype: MigrateType,
    },
    /// A per-CPU list was refilled under one hold of the zone lock.
    Refill {
        /// Index of the zone.
        zone: ZoneIndex,
        /// CPU of the list.
        cpu: CpuId,
        /// Order of the blocks.
        order: Order,
        /// Number of blocks.
        blocks: u32,
    },
    /// A per-CPU list returned pages under one hold of the zone lock.
    Drain {
        /// Index of the zone.
        zone: ZoneIndex,
        /// CPU of the list.
        cpu: CpuId,
        /// Pages that the zone received.
        pages: u32,
    },
    /// A block of a per-CPU list was split under the list's own lock.
    PcpSplit {
        /// Index of the zone.
        zone: ZoneIndex,
        /// CPU of the list.
        cpu: CpuId,
        /// Parts that were put on the lists, besides the requested one.
        blocks: u32,
    },
    /// Blocks of per-CPU lists were merged under the lists' own lock before they are returned.
    PcpMerge {
        /// Index of the zone.
        zone: ZoneIndex,
        /// CPU of the lists.
        cpu: CpuId,
        /// Number of blocks before merging.
        blocks: u32,
    },
    /// A freed block is about to be pushed onto its owner's stack.
    StackPush {
        /// Index of the zone.
        zone: ZoneIndex,
        /// CPU of the stack.
        owner: CpuId,
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
    },
    /// A stack is about to be taken as a whole.
    StackTake {
        /// Index of the zone.
        zone: ZoneIndex,
        /// CPU of the stack.
        owner: CpuId,
    },
    /// A request claimed a pageblock of another type, or its free pages. linux: trace mm_page_alloc_extfrag
    Claim {
        /// Order of the block that was found.
        found: Order,
        /// Migratetype of the request.
        wanted: MigrateType,
        /// Migratetype of the list on which the block was found.
        from: MigrateType,
    },
    /// A request took pages of another type's block and left the pageblock its type.
    Steal {
        /// Order of the block that was found.
        found: Order,
        /// Migratetype of the request.
        wanted: MigrateType,
        /// Migratetype of the list on which the block was found.
        from: MigrateType,
    },
    /// A zone's watermarks were boosted.
    Boost {
        /// Index of the zone.
        zone: ZoneIndex,
        /// New boost of the zone, in pages.
        pages: u64,
    },
    /// A pageblock, or each pageblock of a larger block, joined the high-atomic reserve.
    Reserve {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Order of the request that caused it.
        order: Order,
    },
    /// A pageblock, or each pageblock of a larger free block, left the high-atomic reserve.
    Unreserve {
        /// Index of the zone.
        zone: ZoneIndex,
    },
    /// A CPU found a per-CPU list locked. A request then takes a block from the zone's free lists. A free pushes the
    /// block onto the stack of its pageblock's owner, if there is one, and frees it to the zone otherwise.
    TrylockFailed {
        /// Index of the zone.
        zone: ZoneIndex,
    },
    /// A frame was withheld: taken out of use permanently.
    Withheld {
        /// Number of the frame.
        pfn: Pfn,
    },
    /// The platform was called to migrate a block.
    Migrate {
        /// Order of the block.
        order: Order,
        /// Result of the platform.
        answer: Migrated,
    },
    /// A request for which the high-atomic reserve exists was served.
    HighAtomicServed {
        /// Order of the request.
        order: Order,
        /// Source of the block.
        from: ServedFrom,
    },
    /// A request begins direct reclaim. linux: allocstall
    DirectReclaim {
        /// Highest zone that the request may use.
        highest: ZoneKind,
    },
    /// A request ends direct reclaim. linux: trace mm_vmscan_direct_reclaim_end
    DirectReclaimEnd {
        /// Order of the request.
        order: Order,
        /// Pages that were freed, by the engine's count.
        pages: u64,
        /// Pages that were scanned. Zero for a costly order if every zone was ready for compaction.
        scanned: u64,
    },
    /// The platform was called once to reclaim.
    Reclaim {
        /// Reclaiming party: a request or kswapd.
        by: Reclaimer,
        /// Pages that were freed, by the engine's count.
        pages: u64,
        /// Pages that were scanned, as reported by the platform; at least the freed pages, and at most the pages of the
        /// node.
        scanned: u64,
    },
    /// kswapd begins to balance a node. linux: pageoutrun
    KswapdRun {
        /// Number of the node.
        node: NodeId,
    },
    /// kcompactd begins to work on an order that a request or kswapd needs. linux: compact_daemon_wake
    KcompactdRun {
        /// Number of the node.
        node: NodeId,
    },
    /// A request begins to compact the zones that it may use. linux: trace mm_compaction_try_to_compact_pages
    TryToCompact {
        /// Order of the request.
        order: Order,
        /// Effort of the compaction.
        effort: CompactEffort,
    },
    /// Compaction skipped a zone, or a run in it has ended. linux: trace mm_compaction_deferred, mm_compaction_suitable,
    /// mm_compaction_end
    CompactZone {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Compacting party: a request or kcompactd.
        by: Compactor,
        /// Reason for which the zone was skipped, or result of the run.
        outcome: ZoneOutcome,
    },
    /// A request did direct compaction. Not reported if the compaction was skipped. linux: compact_stall
    CompactStall {
        /// Result for the request: whether it got its block.
        result: CompactResult,
    },
    /// Compaction scanned a part of a zone.
    CompactScan {
        /// Index of the zone.
        zone: ZoneIndex,
        /// Compacting party: a request or kcompactd.
        by: Compactor,
        /// Frames that the migrate scanner looked at.
        migrate_scanned: u32,
        /// Frames that the free scanner looked at.
        free_scanned: u32,
        /// Pages that were isolated, as sources or as targets.
        isolated: u32,
    },
    /// The platform broke a promise.
    BrokenPromise {
        /// The broken promise.
        promise: Promise,
    },
    /// A request failed.
    Failed {
        /// Order of the request.
        order: Order,
    },
}

/// Source of a block for a request for which the high-atomic reserve exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFrom {
    /// A list of the calling CPU.
    List,
    /// The high-atomic reserve of the zone.
    Reserve,
    /// Another free list of the zone.
    Ordinary,
}

/// Result of compaction in one zone. linux: include/linux/compaction.h:compact_result
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneOutcome {
    /// The zone was skipped, because compaction in it failed recently.
    Deferred,
    /// The zone was skipped, because it has a block of the order above the watermark.
    HasBlock,
    /// The zone was skipped, because it has too few free pages outside of CMA areas.
    NoOwnRoom,
    /// The zone was skipped, because it has too few free pages as targets, or the platform moves no pages.
    NoRoom,
    /// The zone was skipped, because its free memory is too little and not too fragmented.
    NotFragmented,
    /// The zone has a block of the order now, or a block was captured. In proactive compaction: the zone's
    /// fragmentation score is low enough.
    Made,
    /// The scanners met after the whole zone was scanned.
    Complete,
    /// The scanners met after a part of the zone was scanned, or proactive compaction ended because kswapd works on the
    /// zone.
    Partial,
    /// No targets were left, or the maximum number of scans was reached.
    Stopped,
}

/// Party on whose behalf memory is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compactor {
    /// A request, which waits for the result.
    Direct,
    /// The background task of the node.
    Kcompactd,
}

/// Listener that receives each event of the engine, on the CPU where it happens.
pub trait Probe {
    /// Receives one event, possibly with locks held.
    fn report(&self, event: Event);
}

/// A probe that ignores all events and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn report(&self, _event: Event) {}
}
