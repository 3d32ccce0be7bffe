//! The one door outward: what the engine asks of the kernel, hypervisor, process or laboratory around it.
//!
//! A platform is a short list of promises. The engine keeps no lock while it calls [`Platform::reclaim`],
//! [`Platform::migrate`], [`Platform::out_of_memory`], [`Platform::relax`] or [`Platform::slab_error`], so these may
//! call back into the allocator. [`Platform::wake_kswapd`] and [`Platform::wake_kcompactd`] may be called on any path
//! and must not.
//!
//! The engine does not believe what it can see for itself: it counts the pages that come back through [`FreePages`],
//! and looks at both blocks after a migration. A promise that was broken is reported by name
//! ([`Event::BrokenPromise`]), and what was found is what counts.

pub mod probe;
pub mod report;
mod task;

#[cfg(feature = "host")]
pub mod host;

pub use probe::{Event, NoProbe, Probe};
pub use report::SlabReport;
pub use task::{Context, Task};

use crate::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, RawLock, ZoneKind};
use crate::policy::Policy;

/// What the engine asks of its surroundings: CPU, locks, reclaim, migration, and a probe.
pub trait Platform {
    /// The lock around free lists and per-CPU lists.
    type Lock: RawLock;
    /// Receives an event for what the engine does; [`NoProbe`] vanishes from the machine code.
    type Probe: Probe;

    /// The rules of every allocator on this platform, if one set is known when the program is built: what only other
    /// rules need is then not in the program. Numbers are the configuration's all the same. `None`: the configuration
    /// chooses.
    const POLICY: Option<Policy> = None;

    /// Whether no allocator has more than one node: what only others need is not in the program.
    const ONE_NODE: bool = false;

    /// Whether a slab's caches may be checked ([`CacheFlags::DEBUG`](crate::slab::CacheFlags::DEBUG)). Else the checks
    /// are not in the program, and a cache that asks for them goes without. linux: CONFIG_SLUB_DEBUG
    const SLAB_DEBUG: bool = true;

    /// Whether [`slab_error`](Self::slab_error) hears of every free that a slab refuses, also in caches that are not
    /// checked. Otherwise the error that the call returns is all there is. The code is on cold paths only.
    const REPORTS_REFUSED_FREES: bool = false;

    /// The probe that hears of events.
    fn probe(&self) -> &Self::Probe;

    /// The CPU that runs the caller, below the number of CPUs of the configuration. The caller may be moved to another
    /// CPU at once: per-CPU lists have locks, so a stale answer costs a failed trylock at worst. A slab's sections ask
    /// their own primitive, which must mean the same CPUs; in a kernel one answer serves both
    /// (`freehold::kernel::Cpu::id`).
    fn cpu(&self) -> CpuId;

    /// What the calling task may do beyond its GFP flags.
    fn task(&self) -> Task {
        Task::default()
    }

    /// Looks once, over a bounded part of what a node holds, for pages that can be freed, and frees them through
    /// `pages`; says how many, and how many it looked at. The engine asks again with more urgency if that was too
    /// little.
    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let _ = (pages, wanted);
        Reclaimed::default()
    }

    /// Moves what is in one allocated block to another, and its users along: after [`Migrated::Moved`] nobody
    /// refers to [`Migration::from`] any more, and its owner uses and frees [`Migration::to`].
    ///
    /// The block at `to` is fresh, and is what the block at `from` was when the engine looked: of this order, compound
    /// or not, with so many references. The engine looked without a lock, so the block may be gone by now, and another
    /// one there. While it decides, the platform keeps the owner from freeing `from` and from counting references on
    /// it; if it cannot, or what is there differs in any of these, it refuses, and must not have touched either block.
    /// The engine frees the one that is left over.
    fn migrate(&self, migration: &Migration) -> Migrated {
        let _ = migration;
        Migrated::Refused
    }

    /// Splits a compound block into single pages, through `block`, or does nothing: there is no place of its size to
    /// move it to, but there may be places for its pages. While the platform decides it keeps the owner from freeing
    /// the block; from then on the owner has single pages. linux: mm/migrate.c:try_split_folio
    fn split(&self, block: &dyn SplitBlock) {
        let _ = block;
    }

    /// Whether [`migrate`](Self::migrate) ever moves anything. If it does not, nothing is compacted: requests do not
    /// pay for scans that cannot help.
    fn migrates(&self) -> bool {
        true
    }

    /// Whether reclaim keeps pages by generation: then a node is asked once at a priority, even for large blocks, and
    /// kswapd begins at the priority at which it expects to find enough. linux: mm/vmscan.c:lru_gen_enabled
    fn lru_gen_enabled(&self) -> bool {
        false
    }

    /// Pages of a zone that reclaim could still free, for the decision whether to try again.
    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        let _ = (node, zone);
        0
    }

    /// Last resort before a request fails: end something, free what it had through `pages`, and say whether that freed
    /// memory.
    fn out_of_memory(&self, pages: &dyn FreePages, request: &Request) -> OutOfMemory {
        let _ = (pages, request);
        OutOfMemory::NothingFreed
    }

    /// There is work for `PageAllocator::run_kswapd`. May be called on any path: must be cheap, must not allocate.
    fn wake_kswapd(&self, node: NodeId) {
        let _ = node;
    }

    /// There is work for `PageAllocator::run_kcompactd`, likewise.
    fn wake_kcompactd(&self, node: NodeId) {
        let _ = node;
    }

    /// The debugging of a slab found something: the place to log it. The call that found it says so too, if it has an
    /// error for it. May be called on any path of objects, with no lock held. No cache is destroyed in it: the caller
    /// may be looking at one.
    fn slab_error(&self, report: &SlabReport<'_>) {
        let _ = report;
    }

    /// Where in the program's code an object is being asked for or given back, if that is known better than where in
    /// its source the slab was called: the return address that a malloc was called with. 0 if not. Asked by debugging
    /// only.
    fn caller(&self) -> usize {
        0
    }

    /// Called between two batches of compaction, with nothing held: the place to let others run. Must not call back
    /// into the engine. linux: include/linux/sched.h:cond_resched
    fn cond_resched(&self) {}

    /// Called between two rounds of the slow path, and while one waits for a CPU that looks at a cache: the place to
    /// let others run. The answer counts for requests that must not fail: they go on for as long as the platform has
    /// patience.
    fn relax(&self) -> Patience {
        Patience::GiveUp
    }
}

