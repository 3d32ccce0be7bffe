//! Reaping: caches that requests do not use any more give back the objects and slabs that they keep for later.
//!
//! A cache keeps free objects in the sheaves of CPUs and barns, and wholly free slabs on its nodes' lists. Each limit on
//! these is per cache. When a program stops to use a size, the objects that are kept for that size would stay for ever,
//! and each of them may pin a slab whose other objects are free. A caller that decides when time has passed, for
//! example when memory has grown, calls [`SlabAllocator::reap`]. Caches that were refilled since the last call are left
//! alone: they are in use, and would take the objects back at once.
//!
//! linux: mm/slab.c:cache_reap, until 6.7; SLUB has no such function, since its caches are bounded by page, not by
//! sheaf

use core::sync::atomic::Ordering::Relaxed;

use super::SlabAllocator;
use super::cache::{Cache, Path};
use super::cpu::CpuLocal;
use super::partial::is_counted_free;
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Records that a request found no object of a cache on its CPU.
    pub(super) fn touch(&self, cache: &Cache) {
        let touched = &self.touched[cache.id.index()];
        // Most calls find it set, and then write nothing to a line that CPUs share.
        if !touched.load(Relaxed) {
            touched.store(true, Relaxed);
        }
    }

    /// Gives back the free objects and the wholly free slabs of each cache that was not refilled since the last call.
    /// Caches of CPUs that are out of reach are not changed ([`CpuLocal::is_out_of_reach`]). Without sheaves, caches
    /// keep what they have.
    ///
    /// Costs a few locks per cache; up to two fences for each CPU and cache that kept objects, and the flush of these
    /// objects.
    pub fn reap(&self) {
        for cache in self.each_cache() {
            if self.path(&cache) == Path::Sheaves && !self.touched[cache.id.index()].swap(false, Relaxed) {
                self.reap_cache(&cache);
            }
        }
    }

    fn reap_cache(&self, cache: &Cache) {
        self.flush_cache(cache);
        for node in self.node_ids() {
            let list = self.node_partial(node, cache.id).lock();
            let counted = list.wholly_free();
            self.discard_listed(cache, list, counted, |pfn| is_counted_free(self.map.slab(pfn)));
        }
    }
}
