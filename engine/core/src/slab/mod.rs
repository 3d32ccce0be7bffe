//! Slab allocator: caches of objects of one size, on top of the page allocator ([`page`](crate::page)).
//!
//! An allocation uses these modules from top to bottom; a free starts at `free` and ends in `sheaves`, `partial`,
//! `pages` or `takeover`:
//!
//! ```text
//! kmalloc    finds the cache for a size (`sizes`); uses whole pages above 8 or 32 KiB, and where no slab can be made
//! alloc      takes an object from this CPU's slot in a section of a few instructions (`cpu`): no lock, no atomic step
//! sheaves    with sheaves: exchanges this CPU's arrays with the node's, fills them from slabs, flushes them to slabs
//! refill     without sheaves: remote frees of the current slab, this CPU's other slabs, the node's, then new pages
//! partial    slabs with free objects, for each CPU and each node: a list under a lock, and a lock-free stack before it
//! free       puts an object into this CPU's array, into a slab that this CPU owns, or into any slab by one atomic step
//! pages      allocates and frees the pages of slabs, several adjacent slabs at once
//! takeover   moves another CPU's slabs to the node: too many wait for that CPU, it is offline, or memory is short
//! ```
//!
//! Without sheaves, each slab is *owned* by the CPU that took it last. The owner frees objects onto the slab's own
//! list, in the same kind of section. Other CPUs free objects onto a second list of the slab, by one atomic step each.
//! If the policy has bitmaps, slabs of larger objects have no lists: a free object is a bit of a word ([`bitmap`]).
//! Metadata is kept outside the slab ([`slab`]) and is found by page ([`SlabMap`]). [`word`] defines the packed words,
//! each of which one store publishes.
//!
//! With sheaves, each CPU has arrays of free objects instead, and no CPU owns a slab (`sheaves`).
//!
//! # Which empty slabs are kept
//!
//! A slab without objects in use is returned to the page allocator, except for these slabs of each cache
//! ([`Limits`](cache::Limits)):
//!
//! | holder | slabs | limit |
//! |---|---|---|
//! | a CPU | the slab that it allocates from | 1 |
//! | | slabs of which this CPU freed the last object in use | `slab.cpu_free` KiB of slabs; without that setting, slabs with twice the objects that Linux lets a CPU keep |
//! | | slabs that other CPUs freed into, until this CPU takes those objects | 4 times `slab.cpu_free` (2 MiB without it), at least 4 slabs, on the list, and as many on the stack |
//! | a node | any | half the binary logarithm of the object size, 5 to 10; with sheaves, `slab.cpu_free` KiB of slabs if that is more |
//! | an offline CPU | none | |
//!
//! So a CPU keeps at most 9 times `slab.cpu_free`, or 8 slabs if that is more, plus one slab of each cache
//! ([`Limits::kept_by_cpu`](cache::Limits::kept_by_cpu)). The bound does not depend on which CPU freed which object,
//! nor on the order of frees, nor on whether the CPU ever allocates again: if too many slabs wait for a CPU, the CPU
//! that frees into one more of them moves all of them to the node.
//!
//! With sheaves, a CPU has no slabs but two sheaves, and a node's barn has at most ten sheaves with objects. A sheaf
//! has room for 4 to 124 objects: as many as `slab.sheaf` KiB hold, but at least four. Objects in sheaves count as in
//! use, so each of them may keep its slab: in the worst case, a cache keeps as many slabs as its sheaves have objects.
//! For objects above 2 KiB, one sheaf keeps at most `slab.pinned` KiB of slabs, and so do the full sheaves of a barn
//! together ([`PinBound`](crate::policy::slab::PinBound)).
//!
//! [`SlabAllocator::shrink`] frees all of these slabs, except those of CPUs that do not answer a fence.
//!
//! The other modules:
//!
//! - `memory`: the memory that an allocator manages;
//! - `address` and `bits`: objects, slabs and sets of objects as values;
//! - `config`: parameters of a new cache;
//! - `layout`: sizes and offsets of objects;
//! - `cache`: decisions made when a cache is created;
//! - `freelist`: links inside free objects;
//! - `storage`: the layout of an allocator's metadata;
//! - `online`: tables of slabs for memory that comes online;
//! - `check`: consistency check of all slabs;
//! - `debug`: caches whose objects are checked on each allocation and free.
//!
//! # Design
//!
//! An allocator has as many cache numbers as it is created with. A number takes some 400 bytes and 64 or 128 bytes per
//! CPU, which are written when the allocator is created. A kernel needs 256 numbers. A malloc creates 46 caches and no
//! more, which saves 17 page faults at the start of a program (`freehold bench malloc --table start`, on two CPUs).

