//! DebugState: a cache made with any of [`CacheFlags::DEBUG`] has each allocation and each free checked.
//!
//! 1. CPUs hold no objects of such a cache, so that each request and each free comes here: fast paths find an empty
//!    list, and no address that is an object's ([`Hot`](super::hot::Hot)). Other caches pay nothing.
//! 2. Both are done under the lock of the slab's node, on the list that the slab keeps itself; pages are asked for and
//!    given back with no lock held. Costs the check of every byte around the object, and with poison of every byte in
//!    it.
//! 3. What is found damaged is reported ([`Platform::slab_error`]) once the lock is free, and is not used again: a free
//!    object is taken off its list for good, one in use is not freed. What lies around it is written anew, so that it
//!    is reported once.
//!
//! What an object looks like is in [`object`], who had it in [`track`], walks over whole caches in [`validate`].

mod alloc;
mod free;
mod letters;
mod object;
mod repair;
mod report;
mod state;
mod track;
mod validate;

use core::panic::Location;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

pub use letters::SlabDebugError;
pub use validate::InUse;

use super::SlabAllocator;
use super::address::{ObjectAddress, SlabAddress};
use super::cache::Cache;
use super::config::{CacheConfig, CacheFlags};
use super::cpu::CpuLocal;
use super::id::CacheId;
use super::partial::{List, NodePartial};
use crate::base::lock::Guard;
use crate::base::{NodeId, Pfn, RawLock};
use crate::platform::Platform;
use crate::platform::report::SlabReport;
use object::Object;
use state::State;

/// What an allocator knows about its debugging.
#[derive(Debug)]
pub(super) struct DebugState {
    /// Checks that each cache makes, whatever it is asked for.
    pub flags: CacheFlags,
    /// Allocations and frees that were checked: the clock of tracks.
    operations: AtomicU64,
    taken_out: AtomicU64,
}

impl DebugState {
    /// Of an allocator whose caches all make these checks.
    pub(super) const fn new(flags: CacheFlags) -> DebugState {
        DebugState { flags, operations: AtomicU64::new(0), taken_out: AtomicU64::new(0) }
    }
}

/// A request for an object, or a free, as its caller made it.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Bytes asked for; those of the cache's objects if that is more.
    pub asked: usize,
    /// Where in the program's source.
    pub place: &'static Location<'static>,
}

impl Call {
    fn asked_of(self, cache: &Cache) -> usize {
        self.asked.min(cache.layout.object_size as usize)
    }
}

/// A node's list under its lock, and an error to report once the lock is released.
struct LockedNode<'l, 's, L: RawLock> {
    list: Guard<'l, L, List<NodePartial>>,
    found: Option<SlabReport<'s>>,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// What a cache is asked for, with the checks that all caches make; without any where none is in the program.
    /// linux: mm/slub.c:kmem_cache_flags
    pub(super) fn with_debug_flags<'a>(&self, config: &CacheConfig<'a>) -> CacheConfig<'a> {
        if !P::SLAB_DEBUG {
            return config.with_flags(config.flags - CacheFlags::DEBUG);
        }
        let flags = match config.constructor {
            Some(_) => self.debugging.flags - CacheFlags::POISON,
            None => self.debugging.flags,
        };
        config.with_flags(config.flags | flags)
    }

    /// Objects that were found damaged, and that nobody gets any more.
    pub fn taken_out_of_use(&self) -> u64 {
        self.debugging.taken_out.load(Relaxed)
    }

    /// Prepares the objects of a new slab, before they are linked.
    pub(super) fn prepare_checked(&self, cache: &Cache, base: SlabAddress) {
        cache.layout.objects_of(base).for_each(|object| self.object(cache, object).prepare(State::Free, 0));
    }

    /// Bytes that were asked for when an object of a checked cache was allocated; nothing if its slab goes.
    pub(super) fn requested_size(&self, cache: &Cache, object: ObjectAddress) -> Option<usize> {
        let pfn = self.map.pfn(object.slab(cache.layout.mask).get())?;
        let held = self.lock_node(self.node_of(pfn), cache.id);
        let stays = self.stays(cache.id, pfn, &held);
        stays.then(|| self.object(cache, object).state().map_or(cache.layout.object_size, |(_, asked)| asked) as usize)
    }

    /// Whether a slab is one of a checked cache for as long as its node's list is held.
    fn stays(&self, id: CacheId, pfn: Pfn, held: &LockedNode<'_, '_, P::Lock>) -> bool {
        let slab = self.map.slab(pfn);
        self.map.kind(pfn) == id && (slab.local().used() > 0 || held.list.has(slab))
    }

    fn lock_node<'s>(&self, node: NodeId, id: CacheId) -> LockedNode<'_, 's, P::Lock> {
        LockedNode { list: self.node_partial(node, id).lock(), found: None }
    }

    fn unlock_and_report(&self, held: LockedNode<'_, '_, P::Lock>) {
        let LockedNode { list, found } = held;
        drop(list);
        found.iter().for_each(|report| self.pages.platform().slab_error(report));
    }

    fn object<'c>(&self, cache: &'c Cache, object: ObjectAddress) -> Object<'c> {
        debug_assert!(cache.is_checked());
        // SAFETY: callers take the object from its slab's list, or found its page to be this cache's, under the node's
        // lock.
        unsafe { Object::new(cache, object) }
    }
}
