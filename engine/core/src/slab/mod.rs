//! The slab: caches of objects of one size, on top of the page allocator.
//!
//! A request goes down, a free comes back up:
//!
//! ```text
//! kmalloc    by size: which cache (`sizes`); above 8 or 32 KiB pages, and so where there is no slab
//! alloc      what this CPU has of the cache: a section of a few instructions (`cpu`), no lock, no atomic step
//! sheaves    it has arrays, and they will not do: other ones, of the node; filled from slabs, flushed to slabs
//! refill     it owns slabs, and has used one up: what others freed into it, this CPU's other slabs, the node's, new pages
//! partial    slabs with free objects, of a CPU or a node: a list under a lock, a stack before it
//! free       to this CPU's array; or to a slab that it owns; or to anybody's slab, by one atomic step
//! pages      new slabs and the end of slabs, several at once where they lie side by side
//! takeover   another CPU's slabs given to the node: too much waits for it, it is offline, or memory is short
//! ```
//!
//! Without sheaves, a slab is *owned* by the CPU that took it last. What that CPU frees into it goes onto the slab's
//! own list, by the same kind of section; what others free goes onto a second list of the slab, by one atomic step.
//! Larger objects are on no list: each is a bit ([`bitmap`]). Metadata lies outside of the slab ([`slab`]), found by
//! the page ([`SlabMap`]). What one store publishes is in [`word`].
//!
//! Under `sheaves` a CPU has arrays of objects instead, and nobody owns a slab (`sheaves`).
//!
//! # Which empty slabs are kept
//!
//! A slab in which no object is in use goes back to the page allocator, but for these, of each cache
//! ([`Limits`](cache::Limits)):
//!
//! | whose | which | how many |
//! |---|---|---|
//! | a CPU's | the one it allocates from | 1 |
//! | | those that it freed the last object of | `slab.cpu_free` KiB of them; without that number, slabs of twice the objects that Linux lets a CPU keep |
//! | | those that others freed into, until it takes what they freed | 4 times `slab.cpu_free` (2 MiB without it), 4 at least, on its list, and as many on the way there |
//! | a node's | any | half the logarithm of the object's size, 5 to 10; if CPUs have sheaves, `slab.cpu_free` KiB of them if these are more |
//! | a CPU's that is offline | none | |
//!
//! So a CPU keeps 9 times `slab.cpu_free` of a cache and a slab at most
//! ([`Limits::kept_by_cpu`](cache::Limits::kept_by_cpu)), whatever CPU freed what, in whatever order, and whether or
//! not it ever allocates again: a CPU that frees into one more slab of another for which too many wait gives all of
//! these to the node.
//!
//! Under `sheaves` a CPU has no slabs, but two sheaves, and a node's barn ten with objects at most. A sheaf has 4 to
//! 124 objects, of `slab.sheaf` KiB where these hold more than four. They count as in use, so each may keep a slab: at
//! worst, of each cache, as many slabs as the sheaves have objects. Of objects above 2 KiB, a sheaf keeps no more than
//! `slab.pinned` KiB of slabs, and the full sheaves of a barn as many ([`PinBound`](crate::policy::slab::PinBound)).
//!
//! [`SlabAllocator::shrink`] gives back all of it.
//!
//! Beside them stand `memory` (what an allocator is given), `address` and `bits` (objects, slabs and sets of objects,
//! as values), `config` (what is asked for when a cache is made), `layout` (sizes), `cache` (what was decided),
//! `freelist` (links inside free objects), `check` (the proof that nothing is lost), `debug` (caches whose objects are
//! checked, each time).

pub mod address;
pub mod bitmap;
pub mod bits;
pub mod cache;
pub mod cpu;
pub mod fast_path;
pub mod freelist;
pub mod hot;
pub mod layout;
#[expect(clippy::module_inception, reason = "the slab layer is named for its slabs, as in Linux")]
pub mod slab;
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
mod pages;
mod partial;
mod refill;
mod sheaves;
mod sizes;
mod stack;
mod takeover;
mod usage;

use core::alloc::Layout;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8};

pub use cache::{Cache, Name};
pub use check::{SlabCensus, SlabViolation};
pub use config::{CacheConfig, CacheFlags};
pub use cpu::CpuLocal;
pub use create::{KmemCache, Leak};
pub use debug::{InUse, SlabDebugError};
pub use error::{CreateError, ObjectError, ObjectFreeError};
pub use id::CacheId;
pub use kmalloc::{KreallocError, ZERO_SIZE};
pub use map::SlabMap;
pub use memory::{Memory, own_caches};
pub use usage::{CacheUsage, Tables};

use crate::base::atomic::AtomicU64;
use crate::base::carve::{Carver, Plan, Storage};
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
use slab::{Owner, Slab};