#[doc(hidden)]
pub mod address;
#[doc(hidden)]
pub mod bitmap;
#[doc(hidden)]
pub mod bits;
#[doc(hidden)]
pub mod cache;
pub mod cpu;
#[doc(hidden)]
pub mod fast_path;
#[doc(hidden)]
pub mod freelist;
#[doc(hidden)]
pub mod hot;
#[doc(hidden)]
pub mod layout;
#[expect(clippy::module_inception, reason = "the slab layer is named for its slabs, as in Linux")]
#[doc(hidden)]
pub mod slab;
#[doc(hidden)]
pub mod word;

mod alloc;
mod check;
mod config;
mod create;
mod debug;
mod entry;
mod error;
mod free;
mod id;
mod kmalloc;
mod map;
mod memory;
mod mix;
mod node;
mod online;
mod pages;
mod partial;
mod reap;
mod refill;
mod sheaves;
mod sizes;
mod stack;
mod storage;
mod takeover;
mod usage;

use core::fmt;
use core::sync::atomic::AtomicBool;

pub use cache::{Cache, Name};
pub use check::{SlabCensus, SlabViolation};
pub use config::{CacheConfig, CacheFlags};
pub use cpu::CpuLocal;
pub use create::{KmemCache, Leak};
pub use debug::{InUse, SlabDebugError};
pub use error::{CreateError, ObjectError, ObjectFreeError};
pub use id::CacheId;
pub use kmalloc::{KreallocError, ZERO_SIZE};
#[doc(hidden)]
pub use map::SlabMap;
pub use memory::Memory;
#[doc(hidden)]
pub use storage::TablePlaces;
pub use usage::CacheUsage;
#[doc(hidden)]
pub use usage::Tables;

pub(crate) use map::sections::{has_sections, layout_of_sections};

use crate::base::atomic::AtomicU64;
use crate::base::carve::{Carver, Storage};
use crate::base::lock::Locked;
use crate::base::published::Published;
use crate::base::{CpuId, NodeId, Pfn};
use crate::page::PageAllocator;
use crate::platform::Platform;
use crate::policy::Policy;
use cache::Path;
use cpu::sheaf::NoSheaf;
use cpu::{CACHES_MAX, CpuSlots, Slot, Slots};
use entry::CacheEntry;
use hot::Hot;
use partial::{CpuPartial, NodePartial, Partial};
use sheaves::Barn;
use sizes::SizeTable;
use slab::Owner;

