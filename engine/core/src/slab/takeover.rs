//! Slabs change hands: from a CPU to its node.
//!
//! A CPU that has stopped allocating would keep its slabs, and what others free into them, for ever. So its slabs are
//! taken from it: those that others freed into by the CPU that frees into one too many, and all of them when it goes
//! offline, or when a cache is shrunk or destroyed. After it went offline, a CPU that leaves a slab with it sees to
//! that slab.
//!
//! First each slab is disowned by a store, then there is one fence: after it no section on that CPU is left that still
//! saw the owner, so the slabs' own lists lie still. What is freed meanwhile goes onto the lists for all others.
//! Nothing is lost: a slab in hand stays queued, and finds its place when it is settled. Where the CPU does not answer
//! the fence, the slabs in hand are left alone for ever: it may be using them.

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::SlabAllocator;
use super::cache::{Cache, Path};
use super::cpu::{CpuLocal, Fenced, Slot};
use super::freelist::Chain;
use super::id::CacheId;
use super::partial::{List, OfCpu, is_counted_waiting};
use super::slab::{Owner, Queue, Slab};
use super::word::{EMPTY, is_mark};
use crate::base::fault::{Fault, is_planted};
use crate::base::lock::Guard;
use crate::base::{CpuId, NodeId, Pfn};
use crate::platform::Platform;

const NIL: u32 = u32::MAX;

/// A CPU does not answer the fence.
struct Unanswered;

/// Slabs that the caller disowned and has in hand, linked through their metadata. A platform may panic when pages are
/// given back; then the node has the slabs that were not on their way, and no more pages go.
pub(super) struct Disowned<'a, 's, 'm, P: Platform, C: CpuLocal> {
    allocator: &'a SlabAllocator<'s, 'm, P, C>,
    cache: &'a Cache,
    first: u32,
}

impl<P: Platform, C: CpuLocal> Disowned<'_, '_, '_, P, C> {
    /// Takes a slab from who owns it.
    pub(super) fn disown(&mut self, pfn: Pfn) {
        let slab = self.allocator.map.slab(pfn);
        slab.disown();
        slab.next.store(self.first, Relaxed);
        self.first = pfn.raw();
    }

    /// The slab that came last.
    fn pop(&mut self) -> Option<Pfn> {
        let pfn = (self.first != NIL).then(|| Pfn::new(self.first))?;
        self.first = self.allocator.map.slab(pfn).next.load(Acquire);
        Some(pfn)
    }

    /// Those that came last and lie side by side, whichever way they came. Slabs of a checked cache come one by one,
    /// since each is looked at before it goes.
    fn pop_side_by_side(&mut self) -> Option<Range<Pfn>> {
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

    /// Gives the pages of each back: all are wholly free.
    pub(super) fn discard(&mut self) {
        while let Some(slabs) = self.pop_side_by_side() {
            self.allocator.discard_side_by_side(self.cache, slabs);
        }
    }

    /// Leaves them alone for ever: a section may be under way that knows them.
    fn lose(mut self) {
        self.first = NIL;
    }

    /// Each goes to the node, or where the node has no use for it.
    fn settle(&mut self) {
        while let Some(pfn) = self.pop() {
            self.allocator.settle(self.cache, pfn);
        }
    }
}

