//! Slabs of a node, which have no owner.
//!
//! While a slab has no owner, only its holder changes the slab's own list. So the CPU that frees the slab's last object
//! in use learns this from the counts in the slab's words, and checks under the node's lock whether the slab can be
//! discarded.

use super::SlabAllocator;
use core::ops::Range;

use super::cache::Cache;
use super::cpu::CpuLocal;
use super::freelist::Chain;
use super::id::CacheId;
use super::partial::{List, NodePartial};
use super::slab::Owner;
use super::word::Local;
use crate::base::fault::{Fault, is_planted};
use crate::base::{NodeId, Pfn};
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Takes the first slab off a node's list, which includes the slabs of the node's stack; returns `None` if there is
    /// none. The caller holds the slab, which stays queued. linux: mm/slub.c:get_partial_node
    pub(super) fn get_partial_node(&self, node: NodeId, id: CacheId) -> Option<Pfn> {
        self.get_partial_node_above(node, id, 0)
    }

    /// Takes the first slab off a node's list, if the list, with the slabs of the node's stack, has more than `kept`
    /// slabs. Returns `None` otherwise. The caller holds the slab, which stays queued.
    pub(super) fn get_partial_node_above(&self, node: NodeId, id: CacheId, kept: u32) -> Option<Pfn> {
        let mut list = self.node_partial(node, id).lock();
        self.flush_node_stack(node, id, &mut list);
        let pfn = list.first().filter(|_| list.len() > kept)?;
        list.remove(self.map, pfn);
        Some(pfn)
    }

    /// Puts a queued slab that the caller holds and no CPU owns on its node's list, regardless of the list's length.
    /// linux: mm/slub.c:add_partial
    pub(super) fn add_partial(&self, cache: &Cache, pfn: Pfn) {
        let mut list = self.node_partial(self.node_of(pfn), cache.id).lock();
        self.map.slab(pfn).meet_remote();
        list.push(self.map, pfn);
        if self.is_wholly_free(cache, pfn) {
            list.count_free(self.map.slab(pfn));
        }
    }

    /// Puts new adjacent slabs on a node's list, so that the first is taken first. Slabs beyond the node's limit of
    /// wholly free slabs are discarded. Costs a lock, and the return of the discarded pages.
    pub(super) fn add_new_partials(&self, cache: &Cache, node: NodeId, slabs: Range<Pfn>) {
        let pages = cache.layout.order.pages();
        let count = (slabs.end.raw() - slabs.start.raw()) / pages;
        let mut list = self.node_partial(node, cache.id).lock();
        let kept = cache.limits.node_free.saturating_sub(list.wholly_free()).min(count);
        let surplus = slabs.start.offset(kept * pages)..slabs.end;
        for pfn in cache.slabs_in(&(slabs.start..surplus.start)).rev() {
            list.push(self.map, pfn);
            list.count_free(self.map.slab(pfn));
        }
        drop(list);
        if !surplus.is_empty() {
            self.discard_slabs(cache, surplus);
        }
    }

    /// Moves the slabs on a node's stack to the node's list. No CPU owns them: only the holder of a slab changes its
    /// owner, and the CPU that pushed the slab was its holder.
    pub(super) fn flush_node_stack(&self, node: NodeId, id: CacheId, list: &mut List<NodePartial>) {
        for pfn in self.node_partial(node, id).stack.take(self.map) {
            debug_assert_eq!(self.map.slab(pfn).owner(), Owner::Node, "a slab on the node's stack is owned by a CPU");
            list.push(self.map, pfn);
        }
    }

    /// Returns whether all objects of a slab without owner are free. Certain only if the caller holds the slab.
    #[inline(never)]
    pub(super) fn is_wholly_free(&self, cache: &Cache, pfn: Pfn) -> bool {
        self.free_objects(cache, pfn) == cache.layout.objects
    }

    /// Discards a slab without owner whose last object in use seems to have been freed. Does nothing if the node keeps
    /// the slab, or if another CPU holds it, so that it is not on the node's list.
    pub(super) fn retire_from_node(&self, cache: &Cache, pfn: Pfn) {
        let node = self.node_of(pfn);
        let mut list = self.node_partial(node, cache.id).lock();
        self.flush_node_stack(node, cache.id, &mut list);
        let slab = self.map.slab(pfn);
        // The slab may have been discarded meanwhile, and its pages may belong to another cache.
        if !list.has(slab) || !self.is_wholly_free(cache, pfn) {
            return;
        }
        if self.keep_or_remove(cache, pfn, &mut list) {
            return;
        }
        drop(list);
        self.discard_slab(cache, pfn);
    }

    /// Counts a wholly free slab on a node's list, and returns `true`. If the node has enough wholly free slabs, takes
    /// the slab off the list and returns `false`; the caller holds the slab then, and discards it.
    pub(super) fn keep_or_remove(&self, cache: &Cache, pfn: Pfn, list: &mut List<NodePartial>) -> bool {
        let keeps = list.wholly_free() < cache.limits.node_free;
        if keeps {
            list.count_free(self.map.slab(pfn));
        } else {
            list.remove(self.map, pfn);
        }
        keeps
    }

    /// Counts a queued slab without owner, if it is wholly free, regardless of the number of such slabs on the node.
    pub(super) fn count_on_node(&self, cache: &Cache, pfn: Pfn) {
        let node = self.node_of(pfn);
        let mut list = self.node_partial(node, cache.id).lock();
        self.flush_node_stack(node, cache.id, &mut list);
        let slab = self.map.slab(pfn);
        if list.has(slab) && self.is_wholly_free(cache, pfn) {
            list.count_free(slab);
        }
    }

    /// Returns the own list of a slab that the caller holds and that has no owner.
    pub(super) fn own_chain(&self, cache: &Cache, pfn: Pfn) -> Chain {
        let local = self.map.slab(pfn).local();
        Chain { head: local.list(self.map.slab_address(pfn).get()), len: cache.layout.objects - local.used() }
    }

    /// Takes all free objects of a slab that the caller holds and that has no owner. The slab stays queued, so the
    /// caller still holds the slab; [`deactivate_with`](Self::deactivate_with) gives it back.
    fn take_unowned(&self, cache: &Cache, pfn: Pfn) -> Chain {
        let (slab, base) = (self.map.slab(pfn), self.map.slab_address(pfn));
        let remote =
            if is_planted(Fault::LetsGoEarly) { slab.take_remote_unqueued(base) } else { slab.take_remote(base) };
        self.own_chain(cache, pfn).concat(remote, cache.links)
    }

    /// Gives back a queued slab that the caller holds and that has no owner. If the slab has free objects, it is put on
    /// its node's list, or discarded if it is wholly free and the node has enough such slabs. If all its objects are in
    /// use, only the hold is given up. linux: mm/slub.c:deactivate_slab
    pub(super) fn deactivate_slab(&self, cache: &Cache, pfn: Pfn) {
        if cache.has_bits {
            return self.deactivate_bitmap_slab(cache, pfn);
        }
        let chain = self.take_unowned(cache, pfn);
        self.deactivate_with(cache, pfn, chain);
    }

    /// Gives back a slab as [`deactivate_slab`](Self::deactivate_slab) does. The caller has taken all free objects of
    /// the slab; `chain` has those that are put back.
    pub(super) fn deactivate_with(&self, cache: &Cache, pfn: Pfn, chain: Chain) {
        if !self.unqueue_with(cache, pfn, chain) {
            self.put_on_node(cache, pfn);
        }
    }

    /// Makes the remaining free objects the own list of a slab that the caller holds and that has no owner. If there
    /// are none, and none was freed remotely, the caller's hold is given up, the slab is not queued any more, and the
    /// result is `true`. Otherwise the caller still holds the slab.
    pub(super) fn unqueue_with(&self, cache: &Cache, pfn: Pfn, chain: Chain) -> bool {
        let slab = self.map.slab(pfn);
        slab.set_local(Local::new(chain.head, cache.layout.objects - chain.len));
        chain.is_empty() && slab.unqueue(self.map.slab_address(pfn))
    }

    /// Puts a queued slab that the caller holds and that has no owner on its node's list, or discards it if it is
    /// wholly free and the node has enough such slabs.
    pub(super) fn put_on_node(&self, cache: &Cache, pfn: Pfn) {
        let (slab, node) = (self.map.slab(pfn), self.node_of(pfn));
        let mut list = self.node_partial(node, cache.id).lock();
        // This happens after the slab's own list was written. So a remote free before this point is seen here, and a
        // CPU that frees later sees that list and retires the slab.
        slab.meet_remote();
        let is_free = self.is_wholly_free(cache, pfn);
        if is_free && list.wholly_free() >= cache.limits.node_free {
            drop(list);
            return self.discard_slab(cache, pfn);
        }
        list.push(self.map, pfn);
        if is_free {
            list.count_free(slab);
        }
    }
}
