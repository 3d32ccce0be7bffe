//! A sheaf in the hands of a call that may not return: it asks for pages or gives some back, so a platform may panic,
//! and so may a constructor. The sheaf then goes to a barn or, if none has room, is flushed, and its memory goes back.

use super::super::SlabAllocator;
use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::group::{group, split};
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
}

impl<'a, 'o, 's, 'm, P: Platform, C: CpuLocal> Flush<'a, 'o, 's, 'm, P, C> {
    /// Puts objects of a cache in order of slabs, where that is the policy.
    pub fn new(
        allocator: &'a SlabAllocator<'s, 'm, P, C>,
        cache: &'a Cache,
        objects: &'o mut [ObjectAddress],
    ) -> Flush<'a, 'o, 's, 'm, P, C> {
        if cache.flushes_by_slab {
            group(objects, cache.layout.mask);
        }
        Flush { allocator, cache, objects }
    }

    /// Frees all of them.
    pub fn run(&mut self) {
        while !self.objects.is_empty() {
            let neighbours = self.next();
            self.allocator.free_neighbours(self.cache, neighbours);
        }
    }

    /// Those of one slab, which are not among the others from now on.
    fn next(&mut self) -> &'o [ObjectAddress] {
        let (neighbours, rest) = split(core::mem::take(&mut self.objects), self.cache.layout.mask);
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
