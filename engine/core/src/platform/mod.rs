//! The engine's interface to its surroundings: a kernel, a hypervisor, a process or the laboratory.
//!
//! A platform consists of a few callbacks, called promises. The engine holds no lock while it calls
//! [`Platform::reclaim`], [`Platform::migrate`], [`Platform::out_of_memory`], [`Platform::relax`] or
//! [`Platform::slab_error`], so these may call the allocator. [`Platform::can_isolate`] is called for each block that
//! compaction or a range would move. [`Platform::wake_kswapd`] and [`Platform::wake_kcompactd`] may be called with
//! locks held. None of these three may call the allocator.
//!
//! The engine verifies results that it can check itself. It counts the pages that are freed through [`FreePages`], and
//! after a migration checks the block that is left over. It reports a broken promise by name ([`Event::BrokenPromise`])
//! and continues with the state that it found.
//!
//! # Design
//!
//! *Callbacks free pages through an argument.* A platform that reclaims needs the allocator that calls it. The
//! allocator owns its platform, so every platform would need a pointer back. `reclaim` and `out_of_memory` therefore
//! receive a [`FreePages`]. The engine counts the pages that are freed through it, and uses its own count instead of
//! the platform's. After a migration the engine checks the block that is left over: the old one if the contents were
//! moved, otherwise the new one. No other code has access to this block by then. The number of calls for a request is
//! bounded. Only a request that must not fail continues for as long as `relax` returns [`Patience::Wait`].
//!
//! *Reclaim gets a node and a priority.* The alternative is `reclaim(zone, goal, order)`. Linux has had its lists of
//! pages in use per node since 4.8, and each further attempt scans a larger part of them. Without these two arguments,
//! a platform would have to store the state of every request that waits.
//!
//! *Unused rules are removed at compile time.* The policy, the number of nodes and the checks of caches can be
//! constants of the platform. The engine reads them through functions that the compiler evaluates, such as
//! `SlabAllocator::path`, which selects the path of a cache's objects. Code off the fast paths exists once, in
//! functions that are never inlined. `cargo xtask weigh` prints the size of a kernel, and fails if its code and
//! read-only data exceed 102 KB.
//!
//! *A panic in a callback or in the probe leaves the engine usable.* Locks are released, background tasks that were
//! being driven become awake, and isolated pageblocks get their types back. Frames that the interrupted call had
//! claimed stay Claimed. They are lost, `check()` counts them, and no other call waits for them. Slabs and sheaves that
//! the call held go to their node, a cache that was to be destroyed continues to exist, and objects that the call held
//! stay in use. Because a probe may panic, the engine reports events only while every block has a valid state.

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

/// Services that the engine needs from its surroundings: the current CPU, locks, reclaim, migration, and a probe.
pub trait Platform {
    /// Lock around free lists, per-CPU lists, and a CPU's or a node's part of a cache of objects.
    type Lock: RawLock;
    /// Probe that receives the engine's events. With [`NoProbe`], events leave no trace in the machine code.
    type Probe: Probe;

    /// Policy of every allocator on this platform, if it is known at compile time; code for other policies is then
    /// removed. The numbers of the policy are still those of the configuration. With `None` the configuration selects
    /// the policy.
    const POLICY: Option<Policy> = None;

    /// Whether every allocator has only one node, so that code for several nodes is removed at compile time.
    const ONE_NODE: bool = false;
    /// Whether the slab's metadata, 33 bytes for each 4 KiB, is allocated by section of memory instead of for its whole
    /// range. A free then costs one load more. Ignored if [`POLICY`](Self::POLICY) is `None` or has
    /// `slab.objects=bitmap`, which needs one table. Only the platform of [`kernel`](crate::kernel) sets it, because
    /// sections are added with the memory. linux: CONFIG_SPARSEMEM
    #[doc(hidden)]
    const SPARSEMEM: bool = false;

    /// Whether caches of a slab can be checked ([`CacheFlags::DEBUG`](crate::slab::CacheFlags::DEBUG)). If not, the
    /// checks are removed at compile time, and a cache that requests them is created without. linux: CONFIG_SLUB_DEBUG
    const SLAB_DEBUG: bool = true;

    /// Whether [`slab_error`](Self::slab_error) is called for every free that a slab refuses, including those in
    /// unchecked caches. If not, the error that the call returns is the only report. The code is on cold paths only.
    const REPORTS_REFUSED_FREES: bool = false;

    /// Returns the probe that receives the engine's events.
    fn probe(&self) -> &Self::Probe;

    /// Returns the CPU that runs the caller, below the number of CPUs of the configuration. The caller may migrate to
    /// another CPU at any time. An outdated result costs at most a failed trylock, because per-CPU lists have locks. A
    /// slab's sections get the CPU from their own primitive, which must use the same numbering. In a kernel one
    /// function serves both (`freehold::kernel::Cpu::id`).
    fn cpu(&self) -> CpuId;

