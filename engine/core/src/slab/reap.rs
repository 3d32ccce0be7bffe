//! Reaping: caches that requests do not use any more give back the objects and slabs that they keep for later.
//!
//! A cache keeps free objects in the sheaves of CPUs and barns, and wholly free slabs on its nodes' lists. Each limit
//! on these is per cache. When a program stops to use a size, the objects that are kept for that size would stay for
//! ever, and each of them may pin a slab whose other objects are free. A caller that decides when time has passed, for
//! example when memory has grown, calls [`SlabAllocator::reap`]. Caches that were refilled since the last call are in
//! use, and would take the objects back at once. They are left alone as long as they keep no more bytes together than
//! the caller allows.
//!
//! linux: mm/slab.c:cache_reap, until 6.7; SLUB has no such function, since its caches are bounded by page, not by
//! sheaf

use core::sync::atomic::Ordering::Relaxed;

use super::SlabAllocator;
use super::cache::{Cache, Path};
use super::cpu::{CACHES_MAX, CpuLocal};
use super::id::CacheId;
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
    /// If the other caches keep more than `most` bytes, gives back those of the caches that keep most, until the rest
    /// keeps at most `most` bytes. Caches of CPUs that are out of reach are not changed
    /// ([`CpuLocal::is_out_of_reach`]). Without sheaves, caches keep what they have.
    ///
    /// Costs a few locks per cache, and a read and at most a lock per cache and CPU; up to two fences for each CPU and
    /// each cache that gives back objects, and the flush of these objects.
    pub fn reap(&self, most: u64) {
        let mut kept = [0; CACHES_MAX];
        for cache in self.each_cache().filter(|cache| self.path(cache) == Path::Sheaves) {
            if self.touched[cache.id.index()].swap(false, Relaxed) {
                kept[cache.id.index()] = self.kept_bytes(&cache);
            } else {
                self.reap_cache(&cache);
            }
        }
        let mut sum: u64 = kept.iter().sum();
        while sum > most
            && let Some((at, bytes)) = kept.iter_mut().enumerate().max_by_key(|(_, bytes)| **bytes)
        {
            // The number may belong to another cache by now.
            if let Some(cache) =
                self.find_cache(CacheId::new(at as u8)).filter(|found| self.path(found) == Path::Sheaves)
            {
                self.reap_cache(&cache);
            }
            sum -= core::mem::take(bytes);
        }
    }

    /// Returns the bytes of a cache's free objects in sheaves and of its wholly free slabs on nodes' lists. Other code
    /// may use the cache meanwhile, so the number need not belong to one moment.
    fn kept_bytes(&self, cache: &Cache) -> u64 {
        let slabs: u32 = self.node_ids().map(|node| self.node_partial(node, cache.id).lock().wholly_free()).sum();
        self.count_in_sheaves(cache) * u64::from(cache.layout.size) + u64::from(slabs) * cache.layout.slab_bytes()
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
