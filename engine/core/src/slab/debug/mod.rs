//! Checked caches: every allocation and every free of a cache with any of [`CacheFlags::DEBUG`] is checked. This module
//! depends on `node` and `pages` for slabs, and uses neither sections nor sheaves.
//!
//! 1. CPUs hold no objects of a checked cache, so every allocation and free reaches this module: fast paths find an
//!    empty list, and no address that is valid for them ([`Hot`](super::hot::Hot)). Other caches have no additional
//!    cost.
//! 2. Allocations and frees use the slab's own list, under the lock of the slab's node. Pages are allocated and given
//!    back with no lock held. Each operation checks the bytes around the object that the cache's flags provide; with
//!    poison, an allocation also checks every byte in the object.
//! 3. Damage is reported ([`Platform::slab_error`]) after the lock is released. An object that an allocation or a free
//!    finds damaged is not used again: a free object is permanently taken off its list, and an object in use is not
//!    freed. A walk ([`validate`]) repairs the bytes around a damaged object in use instead. So each damage is reported
//!    once.
//!
//! [`object`] has the layout of an object, [`track`] the records of its users, and [`validate`] the walks over whole
//! caches.

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

/// Debugging state of an allocator.
#[derive(Debug)]
pub(super) struct DebugState {
    /// Checks that every cache makes in addition to its own flags.
    pub flags: CacheFlags,
    /// Number of checked allocations and frees, which is the clock of tracks.
    operations: AtomicU64,
    taken_out: AtomicU64,
}

impl DebugState {
    /// Creates the state of an allocator whose caches all make these checks.
    pub(super) const fn new(flags: CacheFlags) -> DebugState {
        DebugState { flags, operations: AtomicU64::new(0), taken_out: AtomicU64::new(0) }
    }
}

/// Arguments of an allocation or a free, as its caller made it.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Requested bytes. If this is more than the objects of the cache have, their size is used.
    pub requested: usize,
    /// Place of the call in the program's source.
    pub place: &'static Location<'static>,
}

impl Call {
    fn asked_of(self, cache: &Cache) -> usize {
        self.requested.min(cache.layout.object_size as usize)
    }
}

/// A node's list under its lock, and an error to report once the lock is released.
struct LockedNode<'l, 's, L: RawLock> {
    list: Guard<'l, L, List<NodePartial>>,
    found: Option<SlabReport<'s>>,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Returns the configuration of a cache with the checks that all caches make added; a cache with a constructor gets
    /// no poison by this. If the platform has no checked caches, removes all checks. linux: mm/slub.c:kmem_cache_flags
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

    /// Returns the number of objects that were found damaged and are never handed out again.
    pub fn taken_out_of_use(&self) -> u64 {
        self.debugging.taken_out.load(Relaxed)
    }

    /// Prepares the objects of a new slab, before they are linked.
    pub(super) fn prepare_checked(&self, cache: &Cache, base: SlabAddress) {
        cache.layout.objects_of(base).for_each(|object| self.object(cache, object).prepare(State::Free, 0));
    }

    /// Returns the bytes that were requested when an object of a checked cache was allocated, or the whole size of the
    /// object if its state word is damaged. Returns `None` if its slab was discarded or is about to be. Takes the
    /// node's lock.
    pub(super) fn requested_size(&self, cache: &Cache, object: ObjectAddress) -> Option<usize> {
        let pfn = self.map.pfn(object.slab(cache.layout.mask).get())?;
        let held = self.lock_node(self.node_of(pfn), cache.id);
        let stays = self.stays(cache.id, pfn, &held);
        stays.then(|| {
            self.object(cache, object).state().map_or(cache.layout.object_size, |(_, requested)| requested) as usize
        })
    }

    /// Returns whether a slab belongs to a checked cache and remains a slab for as long as its node's list is locked.
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
        // SAFETY: callers take the object from its slab's list, or have found under the node's lock that its page
        // belongs to this cache. So it is an object of a slab, which the lock or its objects in use keep.
        unsafe { Object::new(cache, object) }
    }
}