/// A request that cannot be met from the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// GFP flags of the request.
    pub gfp: Gfp,
    /// Order of the block it asks for.
    pub order: Order,
    /// The migratetype that its flags ask for.
    pub migratetype: MigrateType,
    /// The node that it prefers, whose zonelist is walked.
    pub node: NodeId,
    /// The highest kind of zone that its flags allow.
    pub highest: ZoneKind,
}

/// The way back into the allocator that a promise is handed, so that a platform needs no pointer of its own to it.
///
/// Each call drops one reference, as the owner's free would. A block that is not allocated as said is left alone, and
/// reported as a broken promise.
pub trait FreePages {
    /// Drops one reference on a block, and frees the block if it was the last.
    fn free_pages(&self, pfn: Pfn, order: Order);
    /// Frees single pages, many at once.
    fn free_pages_bulk(&self, pages: &[Pfn]);
    /// Whether the zones for which kswapd reclaims have enough by now, and some to spare; a look goes on to its end for
    /// anybody else. linux: mm/vmscan.c:should_abort_scan
    fn has_enough(&self) -> bool {
        false
    }
}

/// A compound block that the platform may split.
pub trait SplitBlock {
    /// First frame of the block.
    fn pfn(&self) -> Pfn;
    /// Its order when the engine looked.
    fn order(&self) -> Order;
    /// Makes single pages of it, which are all the owner's; `false`, and nothing happened, if it is no allocated block
    /// of this order any more.
    fn split(&self) -> bool;
}

/// What the platform is asked to reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaim {
    /// The node whose pages are to be freed.
    pub node: NodeId,
    /// From its zones up to this one.
    pub highest: ZoneKind,
    /// Pages wanted; a few more do no harm.
    pub goal: u64,
    /// Order of the request that reclaims.
    pub order: Order,
    /// How large a part to look at: the number of pages there are, shifted right by this; 12 at first, 0 at last.
    pub priority: u8,
    /// Whether a request reclaims for itself, or kswapd does.
    pub by: Reclaimer,
    /// What the request allows, such as I/O.
    pub gfp: Gfp,
}

impl Reclaim {
    /// Pages that are reclaimed before anybody looks whether that is enough. linux: SWAP_CLUSTER_MAX
    pub const CLUSTER: u64 = 32;
    /// Pages that are taken from the oldest generation at once. linux: MIN_LRU_BATCH
    pub const GENERATION_BATCH: u64 = 64;
}

/// The part on whose behalf memory is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimer {
    /// A request that found too little, itself.
    Direct,
    /// The background task of the node.
    Kswapd,
}

/// What the platform says that a reclaim did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Pages that were freed.
    pub pages: u64,
    /// Pages that were looked at, freed or not.
    pub scanned: u64,
}

/// A promise of a platform that the engine can check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// To free pages: [`Platform::reclaim`].
    Reclaim,
    /// To move a block: [`Platform::migrate`].
    Migrate,
    /// To end something: [`Platform::out_of_memory`].
    OutOfMemory,
}

/// A block that the platform is asked to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// First frame of the block that is in the way.
    pub from: Pfn,
    /// First frame of the block that takes its place.
    pub to: Pfn,
    /// Order of both blocks.
    pub order: Order,
    /// References on the old block, which the new one has as well.
    pub refs: u32,
    /// Whether both blocks are compound.
    pub compound: bool,
    /// How hard the platform is to try, and whether it may wait.
    pub effort: CompactEffort,
}

/// What became of a block that was to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// It was: the old place is the engine's.
    Moved,
    /// The block stays where it is: its users keep it.
    Refused,
}

/// How hard compaction may try. linux: mm/internal.h:compact_priority
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactEffort {
    /// May wait for pages, heeds no hints.
    SyncFull,
    /// May wait a little for pages.
    SyncLight,
    /// Waits for no page.
    Async,
}

/// How compaction ended, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactResult {
    /// Not tried: too little free memory, or no compaction here.
    Skipped,
    /// Not tried: it failed recently.
    Deferred,
    /// Tried, and no block of the order came of it.
    Failed,
    /// A block of the order should be there now.
    Succeeded,
}

/// Whether a request that must not fail goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Memory may still come: the request tries again.
    Wait,
    /// No memory will come: the request fails.
    GiveUp,
}

/// What the last resort achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// Something was ended; memory may be there now.
    Freed,
    /// Nothing was ended: there is nothing to end.
    NothingFreed,
}
