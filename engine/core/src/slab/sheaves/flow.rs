//! Transfer of objects between sheaves and slabs, many at a time, and allocation of the memory of sheaves.
//!
//! linux: mm/slub.c:refill_objects, build_detached_freelist, alloc_empty_sheaf

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::super::address::ObjectAddress;
use super::super::bits::Bits;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::fast_path::AnyFastPath;
use super::super::freelist::Chain;
use super::super::partial::{List, NodePartial};
use super::super::slab::Queue;
use super::super::takeover::DisownedSlabs;
use super::super::{ObjectError, ObjectFreeError, SlabAllocator};
use super::guard::{Flush, SheafGuard};
use super::sheaf::{OwnedSheaf, size_class};
use crate::base::{Gfp, NodeId, Pfn};
use crate::platform::Platform;

/// Slabs of a cache per slab that is made ahead: a cache that needs a slab gets an eighth as many new slabs as it has.
pub(super) const AHEAD: u64 = 8;
/// Flags that make a request wait, reclaim, or use reserves, or that zero the memory.
const RECLAIM_OR_RESERVES: Gfp =
    Gfp::ZERO.union(Gfp::NOFAIL).union(Gfp::DIRECT_RECLAIM).union(Gfp::HIGH).union(Gfp::MEMALLOC);

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Takes free objects out of slabs until `room` is full or no more objects are available cheaply. Returns their
    /// number.
    ///
    /// Objects are written in descending order of addresses, and a sheaf hands out its last object first. So a caller
    /// that uses objects in the order of allocation accesses memory in one direction. Only the first object may wait
    /// for reclaim. The sources of objects are, in this order:
    ///
    /// 1. slabs of this node;
    /// 2. if these have no object, a slab of another node that has more slabs than it keeps;
    /// 3. new pages;
    /// 4. if there are no pages and no object was found, slabs of any node.
    ///
    /// # Errors
    /// If no object is found, and there is no page for a slab.
    pub(super) fn refill_objects(
        &self,
        cache: &Cache,
        gfp: Gfp,
        room: &mut [ObjectAddress],
    ) -> Result<usize, ObjectError> {
        let node = self.pages.node_of(self.local.cpu());
        let all = room.len();
        let mut left = all - self.refill_objects_node(cache, node, room);
        if left == all
            && let Some(pfn) = self.get_spare_partial(cache, node)
        {
            left -= self.alloc_from_slab(cache, pfn, room);
        }
        left -= self.alloc_from_new_slabs(cache, gfp, node, &mut room[..left]);
        while left > 0 {
            let found = if left == all {
                Some(self.get_partial_or_new_slab(cache, gfp, node)?)
            } else {
                self.get_partial_without_reclaim(cache, gfp, node)
            };
            let Some(pfn) = found else { break };
            left -= self.alloc_from_slab(cache, pfn, &mut room[..left]);
        }
        room.copy_within(left.., 0);
        Ok(all - left)
    }

    /// Allocates objects from several new slabs into the end of `room`, and returns their number, which is 0 if several
    /// slabs cannot be made at once. Unused slabs go to the node, or are discarded beyond its limit.
    fn alloc_from_new_slabs(&self, cache: &Cache, gfp: Gfp, node: NodeId, room: &mut [ObjectAddress]) -> usize {
        let mut left = room.len();
        let Some(mut slabs) = self.new_slabs_for(cache, gfp, node, left) else { return 0 };
        while left > 0 && slabs.start < slabs.end {
            left -= self.alloc_from_slab(cache, slabs.start, &mut room[..left]);
            slabs.start = slabs.start.offset(cache.layout.order.pages());
        }
        if !slabs.is_empty() {
            self.add_new_partials(cache, node, slabs);
        }
        room.len() - left
    }

    /// Makes several slabs for a number of objects, if the node has a free block for them. It makes an eighth as many
    /// slabs as the cache has. If the objects need more slabs, or there is no block for the eighth, it makes as many as
    /// the objects need. Each number is rounded up to a power of two, and is at most
    /// [`Limits::made_at_once`](super::super::cache::Limits). Returns `None` if this would be a single slab.
    fn new_slabs_for(&self, cache: &Cache, gfp: Gfp, node: NodeId, objects: usize) -> Option<Range<Pfn>> {
        let most = cache.limits.made_at_once.ilog2();
        let needed = power(objects.div_ceil(usize::from(cache.layout.objects)) as u64, most);
        let ahead = power((self.counts[cache.id.index()].load(Relaxed) / AHEAD).max(1), most);
        let optional = without_reclaim_or_reserves(gfp);
        match objects {
            0 => None,
            _ if needed < ahead => self
                .several_slabs(cache, optional, node, ahead)
                .or_else(|| self.several_slabs(cache, optional, node, needed)),
            _ => self.several_slabs(cache, optional, node, needed),
        }
    }

    /// Makes two to this power of adjacent slabs; returns `None` for a single slab.
    fn several_slabs(&self, cache: &Cache, gfp: Gfp, node: NodeId, power: u8) -> Option<Range<Pfn>> {
        if power == 0 { None } else { self.new_slabs(cache, gfp, node, power) }
    }

    /// Gets a slab for objects beyond those that are needed: of this node or of new pages, without reclaim and without
    /// reserves. Returns `None` if there is none.
    fn get_partial_without_reclaim(&self, cache: &Cache, gfp: Gfp, node: NodeId) -> Option<Pfn> {
        self.get_partial_node(node, cache.id)
            .or_else(|| self.new_slab(cache, without_reclaim_or_reserves(gfp), node).ok())
    }

    /// Gets a slab that may have free objects, which the caller then holds: a slab of this node, of new pages, or of
    /// any node.
    ///
    /// # Errors
    /// If there are no pages, and no node has a slab on its list.
    fn get_partial_or_new_slab(&self, cache: &Cache, gfp: Gfp, node: NodeId) -> Result<Pfn, ObjectError> {
        if let Some(pfn) = self.get_partial_node(node, cache.id) {
            return Ok(pfn);
        }
        self.new_slab(cache, gfp, node).or_else(|error| self.get_any_partial(cache, node).ok_or(error))
    }

    /// Takes a slab off the list of any other node; returns `None` if no other node has one. linux:
    /// mm/slub.c:get_any_partial
    fn get_any_partial(&self, cache: &Cache, node: NodeId) -> Option<Pfn> {
        self.nodes_but(node).find_map(|other| self.get_partial_node(other, cache.id))
    }

    /// Takes a slab off the list of another node that has more slabs than it keeps; returns `None` if there is no such
    /// node.
    fn get_spare_partial(&self, cache: &Cache, node: NodeId) -> Option<Pfn> {
        self.nodes_but(node).find_map(|other| self.get_partial_node_above(other, cache.id, cache.limits.node_free))
    }

    fn nodes_but(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<P, C> {
        self.node_ids().filter(move |&other| other != node)
    }

    /// Takes free objects out of a node's slabs into the end of `room`, until `room` is full or there are no more
    /// slabs. Returns their number. Cost: one lock; one atomic step for each slab that has no free object left, which
    /// is then on no list; one more for each slab whose remote frees are taken, and one if the node's stack is not
    /// empty.
    ///
    /// A slab from which this function only takes objects needs no
    /// [`meet_remote`](super::super::slab::Slab::meet_remote): a CPU that frees the slab's last object in use got that
    /// object after it was taken, and so sees the slab's words as they are written here.
    fn refill_objects_node(&self, cache: &Cache, node: NodeId, room: &mut [ObjectAddress]) -> usize {
        let mut list = self.node_partial(node, cache.id).lock();
        self.flush_node_stack(node, cache.id, &mut list);
        let mut left = room.len();
        while left > 0
            && let Some(pfn) = list.first()
        {
            list.remove(self.map, pfn);
            let (taken, is_let_go) = self.alloc_from_held_slab(cache, pfn, &mut room[..left]);
            left -= taken;
            if !is_let_go {
                list.push(self.map, pfn);
            }
        }
        room.len() - left
    }

    /// Takes free objects out of a slab that the caller holds, into the end of `room`, and gives the slab back: to its
    /// node if it has free objects left. Returns the number of objects.
    fn alloc_from_slab(&self, cache: &Cache, pfn: Pfn, room: &mut [ObjectAddress]) -> usize {
        let (taken, is_let_go) = self.alloc_from_held_slab(cache, pfn, room);
        if !is_let_go {
            self.put_on_node(cache, pfn);
        }
        taken
    }

    /// Takes free objects out of a slab that the caller holds, into the end of `room`. Returns the number of objects,
    /// and whether the hold was given up: the slab has no free object then and is not queued any more. Otherwise the
    /// caller still holds the slab.
    fn alloc_from_held_slab(&self, cache: &Cache, pfn: Pfn, room: &mut [ObjectAddress]) -> (usize, bool) {
        if cache.has_bits {
            return self.alloc_from_bits(cache, pfn, room);
        }
        let mut chain = self.own_chain(cache, pfn);
        let mut taken = chain.pop_into(room, cache.links);
        // Remote frees are taken only if the slab's own list does not suffice, so that the two lists need not be
        // joined.
        if taken < room.len() {
            let left = room.len() - taken;
            chain = self.map.slab(pfn).take_remote(self.map.slab_address(pfn));
            taken += chain.pop_into(&mut room[..left], cache.links);
        }
        (taken, self.unqueue_with(cache, pfn, chain))
    }

    /// Frees objects to their slabs, and changes their order. Objects of one slab are freed together; under Linux's
    /// rules, only those that are close to each other.
    pub(super) fn flush(&self, cache: &Cache, objects: &mut [ObjectAddress]) {
        Flush::new(self, cache, objects).run();
    }

    /// Frees objects of one slab to that slab. Reports them if the slab does not belong to the cache.
    pub(super) fn free_neighbours(&self, cache: &Cache, neighbours: &[ObjectAddress]) {
        let &[.., last] = neighbours else { return };
        let Some(pfn) = self.slab_of(cache, last) else {
            neighbours.iter().for_each(|object| {
                self.report_refused(ObjectFreeError::Foreign { address: object.get() });
            });
            return;
        };
        if cache.has_bits {
            self.free_all_bits(cache, pfn, neighbours);
        } else {
            self.free_chain_remote(cache, pfn, chain_of(cache, neighbours), last);
        }
    }

    /// Returns the slab of an object, or `None` if the object's page does not belong to the cache. If an object was
    /// freed twice, it may have been returned to its slab before, and the slab may have been discarded.
    fn slab_of(&self, cache: &Cache, object: ObjectAddress) -> Option<Pfn> {
        self.map.pfn(object.slab(cache.layout.mask).get()).filter(|&pfn| self.map.kind(pfn) == cache.id)
    }

    /// Frees objects of one slab to that slab under the lock of the node's slabs, and returns `true`. Returns `false`
    /// and does nothing if the page does not belong to the cache, if the slab is not on this node, or if a bit shows
    /// that one of the objects is free already; errors are reported later, without a lock. A slab that is to be
    /// discarded is added to `goes`. Costs one atomic step.
    ///
    /// If another CPU frees the last object in use of a slab that is being queued here, it waits for the lock and then
    /// finds the slab on the list.
    pub(super) fn free_listed(
        &self,
        cache: &Cache,
        (node, list): (NodeId, &mut List<NodePartial>),
        goes: &mut DisownedSlabs<'_, '_, '_, P, C>,
        neighbours: &[ObjectAddress],
    ) -> bool {
        let last = neighbours[neighbours.len() - 1];
        let Some(pfn) = self.slab_of(cache, last).filter(|&pfn| self.node_of(pfn) == node) else { return false };
        let slab = self.map.slab(pfn);
        let (seems_free, queue) = if cache.has_bits {
            let Some(bits) = self.bits_in_use(cache.id, slab, neighbours) else { return false };
            let (after, queue) = slab.push_remote_bits(bits);
            (after.with(slab.bits()) == cache.layout.all_bits(), queue)
        } else {
            let (after, queue) = slab.push_remote(chain_of(cache, neighbours), last, cache.links);
            (after.len() == slab.local().used(), queue)
        };
        // If another CPU holds the slab, the slab is not on the list, and that CPU will find that the slab is wholly
        // free.
        let is_held = queue == Queue::Push;
        let is_free = seems_free && (is_held || list.has(slab)) && self.is_wholly_free(cache, pfn);
        let is_surplus = is_free && list.wholly_free() >= cache.limits.node_free;
        match (is_held, is_surplus) {
            (true, false) => list.push(self.map, pfn),
            (false, true) => list.remove(self.map, pfn),
            (true, true) | (false, false) => {}
        }
        if is_surplus {
            goes.disown(pfn);
        } else if is_free {
            list.count_free(slab);
        }
        true
    }

    /// Frees objects of one slab to that slab after a panic. No more pages are given back, so the slab stays with the
    /// node, and an address that is not an object of the cache is dropped without a report.
    pub(super) fn leave_neighbours(&self, cache: &Cache, neighbours: &[ObjectAddress]) {
        let &[.., last] = neighbours else { return };
        let Some(pfn) = self.slab_of(cache, last) else { return };
        let slab = self.map.slab(pfn);
        let queue = if cache.has_bits {
            let bits = neighbours.iter().fold(Bits::NONE, |bits, &object| bits.with(self.bit_of(cache.id, object)));
            slab.push_remote_bits(bits.without(slab.bits())).1
        } else {
            slab.push_remote(chain_of(cache, neighbours), last, cache.links).1
        };
        match queue {
            Queue::Push => self.add_partial(cache, pfn),
            Queue::IsQueued => self.count_on_node(cache, pfn),
        }
    }

    /// Frees the objects of a sheaf to their slabs. linux: mm/slub.c:sheaf_flush_unused
    pub(super) fn sheaf_flush(&self, cache: &Cache, sheaf: &mut OwnedSheaf) {
        sheaf.empty_by(|objects| self.flush(cache, objects));
    }

    /// Allocates an empty sheaf for a cache, without reclaim or reserves, since objects can be allocated without
    /// sheaves. Returns `None` if there is no memory, or if the cache has no sheaves. linux:
    /// mm/slub.c:alloc_empty_sheaf
    pub(super) fn alloc_empty_sheaf(&self, cache: &Cache, gfp: Gfp) -> Option<OwnedSheaf> {
        let capacity = Some(u64::from(cache.sheaf)).filter(|&objects| objects > 0)?;
        let of = self.cache_of_sheaves(size_class(capacity));
        let memory = self.slab_alloc::<AnyFastPath>(of, usize::MAX, without_reclaim_or_reserves(gfp)).ok()?;
        // SAFETY: the memory was allocated above from the cache of this size class, whose objects are as large as such
        // a sheaf and aligned to their size.
        Some(unsafe { OwnedSheaf::new(memory, capacity) })
    }

    /// Frees the objects of a sheaf to their slabs, and the memory of the sheaf.
    pub(super) fn flush_and_free_sheaf(&self, cache: &Cache, sheaf: OwnedSheaf) {
        let mut guard = SheafGuard::new(self, cache, Some(sheaf));
        guard.update(|sheaf| self.sheaf_flush(cache, sheaf));
        let Some(memory) = guard.into_sheaf().map(OwnedSheaf::into_memory) else { return };
        // SAFETY: `alloc_empty_sheaf` allocated the memory, and the sheaf was consumed by `into_memory`, so no other
        // code uses it.
        let freed = unsafe { self.kfree(memory) };
        debug_assert!(freed.is_ok(), "the free of a sheaf's memory failed: {freed:?}");
    }
}

/// Returns the exponent of the smallest power of two that is not below a number of slabs, at most `most`.
fn power(slabs: u64, most: u32) -> u8 {
    slabs.next_power_of_two().ilog2().min(most) as u8
}

/// Returns the flags of a request that the caller can do without: no reclaim, no reserves, no warning. linux:
/// mm/slub.c:refill_objects, __alloc_empty_sheaf
fn without_reclaim_or_reserves(gfp: Gfp) -> Gfp {
    (gfp - RECLAIM_OR_RESERVES) | Gfp::NORETRY | Gfp::NOMEMALLOC | Gfp::NOWARN
}

/// Links objects of one slab, which are to be freed to it, in their order.
#[inline(never)]
fn chain_of(cache: &Cache, neighbours: &[ObjectAddress]) -> Chain {
    let base = neighbours[0].slab(cache.layout.mask);
    // SAFETY: the caller owns the objects, which a flush has split off. All belong to this slab, and each occurs once.
    unsafe { Chain::build(base, neighbours.iter().copied(), cache.links) }
}
