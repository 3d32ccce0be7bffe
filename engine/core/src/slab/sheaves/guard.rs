//! Guards of sheaves and objects during calls that may panic. The platform may panic when pages are allocated or freed,
//! and so may a constructor. A guarded sheaf is then put into a barn or, if none has room, is flushed and freed.

use super::super::SlabAllocator;
use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::group::{begins_with_run, gather, group};
use super::sheaf::OwnedSheaf;
use crate::platform::Platform;

/// A sheaf that belongs to a call which may panic.
pub(super) struct SheafGuard<'a, 's, 'm, P: Platform, C: CpuLocal> {
    allocator: &'a SlabAllocator<'s, 'm, P, C>,
    cache: &'a Cache,
    sheaf: Option<OwnedSheaf>,
}

impl<'a, 's, 'm, P: Platform, C: CpuLocal> SheafGuard<'a, 's, 'm, P, C> {
    /// Guards a sheaf of a cache, if there is one.
    pub(super) fn new(
        allocator: &'a SlabAllocator<'s, 'm, P, C>,
        cache: &'a Cache,
        sheaf: Option<OwnedSheaf>,
    ) -> SheafGuard<'a, 's, 'm, P, C> {
        SheafGuard { allocator, cache, sheaf }
    }

    /// Calls `act` with the sheaf, if there is one.
    pub(super) fn update(&mut self, act: impl FnOnce(&mut OwnedSheaf)) {
        if let Some(sheaf) = &mut self.sheaf {
            act(sheaf);
        }
    }

    /// Returns the sheaf, which is not guarded from then on, or `None` if there is none.
    pub(super) fn into_sheaf(mut self) -> Option<OwnedSheaf> {
        self.sheaf.take()
    }
}

/// Puts the sheaf into any barn that has room, since the current CPU may not be known. If none has room, flushes and
/// frees it.
impl<P: Platform, C: CpuLocal> Drop for SheafGuard<'_, '_, '_, P, C> {
    fn drop(&mut self) {
        let Some(mut sheaf) = self.sheaf.take() else { return };
        for node in self.allocator.node_ids() {
            match self.allocator.barn(node, self.cache.id).put(sheaf) {
                Ok(()) => return,
                Err(surplus) => sheaf = surplus,
            }
        }
        self.allocator.flush_and_free_sheaf(self.cache, sheaf);
    }
}

/// Objects that are being freed to their slabs, slab by slab. If giving back a slab's pages panics, the remaining
/// objects are freed to their slabs nevertheless, and no more pages are given back.
pub(super) struct Flush<'a, 'o, 's, 'm, P: Platform, C: CpuLocal> {
    allocator: &'a SlabAllocator<'s, 'm, P, C>,
    cache: &'a Cache,
    objects: &'o mut [ObjectAddress],
    /// True if objects are to be grouped by slab, and their order has not been examined yet.
    is_order_open: bool,
}

impl<'a, 'o, 's, 'm, P: Platform, C: CpuLocal> Flush<'a, 'o, 's, 'm, P, C> {
    /// Prepares the flush of objects of a cache. If the policy groups objects by slab, they are grouped once they are
    /// found not to be in order. So a program that frees in the order of allocation does not pay for grouping.
    pub(super) fn new(
        allocator: &'a SlabAllocator<'s, 'm, P, C>,
        cache: &'a Cache,
        objects: &'o mut [ObjectAddress],
    ) -> Flush<'a, 'o, 's, 'm, P, C> {
        Flush { allocator, cache, objects, is_order_open: cache.flushes_by_slab }
    }

    /// Frees all objects.
    pub(super) fn run(&mut self) {
        while !self.objects.is_empty() {
            self.run_under_lock();
        }
    }

    /// Frees objects of this CPU's node under one lock, up to the first objects that need it released, and then frees
    /// those without the lock. Pages are given back after the lock is released.
    fn run_under_lock(&mut self) {
        let (slab, cache) = (self.allocator, self.cache);
        let node = slab.pages.node_of(slab.local.cpu());
        let (mut goes, mut others) = (slab.disowned_slabs(cache), None);
        let mut list = slab.node_partial(node, cache.id).lock();
        slab.flush_node_stack(node, cache.id, &mut list);
        while others.is_none() && !self.objects.is_empty() {
            let neighbours = self.next();
            others = (!slab.free_listed(cache, (node, &mut list), &mut goes, neighbours)).then_some(neighbours);
        }
        drop(list);
        slab.free_neighbours(cache, others.unwrap_or_default());
        goes.discard_all();
    }

    /// Splits off the next objects that belong to one slab, and returns them.
    fn next(&mut self) -> &'o [ObjectAddress] {
        let (objects, mask) = (core::mem::take(&mut self.objects), self.cache.layout.mask);
        if self.is_order_open && !begins_with_run(objects, mask) {
            group(objects, mask);
            self.is_order_open = false;
        }
        let same = gather(objects, mask);
        let (neighbours, rest) = objects.split_at_mut(same);
        self.objects = rest;
        neighbours
    }
}

impl<P: Platform, C: CpuLocal> Drop for Flush<'_, '_, '_, '_, P, C> {
    fn drop(&mut self) {
        while !self.objects.is_empty() {
            let neighbours = self.next();
            self.allocator.leave_neighbours(self.cache, neighbours);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
