//! Takeover of slabs: moving slabs from a CPU that owns them to its node.
//!
//! A CPU that has stopped allocating would keep its slabs, and the objects that other CPUs free into them, for ever.
//! Therefore its slabs are taken from it. If too many slabs wait for a CPU, the CPU that frees into one more takes the
//! waiting ones. All slabs are taken when the CPU is drained or goes offline, or when a cache is shrunk or destroyed.
//! After the CPU went offline, a CPU that pushes a slab onto its stack takes that slab too.
//!
//! Each slab is first disowned by a store, and then there is one fence. After it, no section on that CPU still uses the
//! old owner, so the slabs' own lists do not change any more. Objects that are freed meanwhile go onto the lists of
//! remote frees. No slab is lost: a disowned slab stays queued until it is deactivated. If the CPU does not answer the
//! fence, its disowned slabs are leaked, since the CPU may still use them.
//!
//! linux: mm/slub.c:flush_cpu_slab, deactivate_slab

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::SlabAllocator;
use super::cache::{Cache, Path};
use super::cpu::{CpuLocal, FenceOutcome, Slot};
use super::freelist::Chain;
use super::id::CacheId;
use super::partial::{CpuPartial, List, NodePartial, is_counted_waiting};
use super::slab::{Owner, Queue, Slab};
use super::word::{EMPTY, is_mark};
use crate::base::fault::{Fault, is_planted};
use crate::base::lock::Guard;
use crate::base::{CpuId, NodeId, Pfn};
use crate::platform::Platform;

const NIL: u32 = u32::MAX;

/// Error: a CPU does not answer the fence.
struct UnansweredFence;

/// Slabs that the caller disowned and holds, linked through their metadata. The platform may panic when pages are given
/// back. The remaining slabs then go to the node, and no more pages are given back.
pub(super) struct DisownedSlabs<'a, 's, 'm, P: Platform, C: CpuLocal> {
    allocator: &'a SlabAllocator<'s, 'm, P, C>,
    cache: &'a Cache,
    first: u32,
}

impl<P: Platform, C: CpuLocal> DisownedSlabs<'_, '_, '_, P, C> {
    /// Takes a slab from its owner, and adds it to these slabs.
    pub(super) fn disown(&mut self, pfn: Pfn) {
        let slab = self.allocator.map.slab(pfn);
        slab.disown();
        slab.next.store(self.first, Relaxed);
        self.first = pfn.raw();
    }

    /// Takes the slab that was added last, or returns `None` if there is none left.
    fn pop(&mut self) -> Option<Pfn> {
        let pfn = (self.first != NIL).then(|| Pfn::new(self.first))?;
        self.first = self.allocator.map.slab(pfn).next.load(Acquire);
        Some(pfn)
    }

    /// Takes the slabs that were added last and are adjacent, in either direction, or returns `None` if there is none
    /// left. Slabs of a checked cache are taken one by one, since each is checked before it is discarded.
    fn pop_adjacent(&mut self) -> Option<Range<Pfn>> {
        let pages = self.cache.layout.order.pages();
        let first = self.pop()?;
        let mut slabs = first..first.offset(pages);
        while self.first != NIL && !self.allocator.is_checked(self.cache) {
            let next = Pfn::new(self.first);
            if next.offset(pages) == slabs.start {
                slabs.start = next;
            } else if next == slabs.end {
                slabs.end = next.offset(pages);
            } else {
                break;
            }
            self.pop();
        }
        Some(slabs)
    }

    /// Discards all slabs, which are wholly free.
    pub(super) fn discard_all(&mut self) {
        while let Some(slabs) = self.pop_adjacent() {
            self.allocator.discard_slabs(self.cache, slabs);
        }
    }

    /// Leaks all slabs, since a section may still use them.
    fn leak(mut self) {
        self.first = NIL;
    }

    /// Deactivates each slab.
    fn deactivate_all(&mut self) {
        while let Some(pfn) = self.pop() {
            self.allocator.deactivate_slab(self.cache, pfn);
        }
    }
}

