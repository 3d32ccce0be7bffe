//! Usage of caches: the number of objects in use of each cache, counted while other CPUs go on.
//!
//! One walk over all slabs without a lock counts the objects. Objects that are allocated or freed meanwhile may be
//! counted or not, so the numbers do not belong to one moment. As in Linux, a free object in a CPU's slot or in a sheaf
//! counts as in use.
//!
//! linux: mm/slub.c:get_slabinfo

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::cache::Cache;
use super::cpu::{CACHES_MAX, CpuLocal, STRIDE};
use super::entry::CacheRef;
use super::layout::Layout;
use super::mix::mix;
use super::slab::Slab;
use super::{SlabAllocator, map};
use crate::base::Pfn;
use crate::platform::Platform;

/// Numbers of slabs and objects of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUsage {
    /// Objects in use, in a CPU's slot, or in any sheaf.
    pub active: u64,
    /// Objects of these that are in sheaves of CPUs and nodes, so that no caller uses them. Lists in slots of CPUs are
    /// not counted.
    pub cached: u64,
    /// Objects that the slabs have room for.
    pub objects: u64,
    /// Number of the cache's slabs.
    pub slabs: u64,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Calls `visit` with each cache that is not being created or destroyed, and its usage, in the order of cache
    /// numbers. Costs a look at each slab, and at each other page of the range, and a lock for each spare sheaf and
    /// each barn.
    pub fn usage(&self, visit: impl FnMut(&Cache, CacheUsage)) {
        self.usage_before(self.map.frames().end, visit);
    }

    /// Does what [`usage`](Self::usage) does, for callers that know that no slab is at the frame `end` or above. Only
    /// the pages before it are looked at.
    pub fn usage_before(&self, end: Pfn, mut visit: impl FnMut(&Cache, CacheUsage)) {
        let active = self.active_objects(end);
        for cache in self.each_cache() {
            let slabs = self.counts[cache.id.index()].load(Relaxed);
            let objects = slabs * u64::from(cache.layout.objects);
            let active = active[cache.id.index()].min(objects);
            let cached = self.count_in_sheaves(&cache).min(active);
            // The cache is copied and its reference released, because `visit` may destroy it.
            let shown = *cache;
            drop(cache);
            visit(&shown, CacheUsage { active, cached, objects, slabs });
        }
    }

    fn active_objects(&self, end: Pfn) -> [u64; CACHES_MAX] {
        let mut active = [0; CACHES_MAX];
        for frames in self.map.present_before(end) {
            self.count_active(frames, &mut active);
        }
        active
    }

    /// Adds the objects in use of all slabs in these frames to the number of their cache.
    fn count_active(&self, frames: Range<Pfn>, active: &mut [u64; CACHES_MAX]) {
        let mut pfn = frames.start;
        let mut held: Option<CacheRef<'_>> = None;
        while pfn < frames.end {
            let pages = match self.map.kind(pfn) {
                map::NONE | map::LARGE => 1,
                kind => {
                    // Adjacent slabs mostly belong to one cache, so the reference is kept for the next slab.
                    if held.as_ref().is_none_or(|cache| cache.id != kind) {
                        held = self.find_cache(kind);
                    }
                    held.as_ref().map_or(1, |cache| {
                        active[kind.index()] += u64::from(self.map.slab(pfn).active(cache));
                        cache.layout.order.pages()
                    })
                }
            };
            pfn = pfn.offset(pages);
        }
    }

    /// Returns a hash of the caches' layouts. Two allocators with the same hash have the same layout of slabs and
    /// sheaves. The secrets that mangle links are not included.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = [Slab::SIZE as u64, STRIDE as u64].into_iter().fold(0, mix_in);
        for cache in self.each_cache() {
            let Layout { first, size, link, objects, order, .. } = cache.layout;
            let numbers = [cache.id.get().into(), first, size, link, objects.into(), order.get().into()];
            let numbers = numbers.into_iter().chain([cache.sheaf.into(), cache.has_bits.into()]);
            hash = numbers.map(u64::from).fold(hash, mix_in);
        }
        hash
    }

    /// Returns whether one of these pages belongs to a slab or is an object of whole pages. Takes no lock.
    pub fn has_slab(&self, pages: Range<Pfn>) -> bool {
        (pages.start.raw()..pages.end.raw()).any(|page| self.map.kind(Pfn::new(page)) != map::NONE)
    }

    /// Returns the addresses of the tables that describe the use of each page. Readers outside the process find the
    /// tables there as long as the allocator exists. In a kernel the tables are by section of memory, and these two are
    /// empty.
    pub fn tables(&self) -> Tables {
        let [kinds, slabs] = self.map.tables();
        Tables {
            memory: self.map.address(self.map.frames().start),
            kinds,
            slabs,
            slots: self.slots.as_ptr().addr() as u64,
        }
    }
}

fn mix_in(hash: u64, number: u64) -> u64 {
    mix(hash ^ number)
}

/// Addresses of an allocator's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Start of its range of memory.
    pub memory: u64,
    /// Table of one byte for each 4 KiB: the number of the cache to which the memory belongs, 255 for the first page of
    /// a block that `kmalloc` allocated, or 0 otherwise.
    pub kinds: u64,
    /// Table of slabs' metadata for each 4 KiB; that of a slab's start describes the slab: [`Slab::from_words`].
    pub slabs: u64,
    /// Words of CPU 0. Those of the next CPU follow [`STRIDE`](super::cpu::STRIDE) bytes later.
    pub slots: u64,
}

impl Slab {
    /// Returns the number of objects of the slab that are on none of its lists. The words are read one after the other,
    /// so they may be inconsistent.
    pub fn active(&self, cache: &Cache) -> u16 {
        if cache.has_bits {
            let free = self.free_bits().len() as u16;
            return cache.layout.objects.saturating_sub(free);
        }
        self.local().used().saturating_sub(self.remote().len()).min(cache.layout.objects)
    }
}
