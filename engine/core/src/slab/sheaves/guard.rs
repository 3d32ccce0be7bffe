//! Guards of sheaves and objects during calls that may panic: the platform may when pages are allocated or freed, and a
//! constructor may. The sheaf then goes to a barn or, if none has room, is flushed and freed.

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

    /// Returns the sheaf, which is not guarded from then on.
    pub(super) fn into_sheaf(mut self) -> Option<OwnedSheaf> {
        self.sheaf.take()
    }
}

/// Into any barn that has room, since the CPU may not be known; or back where its memory came from.
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

/// Objects that go to their slabs, those of one slab after the other. If giving a slab's pages back panics, the other
/// objects go to their slabs all the same, and no more pages go.
pub(super) struct Flush<'a, 'o, 's, 'm, P: Platform, C: CpuLocal> {
    allocator: &'a SlabAllocator<'s, 'm, P, C>,
    cache: &'a Cache,
    objects: &'o mut [ObjectAddress],
    /// Nothing was found out yet about their order, and it is the policy to bring those of a slab together.
    is_order_open: bool,
}

impl<'a, 'o, 's, 'm, P: Platform, C: CpuLocal> Flush<'a, 'o, 's, 'm, P, C> {
    /// Objects of a cache, which are brought into the order of their slabs, where that is the policy, once they turn
    /// out not to be in it: a program that frees in the order in which it allocated pays for no look.
    pub(super) fn new(
        allocator: &'a SlabAllocator<'s, 'm, P, C>,
        cache: &'a Cache,
        objects: &'o mut [ObjectAddress],
    ) -> Flush<'a, 'o, 's, 'm, P, C> {
        Flush { allocator, cache, objects, is_order_open: cache.flushes_by_slab }
    }

    /// Frees all of them.
    pub(super) fn run(&mut self) {
        while !self.objects.is_empty() {
            self.run_under_lock();
        }
    }

    /// Frees objects of this CPU's node under one lock, until it comes to others, and these without it. Pages go back
    /// after the lock is opened.
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

    /// Those of one slab, which are not among the others from now on.
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
