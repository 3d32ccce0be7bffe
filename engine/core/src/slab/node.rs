//! A node's slabs, which nobody owns.
//!
//! While nobody owns a slab, its own list is changed by its holder only. So the CPU that frees its last object in
//! use sees it by the count, and looks under the node's lock whether the slab can go.

use super::SlabAllocator;
use core::ops::Range;

use super::cache::Cache;
use super::cpu::CpuLocal;
use super::freelist::Chain;
use super::id::CacheId;
use super::partial::{List, OfNode};
use super::slab::Owner;
use super::word::Local;
use crate::base::fault::{Fault, is_planted};
use crate::base::{NodeId, Pfn};
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Takes a slab off a node's list; it stays queued.
    pub(super) fn take_from_node(&self, node: NodeId, id: CacheId) -> Option<Pfn> {
        self.take_beyond(node, id, 0)
    }

    /// The same, if the node has more than so many.
    pub(super) fn take_beyond(&self, node: NodeId, id: CacheId, kept: u32) -> Option<Pfn> {
        let mut list = self.of_node(node, id).lock();
        self.bring_home_to_node(node, id, &mut list);
        let pfn = list.first().filter(|_| list.len() > kept)?;
        list.remove(self.map, pfn);
        Some(pfn)
    }

    /// Puts a slab that the caller holds, that nobody owns, and that is queued, on its node's list, for the next
    /// refill, however many the node has.
    pub(super) fn give_to_node(&self, cache: &Cache, pfn: Pfn) {
        let mut list = self.of_node(self.node_of(pfn), cache.id).lock();
        self.map.slab(pfn).meet_remote();
        list.push(self.map, pfn);
        if self.is_wholly_free(cache, pfn) {
            list.count_free(self.map.slab(pfn));
        }
    }

    /// Puts new slabs that lie side by side on a node's list, so that the first is taken first. Those that the node
    /// does not keep go back. Costs a lock.
    pub(super) fn list_new(&self, cache: &Cache, node: NodeId, slabs: Range<Pfn>) {
        let pages = cache.layout.order.pages();
        let count = (slabs.end.raw() - slabs.start.raw()) / pages;
        let mut list = self.of_node(node, cache.id).lock();
        let kept = cache.limits.node_free.saturating_sub(list.wholly_free()).min(count);
        let surplus = slabs.start.offset(kept * pages)..slabs.end;
        for pfn in cache.slabs_in(&(slabs.start..surplus.start)).rev() {
            list.push(self.map, pfn);
            list.count_free(self.map.slab(pfn));
        }
        drop(list);
        if !surplus.is_empty() {
            self.discard_side_by_side(cache, surplus);
        }
    }

    /// Brings home what waits on a node's stack. Nobody owns it: a slab's owner changes in the hands of its holder, and
    /// that was the CPU that pushed it.
    pub(super) fn bring_home_to_node(&self, node: NodeId, id: CacheId, list: &mut List<OfNode>) {
        for pfn in self.of_node(node, id).stack.take(self.map) {
            debug_assert_eq!(self.map.slab(pfn).owner(), Owner::Nobody, "a slab of a CPU waits for that CPU");
            list.push(self.map, pfn);
        }
    }

    /// Whether all objects of a slab that nobody owns are free. The caller holds it.
    #[inline(never)]
    pub(super) fn is_wholly_free(&self, cache: &Cache, pfn: Pfn) -> bool {
        self.free_objects(cache, pfn) == cache.layout.objects
    }

    /// The last object in use of a slab was freed, it seems, and nobody owns it: gives it back, unless the node keeps
    /// it, or somebody has it in hand.
    pub(super) fn retire_from_node(&self, cache: &Cache, pfn: Pfn) {
        let node = self.node_of(pfn);
        let mut list = self.of_node(node, cache.id).lock();
        self.bring_home_to_node(node, cache.id, &mut list);
        let slab = self.map.slab(pfn);
        // It may have gone meanwhile, and its pages may be another cache's.
        if !list.has(slab) || !self.is_wholly_free(cache, pfn) {
            return;
        }
        if self.keep_or_remove(cache, pfn, &mut list) {
            return;
        }
        drop(list);
        self.discard(cache, pfn);
    }

    /// Counts a slab on a node's list that is wholly free, or takes it off if the node has enough; `false` then: the
    /// caller holds it, and discards it.
    pub(super) fn keep_or_remove(&self, cache: &Cache, pfn: Pfn, list: &mut List<OfNode>) -> bool {
        let keeps = list.wholly_free() < cache.limits.node_free;
        if keeps {
            list.count_free(self.map.slab(pfn));
        } else {
            list.remove(self.map, pfn);
        }
        keeps
    }

    /// Counts a slab that nobody owns, and that is queued, if it is wholly free, however many the node has.
    pub(super) fn count_on_node(&self, cache: &Cache, pfn: Pfn) {
        let node = self.node_of(pfn);
        let mut list = self.of_node(node, cache.id).lock();
        self.bring_home_to_node(node, cache.id, &mut list);
        let slab = self.map.slab(pfn);
        if list.has(slab) && self.is_wholly_free(cache, pfn) {
            list.count_free(slab);
        }
    }

    /// What a slab that the caller holds, and that nobody owns, has on its own list.
    pub(super) fn own_chain(&self, cache: &Cache, pfn: Pfn) -> Chain {
        let local = self.map.slab(pfn).local();
        Chain { head: local.list(self.map.slab_address(pfn).get()), len: cache.layout.objects - local.used() }
    }

    /// All free objects of a slab that the caller holds, and that nobody owns. It stays queued, so it stays the
    /// caller's: [`settle_with`](Self::settle_with) lets go of it.
    fn take_nobodys(&self, cache: &Cache, pfn: Pfn) -> Chain {
        let (slab, base) = (self.map.slab(pfn), self.map.slab_address(pfn));
        let remote =
            if is_planted(Fault::LetsGoEarly) { slab.take_remote_unqueued(base) } else { slab.take_remote(base) };
        self.own_chain(cache, pfn).joined(remote, cache.links)
    }

    /// Finds the place of a slab that the caller holds, that nobody owns, and that is queued: the node's list; or none,
    /// if all its objects are in use, or if the node has enough that are wholly free.
    pub(super) fn settle(&self, cache: &Cache, pfn: Pfn) {
        if cache.has_bits {
            return self.settle_bits(cache, pfn);
        }
        let chain = self.take_nobodys(cache, pfn);
        self.settle_with(cache, pfn, chain);
    }

    /// The same for a slab whose free objects the caller has taken, and of which these are left.
    pub(super) fn settle_with(&self, cache: &Cache, pfn: Pfn, chain: Chain) {
        if !self.unqueue_with(cache, pfn, chain) {
            self.settle_on_node(cache, pfn);
        }
    }

    /// Writes what is left on a slab's own list, and lets go of it if that is nothing and nothing was freed from
    /// elsewhere. The caller holds it, and nobody owns it.
    pub(super) fn unqueue_with(&self, cache: &Cache, pfn: Pfn, chain: Chain) -> bool {
        let slab = self.map.slab(pfn);
        slab.set_local(Local::new(chain.head, cache.layout.objects - chain.len));
        chain.is_empty() && slab.unqueue(self.map.slab_address(pfn))
    }

    /// The same for a slab that has free objects.
    pub(super) fn settle_on_node(&self, cache: &Cache, pfn: Pfn) {
        let (slab, node) = (self.map.slab(pfn), self.node_of(pfn));
        let mut list = self.of_node(node, cache.id).lock();
        // After the slab's own list was written: a CPU that freed before is seen here, and one that frees later sees
        // that list, and comes to retire the slab.
        slab.meet_remote();
        let is_free = self.is_wholly_free(cache, pfn);
        if is_free && list.wholly_free() >= cache.limits.node_free {
            drop(list);
            return self.discard(cache, pfn);
        }
        list.push(self.map, pfn);
        if is_free {
            list.count_free(slab);
        }
    }
}