/// Slab allocator over a page allocator, with the CPU-local primitive `C`.
///
/// All methods take `&self` and may be called from several CPUs at once, except for [`check`](Self::check).
#[derive(Debug)]
pub struct SlabAllocator<'s, 'm, P: Platform, C> {
    pages: &'s PageAllocator<'m, P>,
    local: C,
    map: SlabMap<'s>,
    /// Cache for each request size.
    sizes: SizeTable<'s>,
    /// Slots of each cache for each CPU, those of CPU 0 first.
    slots: &'s [CpuSlots],
    /// Caches by number. Number 0 and the last number are never used for a cache.
    caches: &'s [CacheEntry],
    /// Fields of each cache that fast paths read.
    hots: &'s [Published<Hot>; CACHES_MAX],
    /// Number of slabs of each cache.
    counts: &'s [AtomicU64],
    /// For each cache, whether a request found no object on its CPU since the last [`reap`](Self::reap).
    touched: &'s [AtomicBool],
    /// Slabs held by CPUs: a list of each cache for each CPU.
    cpus: &'s [Partial<P::Lock, CpuPartial>],
    /// Slabs held by nodes: a list of each cache for each node.
    nodes: &'s [Partial<P::Lock, NodePartial>],
    /// Sheaves held by nodes: a barn of each cache for each node.
    barns: &'s [Locked<P::Lock, Barn>],
    /// Placeholder in slots that have no sheaf.
    no_sheaf: &'s NoSheaf,
    /// Input of the next cache's secret.
    seed: AtomicU64,
    /// Number of slabs whose objects were shuffled.
    turns: AtomicU64,
    debugging: debug::DebugState,
    /// True if a small request fails when no slab can be made for it.
    fails_without_slab: AtomicBool,
}

/// Returns the number of cache numbers that the allocator itself needs under a policy: for the sizes of kmalloc and of
/// sheaves, and two numbers that are never used for a cache.
pub const fn own_caches(policy: &Policy) -> u16 {
    // Loom's tests create none of these caches.
    if cfg!(loom) { CACHES_MAX as u16 } else { (2 + sizes::sizes(policy.slab.sizes).len() + sheaves::KINDS) as u16 }
}

/// Reasons why a slab allocator cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabError {
    /// The storage is smaller than [`SlabAllocator::layout`] demands.
    Storage,
    /// The base address and the first frame do not have the same offset from a multiple of the largest block.
    Base,
    /// The frames after the first one exceed the largest frame number.
    Frames,
    /// The memory crosses a multiple of 256 TiB, so its addresses differ in more than the lower 48 bits.
    Address,
    /// The CPU-local primitive has more CPUs than the page allocator.
    Cpus,
    /// Pages are smaller than 4 KiB, or their size is not a power of two.
    PageSize,
    /// There are fewer cache numbers than [`own_caches`], or more than the maximum.
    Caches,
    /// The policy's numbers do not allow one of the allocator's own caches.
    Cache(CreateError),
}

impl fmt::Display for SlabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlabError::Cache(error) => return error.fmt(f),
            SlabError::Caches => "the number of caches is below own_caches() or above 256; use another number",
            SlabError::Storage => "the storage is smaller than layout() requires; provide more",
            SlabError::Base => {
                "the memory's base and its first frame are aligned differently; align both to the largest block"
            }
            SlabError::Frames => "the memory has frames whose numbers do not fit into 32 bits; use fewer frames",
            SlabError::Address => {
                "the memory crosses a multiple of 256 TiB; map it where the upper 16 bits of all addresses are the same"
            }
            SlabError::PageSize => "slabs need pages of 4 KiB or a larger power of two; configure such pages",
            SlabError::Cpus => {
                "the CPU-local primitive has more CPUs than the page allocator; configure both for the same number"
            }
        })
    }
}