/// Slabs over a page allocator, for CPUs whose primitive is `C`.
///
/// All methods take `&self` and may be called from any CPU at once.
#[derive(Debug)]
pub struct SlabAllocator<'s, 'm, P: Platform, C> {
    pages: &'s PageAllocator<'m, P>,
    local: C,
    map: SlabMap<'s>,
    /// By how many bytes were asked for: the cache.
    sizes: SizeTable<'s>,
    /// For each CPU, a slot of each cache; those of CPU 0 come first.
    slots: &'s [CpuSlots],
    /// By number; 0 is none, and so is 255.
    caches: &'s [CacheEntry],
    /// For each cache, what fast paths read of it.
    hots: &'s [Published<Hot>; CACHES_MAX],
    /// For each cache, its number of slabs.
    counts: &'s [AtomicU64],
    /// Slabs that CPUs have: a list of each cache for each CPU.
    cpus: &'s [Partial<P::Lock, CpuPartial>],
    /// Slabs that nodes have: a list of each cache for each node.
    nodes: &'s [Partial<P::Lock, NodePartial>],
    /// Nodes' sheaves: a barn of each cache for each node.
    barns: &'s [Locked<P::Lock, Barn>],
    /// What stands in a slot for a sheaf that is not there.
    no_sheaf: &'s NoSheaf,
    /// What the next cache's secret is made of.
    seed: AtomicU64,
    /// Slabs whose objects were shuffled.
    turns: AtomicU64,
    debugging: debug::DebugState,
    /// Whether a small request for which there is no slab fails.
    fails_without_slab: AtomicBool,
}

/// Why there is no slab allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabError {
    /// Smaller than [`SlabAllocator::layout`] says.
    Storage,
    /// The base is not as far from a multiple of the largest block as its frame is.
    Base,
    /// There are more frames than have numbers.
    Frames,
    /// The memory crosses a multiple of 256 TiB: its addresses differ in more than 48 bits.
    Address,
    /// The primitive has more CPUs than the page allocator.
    Cpus,
    /// Pages are smaller than 4 KiB.
    PageSize,
    /// There are fewer numbers for caches than [`own_caches`] says, or more than there can be.
    Caches,
    /// The policy's numbers leave no room for a cache of its own.
    Cache(CreateError),
}

impl fmt::Display for SlabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlabError::Cache(error) => return error.fmt(f),
            SlabError::Caches => {
                "the numbers for caches are fewer than own_caches() says, or more than 256; give others"
            }
            SlabError::Storage => "the storage is smaller than layout() asks for; give as much",
            SlabError::Base => "the memory's base is not aligned to the largest block as its first frame is; align it",
            SlabError::Frames => "the memory has more frames above its first than there are numbers; take fewer",
            SlabError::Address => {
                "the memory crosses a multiple of 256 TiB; map it where the upper 16 bits of all addresses are the same"
            }
            SlabError::PageSize => "slabs are made of pages of 4 KiB or a larger power of two; configure such pages",
            SlabError::Cpus => {
                "the CPU-local primitive has more CPUs than the page allocator; configure both for the same"
            }
        })
    }
}