impl<P: Platform, C: CpuLocal> Drop for DisownedSlabs<'_, '_, '_, P, C> {
    fn drop(&mut self) {
        while let Some(pfn) = self.pop() {
            self.allocator.add_partial(self.cache, pfn);
        }
    }
}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Moves the slabs that wait on a CPU's stack to that CPU's list, on its behalf. Then moves slabs beyond the CPU's
    /// limits to the node ([`unlock_and_trim`](Self::unlock_and_trim)).
    pub(super) fn drain_waiting(&self, cpu: CpuId, cache: &Cache) {
        let cpu_partial = self.cpu_partial(cpu, cache.id);
        let guard = if is_planted(Fault::ClosedIsTried) { cpu_partial.try_lock() } else { Some(cpu_partial.lock()) };
        let Some(mut list) = guard else { return };
        self.flush_cpu_stack(cpu, cache.id, &mut list);
        self.unlock_and_trim(cpu, cache, list);
    }

    /// Counts a queued slab as waiting, if it is on its CPU's list. Moves slabs beyond the CPU's limits to the node
    /// ([`unlock_and_trim`](Self::unlock_and_trim)).
    pub(super) fn count_waiting(&self, cpu: CpuId, cache: &Cache, pfn: Pfn) {
        let slab = self.map.slab(pfn);
        let mut list = self.cpu_partial(cpu, cache.id).lock();
        // The slab may have been used since, or may have been moved to the node. If it is on the stack, it is counted
        // when it is moved to the list.
        if list.has(slab) && !is_counted_waiting(slab) && self.is_waiting(cache.id, slab) {
            list.remove(self.map, pfn);
            list.push_waiting(self.map, pfn);
        }
        self.unlock_and_trim(cpu, cache, list);
    }

    /// Returns whether a slab has remote frees that its owner has not taken yet.
    pub(super) fn is_waiting(&self, id: CacheId, slab: &Slab) -> bool {
        if self.hot(id).has_bits() { !slab.remote_bits().is_empty() } else { !slab.remote().is_empty() }
    }

    /// Puts a slab that the caller holds on its CPU's list. linux: mm/slub.c:put_cpu_partial
    pub(super) fn put_cpu_partial(&self, id: CacheId, pfn: Pfn, list: &mut List<CpuPartial>) {
        if self.is_waiting(id, self.map.slab(pfn)) {
            list.push_waiting(self.map, pfn);
        } else {
            list.push(self.map, pfn);
        }
    }

    /// Releases the lock of a CPU's slabs. Before that, slabs beyond the CPU's limits are moved to the node: waiting
    /// slabs, if there are too many; all slabs, if the CPU is offline, since it would not use them. The slab from which
    /// the CPU allocates stays, and so do all slabs of a CPU that is out of reach. Costs a fence if slabs are moved. If
    /// the CPU does not answer the fence, these slabs are leaked.
    pub(super) fn unlock_and_trim(&self, cpu: CpuId, cache: &Cache, mut list: Guard<'_, P::Lock, List<CpuPartial>>) {
        let surplus = match self.cpu_partial(cpu, cache.id).stack.is_closed() {
            true => list.len(),
            false if list.waiting() > cache.limits.cpu_waiting => list.waiting(),
            false => return,
        };
        if self.local.is_out_of_reach(cpu) {
            return;
        }
        let current = self.current(cache, cpu);
        let (mut disowned, mut kept) = (self.disowned_slabs(cache), None);
        for _ in 0..surplus {
            let Some(pfn) = list.last() else { break };
            list.remove(self.map, pfn);
            // The slab that the CPU allocates from stays, since it would be queued again at once.
            if current == Some(pfn) { kept = current } else { disowned.disown(pfn) }
        }
        if let Some(pfn) = kept {
            self.put_cpu_partial(cache.id, pfn, &mut list);
        }
        drop(list);
        if disowned.first != NIL {
            match self.fence(cpu) {
                FenceOutcome::Ended => disowned.deactivate_all(),
                FenceOutcome::Unanswered => disowned.leak(),
            }
        }
    }

    /// Returns an empty list of disowned slabs of a cache.
    pub(super) fn disowned_slabs<'a>(&'a self, cache: &'a Cache) -> DisownedSlabs<'a, 's, 'm, P, C> {
        DisownedSlabs { allocator: self, cache, first: NIL }
    }

    /// Takes all objects and slabs of a cache from a CPU, and gives them to its node or, beyond the node's limits, to
    /// the page allocator. A CPU on which no section ever runs has none, and cannot be fenced. A CPU that is out of
    /// reach keeps its slabs. linux: mm/slub.c:flush_cpu_slab
    pub(super) fn flush_cpu_slab(&self, cpu: CpuId, cache: &Cache) {
        if cpu.0 >= self.local.cpus() || self.local.is_out_of_reach(cpu) {
            return;
        }
        if self.path(cache) == Path::Sheaves {
            return self.pcs_flush_all_cpu(cpu, cache);
        }
        let mut disowned = self.disowned_slabs(cache);
        let mut list = self.cpu_partial(cpu, cache.id).lock();
        self.flush_cpu_stack(cpu, cache.id, &mut list);
        while let Some(pfn) = list.first() {
            list.remove(self.map, pfn);
            disowned.disown(pfn);
        }
        let taken = self.take_cpu_freelist(cpu, cache, &mut disowned);
        drop(list);
        let Ok(freelist) = taken else { return disowned.leak() };
        if let Some((pfn, head)) = freelist {
            self.free_cpu_freelist(cache, pfn, head);
        }
        disowned.deactivate_all();
    }

    /// Waits for all sections on a CPU that may have read the owner of a disowned slab.
    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        if is_planted(Fault::DisownsUnfenced) { FenceOutcome::Ended } else { self.local.fence(cpu) }
    }

    /// Takes a CPU's list of objects, and returns it with its slab, or `None` if the CPU allocates from no slab. The
    /// caller holds the lock of the CPU's slabs. After this call, no section uses slabs that were disowned before it.
    ///
    /// # Errors
    /// If the CPU does not answer the fence, in which case its slabs may still change.
    fn take_cpu_freelist(
        &self,
        cpu: CpuId,
        cache: &Cache,
        disowned: &mut DisownedSlabs<'_, '_, '_, P, C>,
    ) -> Result<Option<(Pfn, u64)>, UnansweredFence> {
        if self.path(cache) == Path::Checked {
            return Ok(None);
        }
        let slot = self.slot(cpu, cache.id);
        // After a stray write to a link, a list may end in any address, so another CPU's slab is not used.
        let current = self.current(cache, cpu).filter(|&pfn| match self.owner_in(cache, pfn) {
            Some(Owner::Cpu(owner)) => owner == cpu,
            Some(Owner::Node) => true,
            None => false,
        });
        if let Some(pfn) = current {
            // If this CPU sets the bit, it holds the slab. If the bit is set already, another CPU holds the slab or is
            // about to push it onto this CPU's stack. The slab then stays with its owner, and the objects taken from
            // the slot are freed remotely.
            if self.map.slab(pfn).queue() == Queue::Push {
                disowned.disown(pfn);
            }
        }
        let head = self.drain_slot(cpu, cache, slot)?;
        debug_assert!(current.is_some() || head == EMPTY, "a CPU has a list without a slab");
        Ok(current.map(|pfn| (pfn, head)))
    }

    /// Empties a CPU's slot, and returns the list that was in it, or [`EMPTY`] under `bitmap`, where slots have no
    /// lists.
    ///
    /// # Errors
    /// If the CPU does not answer the fence.
    fn drain_slot(&self, cpu: CpuId, cache: &Cache, slot: Slot<'_>) -> Result<u64, UnansweredFence> {
        match self.path(cache) {
            // The slot only names a slab, whose free objects are in the slab's own word. Only the holder of the lock
            // makes the slot name another slab.
            Path::Bitmap => slot.main.store(self.no_list(self.path(cache)), Release),
            Path::Tagged => {}
            _ => slot.paired.store(0, Release),
        }
        match self.fence(cpu) {
            FenceOutcome::Unanswered => Err(UnansweredFence),
            FenceOutcome::Ended if self.path(cache) == Path::Bitmap => Ok(EMPTY),
            FenceOutcome::Ended => Ok(self.local.drain(cpu, slot, EMPTY)),
        }
    }

    /// Returns the list of a CPU's former current slab to that slab by a remote free.
    fn free_cpu_freelist(&self, cache: &Cache, pfn: Pfn, head: u64) {
        if is_mark(head) {
            return;
        }
        // SAFETY: the list was drained from the slot, so it belongs to the caller.
        let chain = unsafe { Chain::count(head, cache.layout.objects, cache.links) };
        let last = chain.last(cache.links);
        self.free_chain_remote(cache, pfn, chain, last);
    }

    /// Gives back every wholly free slab of all nodes. Slabs and sheaves of CPUs and barns are not changed, so no CPU
    /// is fenced. For callers that want to give back memory in larger pieces, which a single such slab prevents.
    pub fn shrink_nodes(&self) {
        for cache in self.each_cache() {
            self.node_ids().for_each(|node| self.shrink_node(node, &cache));
        }
    }

    /// Gives back every wholly free slab of a node. Costs a look at each slab on the node's list, under the list's
    /// lock.
    pub(super) fn shrink_node(&self, node: NodeId, cache: &Cache) {
        let mut list = self.node_partial(node, cache.id).lock();
        self.flush_node_stack(node, cache.id, &mut list);
        self.discard_listed(cache, list, u32::MAX, |pfn| self.is_wholly_free(cache, pfn));
    }

    /// Gives back up to `most` slabs of a node's list that `is_free` finds to be wholly free. Looks at the slabs of the
    /// list up to the last of these.
    pub(super) fn discard_listed(
        &self,
        cache: &Cache,
        mut list: Guard<'_, P::Lock, List<NodePartial>>,
        most: u32,
        is_free: impl Fn(Pfn) -> bool,
    ) {
        let (mut disowned, mut left) = (self.disowned_slabs(cache), most);
        let mut next = list.first();
        while let Some(pfn) = next.filter(|_| left > 0) {
            next = list.after(self.map, pfn);
            if is_free(pfn) {
                list.remove(self.map, pfn);
                disowned.disown(pfn);
                left -= 1;
            }
        }
        drop(list);
        disowned.discard_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
