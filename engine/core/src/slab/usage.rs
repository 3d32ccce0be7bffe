//! How many objects of each cache are in use, while everybody goes on.
//!
//! One walk over all slabs, with no lock: what comes and goes meanwhile is counted or not, so the numbers are those of
//! no one moment. As in Linux, an object that is free and with a CPU, or in a sheaf, counts as in use.
//!
//! linux: mm/slub.c:get_slabinfo

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

/// How many slabs and objects a cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUsage {
    /// Objects in use, with a CPU, or in a sheaf of a node's barn.
    pub active: u64,
    /// Objects that the slabs have room for.
    pub objects: u64,
    /// Number of the cache's slabs.
    pub slabs: u64,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Shows each cache, in the order of their numbers, with what it has. Costs a look at each page of the range.
    pub fn usage(&self, visit: impl FnMut(&Cache, CacheUsage)) {
        self.usage_before(self.map.frames().end, visit);
    }

    /// The same where no slab lies at this frame or above: only the pages before it are looked at.
    pub fn usage_before(&self, end: Pfn, mut visit: impl FnMut(&Cache, CacheUsage)) {
        let active = self.active_objects(end);
        for cache in self.each_cache() {
            let slabs = self.counts[cache.id.index()].load(Relaxed);
            let objects = slabs * u64::from(cache.layout.objects);
            // A copy: the function that is shown the cache may destroy it.
            let shown = *cache;
            drop(cache);
            visit(&shown, CacheUsage { active: active[shown.id.index()].min(objects), objects, slabs });
        }
    }

    fn active_objects(&self, end: Pfn) -> [u64; CACHES_MAX] {
        let mut active = [0; CACHES_MAX];
        let frames = self.map.frames();
        let last = frames.end.min(end);
        let mut pfn = frames.start;
        let mut held: Option<CacheRef<'_>> = None;
        while pfn < last {
            let pages = match self.map.kind(pfn) {
                map::NONE | map::LARGE => 1,
                kind => {
                    // Slabs of a cache lie together, most often.
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
        active
    }

    /// A number for what the caches are like: allocators that say the same lay their slabs and sheaves out alike. What
    /// mangles links is not looked at.
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

    /// Where the tables lie that say what each page is used for: for readers outside of the process, which find them
    /// at these addresses as long as the allocator is there.
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
    /// Where its range of memory begins.
    pub memory: u64,
    /// A byte for each page: the number of its cache, 0 for none.
    pub kinds: u64,
    /// Metadata of each page, of which that of a slab's first page stands for the slab: [`Slab::from_words`].
    pub slabs: u64,
    /// The words of CPU 0; those of the next CPU lie [`STRIDE`](super::cpu::STRIDE) bytes after them.
    pub slots: u64,
}

impl Slab {
    /// Objects of the slab on none of its lists. The words are read one after the other, so they may contradict each
    /// other.
    pub fn active(&self, cache: &Cache) -> u16 {
        if cache.has_bits {
            let free = self.free_bits().len() as u16;
            return cache.layout.objects.saturating_sub(free);
        }
        self.local().used().saturating_sub(self.remote().len()).min(cache.layout.objects)
    }
}
