//! Consistency check of all slabs: every object is counted where it is.
//!
//! The check runs while no other code uses the allocator. It checks that
//!
//! - each object of a slab is in exactly one of these places: in use, on the slab's own list, on its list of remote
//!   frees, on the list of the one CPU that allocates from the slab, or in one sheaf;
//! - each list consists of objects of its slab, ends in the slab's end mark (a CPU's list only under `tagged`), and is
//!   as long as its word records;
//! - each slab with free objects, except one from which a CPU allocates, is on a list or stack of its owner or, without
//!   an owner, of its node, and is counted there correctly;
//! - no sheaf is lost, and the numbers of slabs and sheaves are those that were recorded.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::address::ObjectAddress;
use super::cache::Path;
use super::cpu::CpuLocal;
use super::freelist::get_freepointer;
use super::id::CacheId;
use super::partial::{List, is_counted_free, is_counted_waiting};
use super::slab::Owner;
use super::word::{end_mark, first_object};
use super::{Cache, SlabAllocator};
use crate::base::Pfn;
use crate::platform::Platform;

/// Inconsistent state of the slab allocator: the first violation that `check` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabViolation {
    /// A list leaves its slab, is circular, or does not end in the slab's end mark. Or bits of a slab stand for no
    /// object, or for an object that was freed both remotely and by the owner.
    List {
        /// First frame of the slab.
        slab: Pfn,
    },
    /// The length of a list differs from the recorded length.
    Count {
        /// First frame of the slab.
        slab: Pfn,
        /// Number of objects that the slab's word records.
        expected: u16,
        /// Number of objects that were counted.
        found: u16,
    },
    /// Several CPUs allocate from one slab, or an object in a sheaf is also in another sheaf or free in its slab.
    Shared {
        /// First frame of the slab.
        slab: Pfn,
    },
    /// A slab has free objects or is marked as queued, but is on no list or stack, so that no CPU would find it.
    Lost {
        /// First frame of the slab.
        slab: Pfn,
    },
    /// A slab is on a list or a stack of a CPU or node that does not own it, or of another cache, or is there without
    /// being marked as queued.
    Misplaced {
        /// First frame of the slab.
        slab: Pfn,
    },
    /// A slab's count as wholly free or as waiting does not match its state, or the counts of a list do not match its
    /// slabs.
    Miscounted {
        /// First frame of the slab.
        slab: Pfn,
    },
    /// A sheaf contains an address that is not an object of its cache, or more objects than it has room for.
    Sheaf {
        /// Number of the cache.
        cache: CacheId,
    },
    /// The number of sheaves differs from the number of allocated sheaves.
    Sheaves {
        /// Number of sheaves whose memory is allocated.
        expected: u64,
        /// Number of sheaves that CPUs and barns hold.
        found: u64,
    },
    /// The number of a cache's slabs differs from the recorded number.
    Slabs {
        /// Number of the cache.
        cache: CacheId,
        /// Number of slabs that the cache's counter records.
        expected: u64,
        /// Number of slabs that were found.
        found: u64,
    },
}

impl fmt::Display for SlabViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlabViolation::List { slab } => write!(f, "a list of the slab at frame {slab} does not end in that slab"),
            SlabViolation::Count { slab, expected, found } => {
                write!(f, "a list of the slab at frame {slab} has {found} objects, but its count is {expected}")
            }
            SlabViolation::Shared { slab } => {
                write!(f, "a free object of the slab at frame {slab} is in two places")
            }
            SlabViolation::Lost { slab } => write!(f, "the free objects of the slab at frame {slab} are unreachable"),
            SlabViolation::Misplaced { slab } => {
                write!(f, "the slab at frame {slab} is on the wrong list")
            }
            SlabViolation::Miscounted { slab } => {
                write!(f, "the slab at frame {slab} is counted in the wrong group")
            }
            SlabViolation::Sheaf { cache } => {
                write!(f, "a sheaf of cache {cache} contains an address that is not an object of the cache")
            }
            SlabViolation::Sheaves { expected, found } => {
                write!(f, "there are {found} sheaves, but memory is in use for {expected}")
            }
            SlabViolation::Slabs { cache, expected, found } => {
                write!(f, "cache {cache} has {found} slabs, but its count is {expected}")
            }
        }
    }
}

impl core::error::Error for SlabViolation {}