impl core::error::Error for SlabError {}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Bytes that [`new`](Self::new) needs for so many pages, CPUs, nodes and numbers for caches: 33 for each 4 KiB;
    /// and for 256 numbers 20 KiB to 36 KiB a CPU by how large a lock is, some 64 KiB a node, and some 58 KiB besides.
    /// Of these, each number takes 64 or 128 bytes a CPU, and some 400 with one node.
    ///
    /// # Panics
    /// If they do not fit into the address space, or there can be no slabs of such pages ([`SlabError::PageSize`]).
    pub fn layout(pages: u32, page_size: u32, cpus: u16, nodes: u8, caches: u16) -> Layout {
        assert!(map::is_page_size(page_size), "{}", SlabError::PageSize);
        let (grains, caches) = (map::grains(pages, page_size), usize::from(caches));
        let per_cpu = usize::from(cpus) * caches;
        Plan::EMPTY
            .array::<CpuSlots>(usize::from(cpus))
            .and_then(|plan| plan.array::<Partial<P::Lock, CpuPartial>>(per_cpu))
            .and_then(|plan| plan.array::<Partial<P::Lock, NodePartial>>(usize::from(nodes) * caches))
            .and_then(|plan| plan.array::<Locked<P::Lock, Barn>>(usize::from(nodes) * caches))
            .and_then(|plan| plan.array::<NoSheaf>(1))
            .and_then(|plan| plan.array::<CacheId>(sizes::PLACES))
            .and_then(|plan| plan.array::<CacheEntry>(caches))
            .and_then(|plan| plan.array::<Published<Hot>>(CACHES_MAX))
            .and_then(|plan| plan.array::<AtomicU64>(caches))
            .and_then(|plan| plan.array::<Slab>(grains + 1))
            .and_then(|plan| plan.array::<AtomicU8>(grains))
            .expect("some 33 bytes a page")
            .layout()
    }

    /// A slab allocator whose objects lie in `memory`, with the caches of `kmalloc`. `seed` makes the caches' secrets.
    /// What it needs for each page is written when a slab comes to lie there, if `storage` is known to be zeros
    /// ([`Storage::zeroed`]), else now.
    ///
    /// # Errors
    /// See [`SlabError`].
    ///
    /// # Safety
    /// Every frame that `pages` hands out to this allocator is mapped, readable and writable, at its place in `memory`,
    /// and nobody else uses it, or frees it: such frames are frozen, so that dropping a reference frees none of them.
    pub unsafe fn new(
        pages: &'s PageAllocator<'m, P>,
        local: C,
        memory: Memory,
        seed: u64,
        storage: impl Into<Storage<'s>>,
    ) -> Result<Self, SlabError> {
        // SAFETY: the caller promises the same of `pages` and `memory`.
        unsafe { Self::with_debug(pages, local, memory, seed, CacheFlags::empty(), storage) }
    }

    /// The same, in which every cache makes these checks, whatever it is asked for: what `slab_debug=` is to Linux
    /// ([`CacheFlags::from_slab_debug`]). A cache with a constructor is not poisoned.
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
        let grains = map::grains(memory.pages, pages.page_size());
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
        // SAFETY: `Slab::zeros` makes metadata whose bytes are all 0.
        let slabs = unsafe { carver.zeros(grains + 1, Slab::zeros) }.ok_or(SlabError::Storage)?;
        // SAFETY: the values are `map::NONE`, which is 0.
        let kinds = unsafe { carver.zeros(grains, || AtomicU8::new(map::NONE.get())) }.ok_or(SlabError::Storage)?;
        let hots = carver.array(CACHES_MAX, |_| Published::new(Hot::absent())).ok_or(SlabError::Storage)?;
        let allocator = SlabAllocator {
            pages,
            local,
            map: SlabMap::new(&memory, pages.page_size(), kinds, slabs),
            sizes: SizeTable::new((&*size_table).try_into().expect("carved with that length")),
            slots,
            caches: entries,
            hots: (&*hots).try_into().expect("carved with that length"),
            counts,
            cpus,
            nodes,
            barns,
            no_sheaf: &no_sheaf[0],
            seed: AtomicU64::new(seed),
            turns: AtomicU64::default(),
            debugging: debug::DebugState::new(debug & CacheFlags::DEBUG),
            fails_without_slab: AtomicBool::new(false),
        };
        // The table of sizes leads there where there is no cache, and a frontend takes what is there for what it is
        // built for.
        allocator.clear_slots(map::NONE, Path::Checked);
        // Loom's world has no room for them.
        if cfg!(not(loom)) {
            allocator
                .create_sheaf_caches()
                .and_then(|()| allocator.create_kmalloc_caches())
                .map_err(SlabError::Cache)?;
        }
        Ok(allocator)
    }

    /// The page allocator beneath, for as long as the slab is borrowed:
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
    /// Through it the caller gives back only what it has got from it. What it lends for longer than this borrow is not
    /// used any more when the maker of the slab takes its memory back.
    pub unsafe fn pages(&self) -> &PageAllocator<'m, P> {
        self.pages
    }

    /// The policy of the page allocator, which the slab follows too.
    pub fn policy(&self) -> &Policy {
        self.pages.policy()
    }

    /// The platform of the page allocator.
    pub fn platform(&self) -> &P {
        self.pages.platform()
    }

    /// The CPU-local primitive that sections run on.
    pub fn local(&self) -> &C {
        &self.local
    }

    /// The slots of one cache on all CPUs.
    #[inline(always)]
    fn slots(&self, cache: CacheId) -> Slots<'s> {
        // SAFETY: there are CACHES_MAX slots for each CPU. What is stored in them comes from `refill`, and is free
        // objects of their cache, or from `sheaves`, or from sections; `takeover` drains them.
        unsafe { Slots::new(self.slots, cache) }
    }

    /// One CPU's slot of one cache.
    fn slot(&self, cpu: CpuId, cache: CacheId) -> Slot<'s> {
        self.slots[cpu.index()].slot(cache)
    }

    /// What fast paths read of a cache.
    #[inline(always)]
    fn hot(&self, cache: CacheId) -> &'s Hot {
        self.hots[cache.index()].get()
    }

    /// One CPU's list and stack of slabs of one cache.
    fn cpu_partial(&self, cpu: CpuId, cache: CacheId) -> &'s Partial<P::Lock, CpuPartial> {
        self.pages.expect_cpu(cpu);
        &self.cpus[cpu.index() * self.caches.len() + cache.index()]
    }

    /// One node's list and stack of slabs of one cache.
    fn node_partial(&self, node: NodeId, cache: CacheId) -> &'s Partial<P::Lock, NodePartial> {
        &self.nodes[node.index() * self.caches.len() + cache.index()]
    }

    /// All nodes.
    fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<P, C> {
        (0..self.pages.nodes()).map(NodeId)
    }

    /// Returns the owner of a slab, if the slab is one of this cache.
    fn owner_in(&self, cache: &Cache, pfn: Pfn) -> Option<Owner> {
        (self.map.kind(pfn) == cache.id).then(|| self.map.slab(pfn).owner())
    }

    /// The node that a slab's memory is on.
    fn node_of(&self, pfn: Pfn) -> NodeId {
        if P::ONE_NODE {
            return NodeId(0);
        }
        self.pages.zone_of(pfn).node()
    }
}

/// Number of the cache whose entry is at a place of a table with all caches of each CPU or node.
fn number_at(place: usize, caches: usize) -> CacheId {
    CacheId::new((place % caches) as u8)
}
