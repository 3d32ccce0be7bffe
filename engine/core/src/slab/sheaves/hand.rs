//! A sheaf in the hands of a call that may not return: it asks for pages or gives some back, so a platform may panic,
//! and so may a constructor. The sheaf then goes to a barn or, if none has room, is flushed, and its memory goes back.

use super::super::SlabAllocator;
use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::group::{begins_with_run, gather, group};
use super::sheaf::Held;
use crate::base::NodeId;
use crate::platform::Platform;

/// A sheaf that a call has in hand.
pub(super) struct InHand<'a, 's, 'm, P: Platform, C: CpuLocal> {
    allocator: &'a SlabAllocator<'s, 'm, P, C>,
    cache: &'a Cache,
    sheaf: Option<Held>,
}

impl<'a, 's, 'm, P: Platform, C: CpuLocal> InHand<'a, 's, 'm, P, C> {
    /// A sheaf of a cache, or none.
    pub fn new(
        allocator: &'a SlabAllocator<'s, 'm, P, C>,
        cache: &'a Cache,
        sheaf: Option<Held>,
    ) -> InHand<'a, 's, 'm, P, C> {
        InHand { allocator, cache, sheaf }
    }

    /// Has something done to it, if it is there.
    pub fn with(&mut self, act: impl FnOnce(&mut Held)) {
        if let Some(sheaf) = &mut self.sheaf {
            act(sheaf);
        }
    }

    /// The sheaf, for the next who has it.
    pub fn pass(mut self) -> Option<Held> {
        self.sheaf.take()
    }
}

/// Into any barn that has room, since the CPU may not be known; or back where its memory came from.
impl<P: Platform, C: CpuLocal> Drop for InHand<'_, '_, '_, P, C> {
    fn drop(&mut self) {
        let Some(mut sheaf) = self.sheaf.take() else { return };
        for node in (0..self.allocator.pages.nodes()).map(NodeId) {
            match self.allocator.barn(node, self.cache.id).put(sheaf) {
                Ok(()) => return,
                Err(surplus) => sheaf = surplus,
            }
        }
        self.allocator.retire_sheaf(self.cache, sheaf);
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
    pub fn new(
        allocator: &'a SlabAllocator<'s, 'm, P, C>,
        cache: &'a Cache,
        objects: &'o mut [ObjectAddress],
    ) -> Flush<'a, 'o, 's, 'm, P, C> {
        Flush { allocator, cache, objects, is_order_open: cache.flushes_by_slab }
    }

    /// Frees all of them.
    pub fn run(&mut self) {
        while !self.objects.is_empty() {
            self.run_under_lock();
        }
    }

    /// Frees objects of this CPU's node under one lock, until it comes to others, and these without it. Pages go back
    /// after the lock is opened.
    fn run_under_lock(&mut self) {
        let (slab, cache) = (self.allocator, self.cache);
        let node = slab.pages.node_of(slab.local.cpu());
        let (mut goes, mut others) = (slab.disowned(cache), None);
        let mut list = slab.of_node(node, cache.id).lock();
        slab.bring_home_to_node(node, cache.id, &mut list);
        while others.is_none() && !self.objects.is_empty() {
            let neighbours = self.next();
            others = (!slab.free_listed(cache, (node, &mut list), &mut goes, neighbours)).then_some(neighbours);
        }
        drop(list);
        slab.free_neighbours(cache, others.unwrap_or_default());
        goes.discard();
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