impl core::error::Error for SlabError {}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Creates a slab allocator whose objects are in `memory`, with the caches of `kmalloc`. The secrets of caches are
    /// derived from `seed`.
    ///
    /// If `storage` is known to be zeroed ([`Storage::zeroed`]), the metadata of a page is first written when a slab is
    /// made of that page. Otherwise all metadata is written now.
    ///
    /// # Errors
    /// See [`SlabError`].
    ///
    /// # Safety
    /// Each frame that `pages` hands out to this allocator is mapped, readable and writable, at its address in
    /// `memory`. No other code uses or frees such a frame. The frames are frozen, so dropping a reference does not free
    /// them.
    pub unsafe fn new(
        pages: &'s PageAllocator<'m, P>,
        local: C,
        memory: Memory,
        seed: u64,
        storage: impl Into<Storage<'s>>,
    ) -> Result<Self, SlabError> {
        // SAFETY: the caller makes the same promise about `pages` and `memory`.
        unsafe { Self::with_debug(pages, local, memory, seed, CacheFlags::empty(), storage) }
    }

    /// Creates a slab allocator as [`new`](Self::new) does, in which every cache, except those of sheaves, makes the
    /// checks of `debug` in addition to its own. This corresponds to `slab_debug=` in Linux
    /// ([`CacheFlags::from_slab_debug`]). A cache with a constructor is not poisoned. Has no effect on a platform
    /// without checked caches ([`Platform::SLAB_DEBUG`]).
    ///
    /// # Errors
    /// See [`SlabError`].
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn with_debug(
        pages: &'s PageAllocator<'m, P>,
        local: C,
        memory: Memory,
        seed: u64,
        debug: CacheFlags,
        storage: impl Into<Storage<'s>>,
    ) -> Result<Self, SlabError> {
        if !map::is_page_size(pages.page_size()) {
            return Err(SlabError::PageSize);
        }
        memory.expect_usable(pages.page_size(), own_caches(pages.policy()))?;
        if local.cpus() > pages.cpus() {
            return Err(SlabError::Cpus);
        }
        let mut carver = Carver::new(storage);
        let caches = usize::from(memory.caches);
        let per_cpu = usize::from(pages.cpus()) * caches;
        let per_node = usize::from(pages.nodes()) * caches;
        let slots = carver.array(usize::from(pages.cpus()), |_| CpuSlots::empty()).ok_or(SlabError::Storage)?;
        let cpus = carver
            .array(per_cpu, |at| Partial::new(number_at(at, caches), Owner::Cpu(CpuId((at / caches) as u16))))
            .ok_or(SlabError::Storage)?;
        let nodes =
            carver.array(per_node, |at| Partial::new(number_at(at, caches), Owner::Node)).ok_or(SlabError::Storage)?;
        let barns = carver.array(per_node, |_| Locked::new(Barn::new())).ok_or(SlabError::Storage)?;
        let no_sheaf = carver.array(1, |_| NoSheaf::default()).ok_or(SlabError::Storage)?;
        let size_table = carver
            .array(sizes::PLACES, |place| sizes::cache_at(pages.policy().slab.sizes, place))
            .ok_or(SlabError::Storage)?;
        let entries = carver.array(caches, |_| CacheEntry::vacant()).ok_or(SlabError::Storage)?;
        let counts = carver.array(caches, |_| AtomicU64::new(0)).ok_or(SlabError::Storage)?;
        let touched = carver.array(caches, |_| AtomicBool::new(false)).ok_or(SlabError::Storage)?;
        let hots = carver.array(CACHES_MAX, |_| Published::new(Hot::absent())).ok_or(SlabError::Storage)?;
        let map = Self::carve_map(pages, &memory, &mut carver).ok_or(SlabError::Storage)?;
        let allocator = SlabAllocator {
            pages,
            local,
            map,
            sizes: SizeTable::new((&*size_table).try_into().expect("the array was carved with this length")),
            slots,
            caches: entries,
            hots: (&*hots).try_into().expect("the array was carved with this length"),
            counts,
            touched,
            cpus,
            nodes,
            barns,
            no_sheaf: &no_sheaf[0],
            seed: AtomicU64::new(seed),
            turns: AtomicU64::default(),
            debugging: debug::DebugState::new(debug & CacheFlags::DEBUG),
            fails_without_slab: AtomicBool::new(false),
        };
        // The table of sizes returns number 0 if there is no cache, and a frontend interprets the slot of number 0 by
        // the fast path that the frontend was compiled for.
        allocator.clear_slots(map::NONE, Path::Checked);
        // The memory of loom's tests is too small for these caches.
        if cfg!(not(loom)) {
            allocator
                .create_sheaf_caches()
                .and_then(|()| allocator.create_kmalloc_caches())
                .map_err(SlabError::Cache)?;
        }
        Ok(allocator)
    }

    /// Returns the page allocator, for as long as the slab allocator is borrowed:
    ///
    /// ```compile_fail
    /// use freehold::slab::{CpuLocal, SlabAllocator};
    /// fn outlive<'s, 'm, P: freehold::platform::Platform, C: CpuLocal>(
    ///     slab: &SlabAllocator<'s, 'm, P, C>,
    /// ) -> &'s freehold::PageAllocator<'m, P> {
    ///     unsafe { slab.pages() }
    /// }
    /// ```
    ///
    /// # Safety
    /// Through this reference, the caller frees only pages that it allocated through it. Anything that the page
    /// allocator lends for longer than this borrow is unused by the time that the creator of the slab allocator
    /// reclaims its memory.
    pub unsafe fn pages(&self) -> &PageAllocator<'m, P> {
        self.pages
    }

    /// Returns the policy of the page allocator, which the slab allocator follows too.
    pub fn policy(&self) -> &Policy {
        self.pages.policy()
    }

    /// Returns the platform of the page allocator.
    pub fn platform(&self) -> &P {
        self.pages.platform()
    }

    /// Returns the CPU-local primitive that sections run on.
    pub fn local(&self) -> &C {
        &self.local
    }

    /// Returns the slots of one cache on all CPUs.
    #[inline(always)]
    fn slots(&self, cache: CacheId) -> Slots<'s> {
        // SAFETY: each CPU has CACHES_MAX slots. Slots are written by sections, by `refill` and `sheaves` through
        // sections, by `takeover`, which drains them, and by `create` while no cache in use has the number. The second
        // word of a sheaf's slot, which no section reads, is written under a lock. `refill` stores only free objects of
        // the slot's cache, and `sheaves` only sheaves of such objects.
        unsafe { Slots::new(self.slots, cache) }
    }

    /// Returns one CPU's slot of one cache.
    fn slot(&self, cpu: CpuId, cache: CacheId) -> Slot<'s> {
        self.slots[cpu.index()].slot(cache)
    }

    /// Returns the fields of a cache that fast paths read.
    #[inline(always)]
    fn hot(&self, cache: CacheId) -> &'s Hot {
        self.hots[cache.index()].get()
    }

    /// Returns one CPU's list and stack of slabs of one cache.
    fn cpu_partial(&self, cpu: CpuId, cache: CacheId) -> &'s Partial<P::Lock, CpuPartial> {
        self.pages.expect_cpu(cpu);
        &self.cpus[cpu.index() * self.caches.len() + cache.index()]
    }

    /// Returns one node's list and stack of slabs of one cache.
    fn node_partial(&self, node: NodeId, cache: CacheId) -> &'s Partial<P::Lock, NodePartial> {
        &self.nodes[node.index() * self.caches.len() + cache.index()]
    }

    /// Returns the identifiers of all nodes.
    fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<P, C> {
        (0..self.pages.nodes()).map(NodeId)
    }

    /// Returns the owner of a slab, or `None` if the slab does not belong to this cache.
    fn owner_in(&self, cache: &Cache, pfn: Pfn) -> Option<Owner> {
        (self.map.kind(pfn) == cache.id).then(|| self.map.slab(pfn).owner())
    }

    /// Returns the node of a slab's memory.
    fn node_of(&self, pfn: Pfn) -> NodeId {
        if P::ONE_NODE {
            return NodeId(0);
        }
        self.pages.zone_of(pfn).node()
    }
}

/// Returns the cache number of the entry at `place` in a table that has all caches of each CPU or node.
fn number_at(place: usize, caches: usize) -> CacheId {
    CacheId::new((place % caches) as u8)
}
