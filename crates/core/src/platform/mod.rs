//! The one door outward: what the engine asks of the kernel, hypervisor, process or laboratory around it.
//!
//! A platform is a short list of promises. The engine keeps no lock while it calls [`Platform::reclaim`],
//! [`Platform::compact`], [`Platform::migrate`], [`Platform::out_of_memory`] or [`Platform::relax`], so these may call
//! back into the allocator. [`Platform::wake_kswapd`] may be called on any path and must not.

pub mod probe;

#[cfg(feature = "host")]
pub mod host;

pub use probe::{Event, NoProbe, Probe};

use crate::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, RawLock, ZoneKind};

/// What surrounds the engine.
pub trait Platform {
    /// The lock around free lists and per-CPU lists.
    type Lock: RawLock;
    /// Who listens to what the engine does; [`NoProbe`] vanishes from the machine code.
    type Probe: Probe;

    /// The listener.
    fn probe(&self) -> &Self::Probe;

    /// The CPU that runs the caller, below the number of CPUs of the configuration. The caller may be moved to another
    /// CPU at once: per-CPU lists have locks, so a stale answer costs a failed trylock at worst.
    fn cpu(&self) -> CpuId;

    /// What the calling task may do beyond its GFP flags.
    fn task(&self) -> Task {
        Task::default()
    }

    /// Frees pages by whatever means the platform has, by calling the allocator's `free_*`.
    fn reclaim(&self, request: &Request) -> Reclaimed {
        let _ = request;
        Reclaimed::default()
    }

    /// Makes a block of the requested order by moving pages.
    fn compact(&self, request: &Request, effort: CompactEffort) -> CompactResult {
        let _ = (request, effort);
        CompactResult::Skipped
    }

    /// Moves what is in one allocated block to another, and whoever uses it along: after [`Migrated::Moved`] nobody
    /// refers to [`Migration::from`] any more, and its owner uses and frees [`Migration::to`].
    ///
    /// The block at `to` is fresh, of the same order and mobility, and has `refs` references, as many as the block at
    /// `from` had when the engine looked. While it decides, the platform keeps the owner from freeing `from` and from
    /// counting references on it; if it cannot, or the block is gone by now or has another number of references, it
    /// refuses, and must not have touched either block. The engine frees the one that is left over.
    fn migrate(&self, migration: &Migration) -> Migrated {
        let _ = migration;
        Migrated::Refused
    }

    /// Pages of a zone that reclaim could still free, for the decision whether to try again.
    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        let _ = (node, zone);
        0
    }

    /// Last resort before a request fails: end something, and say whether that freed memory.
    fn out_of_memory(&self, request: &Request) -> OutOfMemory {
        let _ = request;
        OutOfMemory::NothingFreed
    }

    /// Asks for background reclaim of a zone. Called often: must be cheap, must not allocate.
    fn wake_kswapd(&self, node: NodeId, highest: ZoneKind, order: Order) {
        let _ = (node, highest, order);
    }

    /// Called between two rounds of the slow path. The answer counts for requests that must not fail: they go on for
    /// as long as the platform has patience.
    fn relax(&self) -> Patience {
        Patience::GiveUp
    }
}

/// What a calling task may do beyond its GFP flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Reclaims itself, so it may use all reserves and must not reclaim again. linux: PF_MEMALLOC
    pub memalloc: bool,
    /// Is being ended for lack of memory, so it may dip into the reserve. linux: tsk_is_oom_victim
    pub oom_victim: bool,
    /// Runs with real-time priority, in task context. linux: rt_or_dl_task
    pub realtime: bool,
    /// Runs in interrupt context.
    pub in_interrupt: bool,
}

/// A request that cannot be met from the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its flags.
    pub gfp: Gfp,
    /// Its order.
    pub order: Order,
    /// The migratetype it asks for.
    pub migratetype: MigrateType,
    /// The node it prefers.
    pub node: NodeId,
    /// The highest zone it may use.
    pub highest: ZoneKind,
}

/// What reclaim did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Pages freed.
    pub pages: u64,
}

/// A block to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// First frame of the block that is in the way.
    pub from: Pfn,
    /// First frame of the block that takes its place.
    pub to: Pfn,
    /// Order of both.
    pub order: Order,
    /// References on both.
    pub refs: u32,
}

/// Whether a block was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// It was: the old place is the engine's.
    Moved,
    /// It stays where it is.
    Refused,
}

/// How hard compaction may try. linux: mm/internal.h:compact_priority
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactEffort {
    /// May wait for pages, heeds no hints.
    SyncFull,
    /// May wait a little.
    SyncLight,
    /// Waits for nothing.
    Async,
}

/// How compaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactResult {
    /// Not tried: too little free memory, or no compaction here.
    Skipped,
    /// Not tried: it failed recently.
    Deferred,
    /// Tried without success.
    Failed,
    /// A block of the order should be there now.
    Succeeded,
}

/// Whether a request that must not fail goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Memory may still come.
    Wait,
    /// It will not.
    GiveUp,
}

/// What the last resort achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// Something was ended; memory may be there now.
    Freed,
    /// Nothing can be done.
    NothingFreed,
}