/// Totals of the slabs of all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabCensus {
    /// Number of slabs.
    pub slabs: u64,
    /// Number of objects that these slabs have room for.
    pub objects: u64,
    /// Number of objects that are not in use: in slabs, on CPUs' lists and in sheaves.
    pub free: u64,
    /// Number of objects that are in use as sheaves.
    pub sheaves: u64,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Checks all slabs, lists and sheaves, and counts objects.
    ///
    /// # Errors
    /// The first violation that is found.
    ///
    /// # Safety
    /// No other call allocates, frees, shrinks, or uses this allocator in any other way meanwhile: the check reads
    /// links in free objects, and no lock keeps another CPU from handing these objects out.
    pub unsafe fn check(&self) -> Result<SlabCensus, SlabViolation> {
        // SAFETY: the caller promises that nothing else uses the allocator, and no slab is at the end of the frames.
        unsafe { self.check_before(self.map.frames().end) }
    }

    /// Does what [`check`](Self::check) does, for callers that know that no slab is at the frame `end` or above. Only
    /// the pages before it are looked at.
    ///
    /// # Errors
    /// The first violation that is found.
    ///
    /// # Safety
    /// As for [`check`](Self::check).
    pub unsafe fn check_before(&self, end: Pfn) -> Result<SlabCensus, SlabViolation> {
        let mut census = SlabCensus::default();
        let mut sheaves_found = 0;
        for cache in self.each_cache() {
            let cache = &*cache;
            if self.path(cache) == Path::Sheaves {
                sheaves_found += self.check_sheaves(cache)?;
            }
            let mut found = 0;
            for pfn in self.map.slabs_of_cache_before(end, cache.id, cache.layout.order) {
                let free = self.check_slab(cache, pfn)?;
                if self.is_sheaf_cache(cache.id) {
                    census.sheaves += u64::from(cache.layout.objects - free);
                }
                census.free += u64::from(free);
                census.objects += u64::from(cache.layout.objects);
                found += 1;
            }
            let expected = self.counts[cache.id.index()].load(Relaxed);
            if expected != found {
                return Err(SlabViolation::Slabs { cache: cache.id, expected, found });
            }
            census.slabs += found;
            self.check_places(cache, end)?;
        }
        if census.sheaves != sheaves_found {
            return Err(SlabViolation::Sheaves { expected: census.sheaves, found: sheaves_found });
        }
        Ok(census)
    }

    /// Checks one slab, and returns the number of its free objects, including those in CPUs' slots and in sheaves.
    fn check_slab(&self, cache: &Cache, pfn: Pfn) -> Result<u16, SlabViolation> {
        if cache.has_bits {
            return self.check_bits(cache, pfn);
        }
        let slab = self.map.slab(pfn);
        let (local, remote) = (slab.local(), slab.remote());
        let base = self.map.slab_address(pfn).get();
        let own = self.expect_list(cache, pfn, local.list(base), Some(cache.layout.objects - local.used()))?;
        let others = self.expect_list(cache, pfn, remote.list(base), Some(remote.len()))?;
        let mut current = 0;
        let mut users = 0;
        for cpu in self.pages.cpu_ids().filter(|&cpu| self.current(cache, cpu) == Some(pfn)) {
            users += 1;
            current += self.expect_list(cache, pfn, self.slot(cpu, cache.id).main.load(Relaxed), None)?;
        }
        if users > 1 {
            return Err(SlabViolation::Shared { slab: pfn });
        }
        if own + others > 0 && users == 0 && !remote.is_queued() {
            return Err(SlabViolation::Lost { slab: pfn });
        }
        if self.path(cache) == Path::Sheaves {
            current += self.check_in_sheaves(cache, pfn)?;
        }
        Ok(own + others + current)
    }

    /// Checks one slab whose free objects are bits, and returns the number of its free objects, including those in
    /// sheaves.
    fn check_bits(&self, cache: &Cache, pfn: Pfn) -> Result<u16, SlabViolation> {
        let slab = self.map.slab(pfn);
        let (own, others, all) = (slab.bits(), slab.remote_bits(), cache.layout.all_bits());
        if own.has_any(others) || !own.with(others).without(all).is_empty() {
            return Err(SlabViolation::List { slab: pfn });
        }
        let users = self.pages.cpu_ids().filter(|&cpu| self.current(cache, cpu) == Some(pfn)).count();
        if users > 1 {
            return Err(SlabViolation::Shared { slab: pfn });
        }
        if !own.with(others).is_empty() && users == 0 && !slab.remote().is_queued() {
            return Err(SlabViolation::Lost { slab: pfn });
        }
        let in_sheaves = if self.path(cache) == Path::Sheaves { self.check_in_sheaves(cache, pfn)? } else { 0 };
        Ok(self.free_objects(cache, pfn) + in_sheaves)
    }

    /// Checks a list of a slab, and returns its length. `expected` is `None` for a CPU's list, whose length is not
    /// recorded.
    fn expect_list(&self, cache: &Cache, pfn: Pfn, list: u64, expected: Option<u16>) -> Result<u16, SlabViolation> {
        let base = self.map.slab_address(pfn);
        let mut found = 0;
        let mut at = list;
        while let Some(object) = first_object(at) {
            if object.slab(cache.layout.mask) != base
                || !cache.layout.is_object(object)
                || found == cache.layout.objects
            {
                return Err(SlabViolation::List { slab: pfn });
            }
            found += 1;
            // SAFETY: the object belongs to the slab and is on one of its lists, so it is free. No other code uses the
            // allocator, as the caller of `check` promises.
            at = unsafe { get_freepointer(object, cache.links) };
        }
        match expected {
            // Under `page-field`, a CPU's list ends in the mark that was in the slot when the CPU began to use the
            // slab.
            _ if at != end_mark(base) && (expected.is_some() || self.path(cache) == Path::Tagged) => {
                Err(SlabViolation::List { slab: pfn })
            }
            Some(expected) if expected != found => Err(SlabViolation::Count { slab: pfn, expected, found }),
            _ => Ok(found),
        }
    }

    /// Checks that the slabs on lists and stacks of a cache are on the right ones and counted correctly, and that all
    /// queued slabs are on one.
    fn check_places(&self, cache: &Cache, end: Pfn) -> Result<(), SlabViolation> {
        let mut listed = 0;
        for cpu in self.pages.cpu_ids() {
            let partial = self.cpu_partial(cpu, cache.id);
            listed += self.check_listed(cache, partial.stack.iter(self.map), Owner::Cpu(cpu))?;
            let list = partial.lock();
            listed += self.check_listed(cache, list.iter(self.map), Owner::Cpu(cpu))?;
            let current = self.current(cache, cpu);
            self.check_counts(&list, |pfn| {
                let slab = self.map.slab(pfn);
                let may_be_free = self.is_wholly_free(cache, pfn) && current != Some(pfn);
                let may_not_wait = !self.is_waiting(cache.id, slab);
                (may_be_free || !is_counted_free(slab)) && (may_not_wait || is_counted_waiting(slab))
            })?;
        }
        for node in self.node_ids() {
            let partial = self.node_partial(node, cache.id);
            listed += self.check_listed(cache, partial.stack.iter(self.map), Owner::Node)?;
            let list = partial.lock();
            listed += self.check_listed(cache, list.iter(self.map), Owner::Node)?;
            self.check_counts(&list, |pfn| self.is_wholly_free(cache, pfn) == is_counted_free(self.map.slab(pfn)))?;
        }
        match self.queued_slabs(cache, end).next() {
            // All listed slabs are queued. So if the numbers differ, some queued slab is not listed.
            Some(slab) if self.queued_slabs(cache, end).count() != listed => Err(SlabViolation::Lost { slab }),
            _ => Ok(()),
        }
    }

    fn queued_slabs(&self, cache: &Cache, end: Pfn) -> impl Iterator<Item = Pfn> {
        let slabs = self.map.slabs_of_cache_before(end, cache.id, cache.layout.order);
        slabs.filter(|&pfn| self.map.slab(pfn).remote().is_queued())
    }

    /// Checks that listed slabs are queued slabs of the cache with this owner; returns their number.
    fn check_listed(
        &self,
        cache: &Cache,
        slabs: impl Iterator<Item = Pfn>,
        owner: Owner,
    ) -> Result<usize, SlabViolation> {
        let mut listed = 0;
        for pfn in slabs {
            if self.owner_in(cache, pfn) != Some(owner) || !self.map.slab(pfn).remote().is_queued() {
                return Err(SlabViolation::Misplaced { slab: pfn });
            }
            listed += 1;
        }
        Ok(listed)
    }

    /// Checks that each slab on a list is counted correctly.
    fn check_counts<H>(&self, list: &List<H>, is_right: impl Fn(Pfn) -> bool) -> Result<(), SlabViolation> {
        let miscounted = list.iter(self.map).find(|&pfn| !is_right(pfn));
        let wrong = miscounted.or_else(|| list.first().filter(|_| !list.is_counted(self.map)));
        wrong.map_or(Ok(()), |slab| Err(SlabViolation::Miscounted { slab }))
    }
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Returns whether an object is free in its slab: its bit is set, or the object is on one of the slab's lists.
    pub(super) fn is_free_in_slab(&self, cache: &Cache, pfn: Pfn, object: ObjectAddress) -> bool {
        let slab = self.map.slab(pfn);
        if cache.has_bits {
            return slab.free_bits().has_any(self.bit_of(cache.id, object));
        }
        let base = self.map.slab_address(pfn).get();
        let lists = [slab.local().list(base), slab.remote().list(base)];
        lists.into_iter().any(|list| is_on_list(list, object, cache))
    }
}

/// Returns whether an object is on a list of its slab.
fn is_on_list(list: u64, object: ObjectAddress, cache: &Cache) -> bool {
    let mut at = list;
    for _ in 0..cache.layout.objects {
        match first_object(at) {
            None => return false,
            Some(first) if first == object => return true,
            // SAFETY: the object is on a list of its slab, so it is free, and the caller prevents changes of the list.
            Some(first) => at = unsafe { get_freepointer(first, cache.links) },
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests;