    /// Returns the rights of the calling task beyond its GFP flags.
    fn task(&self) -> Task {
        Task::default()
    }

    /// Scans a bounded part of a node's pages once for pages that can be freed, and frees them through `pages`. Returns
    /// the numbers of freed and scanned pages. If too few were freed, the engine may call again with a lower
    /// [`priority`](Reclaim::priority), which stands for a larger part.
    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let _ = (pages, wanted);
        Reclaimed::default()
    }

    /// Returns whether a block may be moved, for compaction, for a range or for a long pin, by a request with these
    /// flags and this effort. Called before a place is taken for the block, and without a lock. Should return `false`
    /// for blocks that cannot be moved now: those under writeback, pinned ones, and those of a file if the request must
    /// not call into a file system. If [`migrate`](Self::migrate) refuses a block instead, the search for its target
    /// was wasted. Called for each movable block in a scan, so it must be cheap, and it must not call the engine.
    /// linux: mm/compaction.c:isolate_migratepages_block
    fn can_isolate(&self, isolation: &Isolation) -> bool {
        let _ = isolation;
        true
    }

    /// Moves the contents of one allocated block to another and updates all references to it. After [`Migrated::Moved`]
    /// no reference to [`Migration::from`] exists, and its owner uses and frees [`Migration::to`].
    ///
    /// The block at `to` is new and has the properties that the block at `from` had when the engine read them: its
    /// order, its compound flag and its reference count. The engine read them without a lock, so the block at `from`
    /// may have been freed and replaced by another one since. During the call the platform prevents the owner from
    /// freeing `from` and from changing its reference count. If it cannot, or if one of these properties differs, it
    /// refuses and must not have touched either block. The engine frees the block that is left over.
    fn migrate(&self, migration: &Migration) -> Migrated {
        let _ = migration;
        Migrated::Refused
    }

    /// Splits a compound block into single pages, through `block`, or does nothing. Called if there is no free block of
    /// its size to move it to, but possibly free single pages. During the call the platform prevents the owner from
    /// freeing the block; afterwards the owner has single pages. linux: mm/migrate.c:try_split_folio
    fn split(&self, block: &dyn SplitBlock) {
        let _ = block;
    }

    /// Returns whether [`migrate`](Self::migrate) ever moves a block. If not, `migrate` is not called, which saves
    /// requests the cost of useless scans.
    fn migrates(&self) -> bool {
        true
    }

    /// Returns whether reclaim keeps pages by generation (MGLRU). If so, the engine reclaims from a node once per
    /// priority, even for large blocks, and kswapd begins at the priority at which it expects to find enough pages.
    /// linux: include/linux/mm_inline.h:lru_gen_enabled
    fn lru_gen_enabled(&self) -> bool {
        false
    }

    /// Returns the pages of a zone that reclaim could still free, for the decision whether to retry.
    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        let _ = (node, zone);
        0
    }

    /// Frees memory as the last resort before a request fails, for example by ending a process, through `pages`.
    /// Returns whether memory was freed.
    fn out_of_memory(&self, pages: &dyn FreePages, request: &Request) -> OutOfMemory {
        let _ = (pages, request);
        OutOfMemory::NothingFreed
    }

    /// Wakes the task that calls `PageAllocator::run_kswapd` for this node. May be called on any path: it must be cheap
    /// and must not allocate.
    fn wake_kswapd(&self, node: NodeId) {
        let _ = node;
    }

    /// Wakes the task that calls `PageAllocator::run_kcompactd` for this node. May be called on any path: it must be
    /// cheap and must not allocate.
    fn wake_kcompactd(&self, node: NodeId) {
        let _ = node;
    }

    /// Logs a finding of slab debugging, or a free that was refused. The call that found the damage or refused the free
    /// also returns an error, if it has one for it. May be called on any path of objects, with no lock held. It must
    /// not destroy a cache, because the caller may be using one.
    fn slab_error(&self, report: &SlabReport<'_>) {
        let _ = report;
    }

    /// Returns the return address of the call that allocates or frees an object, if the platform knows a better one
    /// than the source location of the call into the slab: for example the return address of `malloc`. Otherwise 0.
    /// Called by slab debugging only.
    fn caller(&self) -> usize {
        0
    }

    /// Lets other tasks run between two batches of compaction. No lock is held. Must not call the engine.
    /// linux: include/linux/sched.h:cond_resched
    fn cond_resched(&self) {}

    /// Lets other tasks run between two rounds of the slow path, or while the caller waits for another CPU. The result
    /// matters only for requests that must not fail: they continue until the platform gives up.
    fn relax(&self) -> Patience {
        Patience::GiveUp
    }
}