impl<P: Platform, C: CpuLocal> Drop for Disowned<'_, '_, '_, P, C> {
    fn drop(&mut self) {
        while let Some(pfn) = self.pop() {
            self.allocator.give_to_node(self.cache, pfn);
        }
    }
}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Looks at what waits on a CPU's stack, for that CPU.
    pub(super) fn relieve(&self, cpu: CpuId, cache: &Cache) {
        let of_cpu = self.of_cpu(cpu, cache.id);
        let list = if is_planted(Fault::ClosedIsTried) { of_cpu.try_lock() } else { Some(of_cpu.lock()) };
        let Some(mut list) = list else { return };
        self.bring_home(cpu, cache.id, &mut list);
        self.leave(cpu, cache, list);
    }

    /// Counts a slab that is queued among those that others freed into, if it is on its CPU's list.
    pub(super) fn count_waiting(&self, cpu: CpuId, cache: &Cache, slab: &Slab) {
        let mut list = self.of_cpu(cpu, cache.id).lock();
        // It may have been used since, or have gone to the node. On the stack it is counted when it is brought home.
        if list.has(slab) && !is_counted_waiting(slab) && self.is_waiting(cache.id, slab) {
            let pfn = self.map.pfn_of(slab);
            list.remove(self.map, pfn);
            list.push_waiting(self.map, pfn);
        }
        self.leave(cpu, cache, list);
    }

    /// Whether others freed into a slab since its owner took what they had.
    pub(super) fn is_waiting(&self, id: CacheId, slab: &Slab) -> bool {
        if self.hot(id).has_bits() { !slab.remote_bits().is_empty() } else { !slab.remote().is_empty() }
    }

    /// Puts a slab that the caller holds on its CPU's list.
    pub(super) fn keep(&self, id: CacheId, pfn: Pfn, list: &mut List<OfCpu>) {
        if self.is_waiting(id, self.map.slab(pfn)) {
            list.push_waiting(self.map, pfn);
        } else {
            list.push(self.map, pfn);
        }
    }

    /// Opens the lock of a CPU's slabs. The node first gets what is too much for the CPU: those that wait, if they are
    /// more than may; all, if it is offline, since nobody would look at them.
    pub(super) fn leave(&self, cpu: CpuId, cache: &Cache, mut list: Guard<'_, P::Lock, List<OfCpu>>) {
        let surplus = match self.of_cpu(cpu, cache.id).stack.is_closed() {
            true => list.len(),
            false if list.waiting() > cache.limits.cpu_waiting => list.waiting(),
            false => return,
        };
        if self.local.is_out_of_reach(cpu) {
            return;
        }
        let current = self.current(cache, cpu);
        let (mut hand, mut kept) = (self.disowned(cache), None);
        for _ in 0..surplus {
            let Some(pfn) = list.last() else { break };
            list.remove(self.map, pfn);
            // The one it allocates from stays: it would come back at once.
            if current == Some(pfn) { kept = current } else { hand.disown(pfn) }
        }
        if let Some(pfn) = kept {
            self.keep(cache.id, pfn, &mut list);
        }
        drop(list);
        if hand.first != NIL {
            match self.fence(cpu) {
                Fenced::Ended => hand.settle(),
                Fenced::Unanswered => hand.lose(),
            }
        }
    }

    /// No slabs of a cache yet.
    pub(super) fn disowned<'a>(&'a self, cache: &'a Cache) -> Disowned<'a, 's, 'm, P, C> {
        Disowned { allocator: self, cache, first: NIL }
    }

    /// Takes everything of a cache from a CPU. One on which no section runs has nothing, and nobody can be waited for
    /// there; one that is out of reach keeps what it has.
    pub(super) fn take_all(&self, cpu: CpuId, cache: &Cache) {
        if cpu.0 >= self.local.cpus() || self.local.is_out_of_reach(cpu) {
            return;
        }
        if self.path(cache) == Path::Sheaves {
            return self.take_sheaves(cpu, cache);
        }
        let mut hand = self.disowned(cache);
        let mut list = self.of_cpu(cpu, cache.id).lock();
        self.bring_home(cpu, cache.id, &mut list);
        while let Some(pfn) = list.first() {
            list.remove(self.map, pfn);
            hand.disown(pfn);
        }
        let taken = self.take_list(cpu, cache, &mut hand);
        drop(list);
        let Ok(taken) = taken else { return hand.lose() };
        if let Some((pfn, head)) = taken {
            self.settle_list(cache, pfn, head);
        }
        hand.settle();
    }

    /// Waits for sections that know what was disowned.
    fn fence(&self, cpu: CpuId) -> Fenced {
        if is_planted(Fault::DisownsUnfenced) { Fenced::Ended } else { self.local.fence(cpu) }
    }

    /// Takes a CPU's list, and says of which slab it is; the caller has the lock of its slabs. What was disowned before
    /// lies still after it.
    ///
    /// # Errors
    /// If the CPU does not answer: nothing lies still then.
    fn take_list(
        &self,
        cpu: CpuId,
        cache: &Cache,
        hand: &mut Disowned<'_, '_, '_, P, C>,
    ) -> Result<Option<(Pfn, u64)>, Unanswered> {
        if self.path(cache) == Path::Checked {
            return Ok(None);
        }
        let slot = self.slot(cpu, cache.id);
        // A stray write to a link can have a list end anywhere: another CPU's slab is not believed.
        let is_ours = |pfn: &Pfn| {
            let owner = self.map.slab(*pfn).owner();
            self.map.kind(*pfn) == cache.id && (owner == Owner::Nobody || owner == Owner::Cpu(cpu))
        };
        let current = self.current(cache, cpu).filter(is_ours);
        if let Some(pfn) = current {
            // The CPU that sets the bit holds the slab. If it is set, the slab is in hand already, or some CPU is about
            // to push it onto this CPU's stack: then it stays the CPU's, and what is taken from it waits there.
            if self.map.slab(pfn).queue() == Queue::Push {
                hand.disown(pfn);
            }
        }
        let head = self.drain_slot(cpu, cache, slot)?;
        debug_assert!(current.is_some() || head == EMPTY, "a list is of a slab");
        Ok(current.map(|pfn| (pfn, head)))
    }

    /// Empties a CPU's slot: the list that was in it.
    fn drain_slot(&self, cpu: CpuId, cache: &Cache, slot: Slot<'_>) -> Result<u64, Unanswered> {
        match self.path(cache) {
            // Its objects are the slab's own, and only the holder of the lock makes it name another slab.
            Path::Bitmap => slot.main.store(self.no_list(self.path(cache)), Release),
            Path::Tagged => {}
            _ => slot.paired.store(0, Release),
        }
        match self.fence(cpu) {
            Fenced::Unanswered => Err(Unanswered),
            Fenced::Ended if self.path(cache) == Path::Bitmap => Ok(EMPTY),
            Fenced::Ended => Ok(self.local.drain(cpu, slot, EMPTY)),
        }
    }

    /// The list of a slab that was a CPU's current one goes back as if freed from elsewhere: the slab is queued.
    fn settle_list(&self, cache: &Cache, pfn: Pfn, head: u64) {
        if is_mark(head) {
            return;
        }
        // SAFETY: a drained list is the caller's.
        let chain = unsafe { Chain::counted(head, cache.layout.objects, cache.links) };
        let last = chain.last(cache.links);
        self.free_chain_remote(cache, self.map.slab(pfn), chain, last);
    }

    /// Gives every slab back that is wholly free and a node's; what CPUs and barns have stays theirs, so nothing is
    /// fenced. For memory that is to go back in larger pieces, which a single such slab prevents.
    pub fn shrink_nodes(&self) {
        for cache in self.each_cache() {
            (0..self.pages.nodes()).for_each(|node| self.shrink_node(NodeId(node), &cache));
        }
    }

    /// Gives back every wholly free slab of a node. Costs a look at each of its slabs that is not used up.
    pub(super) fn shrink_node(&self, node: NodeId, cache: &Cache) {
        let mut hand = self.disowned(cache);
        let mut list = self.of_node(node, cache.id).lock();
        self.bring_home_to_node(node, cache.id, &mut list);
        let mut next = list.first();
        while let Some(pfn) = next {
            let slab = self.map.slab(pfn);
            let after = slab.next.load(Relaxed);
            next = (after != NIL).then(|| Pfn::new(after));
            if self.is_wholly_free(cache, pfn) {
                list.remove(self.map, pfn);
                hand.disown(pfn);
            }
        }
        drop(list);
        hand.discard();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
