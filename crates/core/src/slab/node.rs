//! A node's slabs, which nobody owns; new slabs, and the end of slabs.
//!
//! While nobody owns a slab, its own list is changed by its holder only. So the CPU that frees its last object in
//! use sees it by the count, and looks under the node's lock whether the slab can go.

use super::address::{ObjectAddress, SlabAddress};
use super::cache::Cache;
use super::cpu::CpuLocal;
use super::freelist::Chain;
use super::id::CacheId;
use super::mix::mixed;
use super::partial::{List, OfNode};
use super::slab::Owner;
use super::word::Local;
use super::{ObjectError, SlabAllocator, map};
use crate::base::fault::{Fault, is_planted};
use crate::base::{Gfp, NodeId, Pfn};
use crate::platform::Platform;
use crate::policy::slab::SlabOrder;
use core::sync::atomic::Ordering::Relaxed;

/// Flags of a request for an object that say nothing about its slab, or must not: objects do not move, and a cache has
/// memory of its own kind. linux: mm/internal.h:GFP_SLAB_BUG_MASK
const NOT_FOR_SLABS: Gfp =
    Gfp::ZERO.union(Gfp::MOVABLE).union(Gfp::RECLAIMABLE).union(Gfp::HIGHMEM).union(Gfp::DMA32).union(Gfp::DMA);

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

    /// Brings home what waits on a node's stack. Nobody owns it: a slab's owner changes in the hands of its holder, and
    /// that was the CPU that pushed it.
    pub(super) fn bring_home_to_node(&self, node: NodeId, id: CacheId, list: &mut List<OfNode>) {
        for pfn in self.of_node(node, id).stack.take(self.map) {
            debug_assert_eq!(self.map.slab(pfn).owner(), Owner::Nobody, "a slab of a CPU waits for that CPU");
            list.push(self.map, pfn);
        }
    }

    /// Whether all objects of a slab that nobody owns are free. The caller holds it.
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
        Chain { head: local.list(), len: cache.layout.objects - local.used() }
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

    /// A slab of new pages: nobody's, queued by name, and in the caller's hands.
    ///
    /// linux: mm/slub.c:allocate_slab
    pub(super) fn new_slab(&self, cache: &Cache, gfp: Gfp, node: NodeId) -> Result<Pfn, ObjectError> {
        let gfp = (gfp - NOT_FOR_SLABS) | cache.gfp | Gfp::COMP | Gfp::NOWARN;
        let order = cache.layout.order;
        let pfn = self.pages.alloc_slab_pages(node, gfp, order).map_err(ObjectError::Pages)?;
        if !self.map.has(pfn, order) {
            let _freed = self.pages.free_slab_pages(pfn, order);
            return Err(ObjectError::Pages(crate::page::AllocError::OutOfMemory));
        }
        let (slab, base) = (self.map.slab(pfn), self.map.slab_address(pfn));
        let pages = Unprepared(|| _ = self.pages.free_slab_pages(pfn, order));
        self.prepare(cache, base);
        core::mem::forget(pages);
        if cache.has_bits {
            slab.init_bits(cache.layout.all_bits());
        } else {
            slab.init(base, cache.layout.objects);
            let chain = self.first_chain(cache, base);
            slab.set_local(Local::new(chain.head, cache.layout.objects - chain.len));
        }
        self.map.set_kind(pfn, order.pages(), cache.id);
        self.counts[cache.id.index()].fetch_add(1, Relaxed);
        Ok(pfn)
    }

    /// Has the objects of a new slab prepared.
    fn prepare(&self, cache: &Cache, base: SlabAddress) {
        if cache.is_checked() {
            self.prepare_checked(cache, base);
        }
        let Some(prepare) = cache.constructor else { return };
        for object in cache.layout.objects_of(base) {
            prepare(core::ptr::NonNull::new(object.as_ptr()).expect("no object is at address 0"));
        }
    }

    /// All objects of a new slab, linked.
    fn first_chain(&self, cache: &Cache, base: SlabAddress) -> Chain {
        let objects = cache.layout.objects_of(base);
        if cache.order == SlabOrder::Address {
            // SAFETY: the pages are new, and hold these objects, each named once.
            return unsafe { Chain::build(base, objects, cache.links) };
        }
        let (turn, size, count) = (self.turn(cache), u64::from(cache.layout.size), u64::from(cache.layout.objects));
        let first = base.get() + u64::from(cache.layout.first);
        let objects = (0..count).map(|at| ObjectAddress::new(first + shuffled(at, count, turn) * size));
        // SAFETY: likewise; a shuffle names each place once.
        unsafe { Chain::build(base, objects, cache.links) }
    }

    /// A number that is hard to guess for each slab.
    fn turn(&self, cache: &Cache) -> u64 {
        mixed(cache.secret ^ self.turns.fetch_add(1, Relaxed))
    }

    /// Gives a slab's pages back: it is wholly free, on no list and no stack, and in the caller's hands.
    ///
    /// linux: mm/slub.c:__free_slab
    pub(super) fn discard(&self, cache: &Cache, pfn: Pfn) {
        if !self.may_go(cache, pfn) {
            return;
        }
        debug_assert!(self.is_wholly_free(cache, pfn), "no object of a slab that goes is in use");
        let order = cache.layout.order;
        self.map.set_kind(pfn, order.pages(), map::NONE);
        self.counts[cache.id.index()].fetch_sub(1, Relaxed);
        let freed = self.pages.free_slab_pages(pfn, order);
        debug_assert!(freed.is_ok(), "a slab's pages are ours: {freed:?}");
    }
}

/// Gives a new slab's pages back if its constructor panics.
struct Unprepared<F: FnMut()>(F);

impl<F: FnMut()> Drop for Unprepared<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// The place of the object handed out at `at`, of `count`: a walk in steps that share no divisor with the count, so
/// that each place is met once, from a start that is hard to guess; no memory is needed for it.
fn shuffled(at: u64, count: u64, turn: u64) -> u64 {
    let mut step = (turn >> 32) % count;
    while common_divisor(step, count) != 1 {
        step += 1;
    }
    ((turn & u64::from(u32::MAX)) + at * step) % count
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_names_each_place_once() {
        for count in [1, 2, 7, 16, 512] {
            for turn in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
                let mut seen = [false; 512];
                (0..count).for_each(|at| seen[shuffled(at, count, turn) as usize] = true);
                assert!(seen[..count as usize].iter().all(|seen| *seen), "{count} {turn:#x}");
            }
        }
    }
}