/// A request that cannot be satisfied from the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// GFP flags of the request.
    pub gfp: Gfp,
    /// Order of the requested block.
    pub order: Order,
    /// Migratetype of the request, by its flags.
    pub migratetype: MigrateType,
    /// Preferred node, whose zonelist is walked.
    pub node: NodeId,
    /// Highest kind of zone that the flags allow.
    pub highest: ZoneKind,
}

/// Interface through which a callback frees pages, so that a platform needs no pointer to its allocator.
///
/// Each call drops one reference, as the owner's free would. A block that is not allocated in the given way is not
/// changed and is reported as a broken promise.
pub trait FreePages {
    /// Drops one reference on a block, and frees the block if it was the last. Of a block that is not compound and has
    /// more references, all pages but the first are freed.
    fn free_pages(&self, pfn: Pfn, order: Order);
    /// Frees many single pages in one call.
    fn free_pages_bulk(&self, pages: &[Pfn]);
    /// Returns whether the zones for which kswapd reclaims have enough free pages plus a margin, so that the scan may
    /// stop. Returns `false` if a request reclaims, or if kswapd reclaims for a block above order 0: the scan then runs
    /// to its end. linux: mm/vmscan.c:should_abort_scan
    fn has_enough(&self) -> bool {
        false
    }
}

/// A compound block that the platform may split.
pub trait SplitBlock {
    /// Returns the first frame of the block.
    fn pfn(&self) -> Pfn;
    /// Returns the order that the block had when the engine read it.
    fn order(&self) -> Order;
    /// Splits the block into single pages, all of which belong to its owner. Returns `false` and changes nothing if it
    /// is no longer an allocated block of this order.
    fn split(&self) -> bool;
}

/// Parameters of a reclaim call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaim {
    /// Node whose pages are to be freed.
    pub node: NodeId,
    /// Highest kind of zone to reclaim from.
    pub highest: ZoneKind,
    /// Number of pages wanted; a few more do no harm.
    pub goal: u64,
    /// Order of the request that reclaims.
    pub order: Order,
    /// Size of the part to scan: the number of pages shifted right by this value, from 12 at first to 0 at last.
    pub priority: u8,
    /// Reclaiming party: a request or kswapd.
    pub by: Reclaimer,
    /// Flags with the permissions of the request, such as I/O.
    pub gfp: Gfp,
}

impl Reclaim {
    /// Pages that are reclaimed between two checks whether that is enough. linux: SWAP_CLUSTER_MAX
    pub const CLUSTER: u64 = 32;
    /// Pages that are taken from the oldest generation in one batch. linux: MIN_LRU_BATCH
    pub const GENERATION_BATCH: u64 = 64;
}

/// Party on whose behalf memory is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimer {
    /// A request that found too little memory.
    Direct,
    /// The background task of the node.
    Kswapd,
}

/// Result of a reclaim, as reported by the platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Number of pages that were freed.
    pub pages: u64,
    /// Number of pages that were scanned, freed or not.
    pub scanned: u64,
}

/// A promise of the platform that the engine can verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Freeing pages: [`Platform::reclaim`].
    Reclaim,
    /// Moving a block: [`Platform::migrate`].
    Migrate,
    /// Ending a process or the like: [`Platform::out_of_memory`].
    OutOfMemory,
}

/// A block that is to be moved, and the request for which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// First frame of the block.
    pub pfn: Pfn,
    /// Order of the block when the engine read it.
    pub order: Order,
    /// Flags of the request; those of [`Gfp::KERNEL`] for kcompactd.
    pub gfp: Gfp,
    /// Effort of the compaction.
    pub effort: CompactEffort,
}

/// A block to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// First frame of the block to be moved.
    pub from: Pfn,
    /// First frame of the new block.
    pub to: Pfn,
    /// Order of both blocks.
    pub order: Order,
    /// Reference count of the old block, which the new block also has.
    pub refs: u32,
    /// Whether both blocks are compound.
    pub compound: bool,
    /// Effort of the migration, which also decides whether it may wait.
    pub effort: CompactEffort,
}

/// Result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// The block was moved, and the old place belongs to the engine.
    Moved,
    /// The block stays where it is, with its users.
    Refused,
}

/// Effort of compaction. linux: include/linux/compaction.h:compact_priority
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactEffort {
    /// May wait for pages, and ignores skip hints.
    SyncFull,
    /// May wait briefly for pages.
    SyncLight,
    /// Waits for no page.
    Async,
}

/// Result of compaction, from the least to the most successful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactResult {
    /// Not tried: free memory is too low, or compaction is not possible.
    Skipped,
    /// Not tried, because it failed recently.
    Deferred,
    /// Tried without producing a block of the order.
    Failed,
    /// A block of the order should now be free.
    Succeeded,
}

/// Decision whether a request that must not fail continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Memory may still become free: the request retries.
    Wait,
    /// No memory will become free: the request fails.
    GiveUp,
}

/// Result of the last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// A process or the like was ended, so memory may be free now.
    Freed,
    /// There was nothing to end.
    NothingFreed,
}
