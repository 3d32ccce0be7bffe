//! Refill of a CPU's list that is used up. The CPU looks for free objects in this order:
//!
//! 1. Remote frees of the slab that the CPU has just used up. If there are none, the CPU stops allocating from that
//!    slab. The CPU still owns the slab, and the first free into it queues it again.
//! 2. The CPU's other slabs that have free objects.
//! 3. The node's slabs, which have no owner. The CPU owns the slab from then on.
//! 4. New pages ([`grow`](SlabAllocator::grow)), which are allocated with no lock held.
//!
//! The first three steps hold the lock of this CPU's slabs of the cache, so that only sections that began before can
//! still change the CPU's list. The lock does not keep the caller on the CPU, though. Therefore each step that changes
//! words which only the CPU's sections may write is a section itself, and fails if the caller has been moved. Objects
//! that the caller has taken by then are returned to their slab as remote frees, which any CPU may do.
//!
//! linux: mm/slub.c:___slab_alloc

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::cache::{Cache, Path};
use super::cpu::{CpuLocal, Exchange, ExchangeOutcome};
use super::freelist::Chain;
use super::id::CacheId;
use super::partial::{CpuPartial, List};
use super::slab::{Owner, Queue};
use super::word::{Local, end_mark, is_mark};
use super::{ObjectError, SlabAllocator};
use crate::base::{CpuId, Gfp, Pfn};
use crate::platform::Platform;

/// Result of a refill of a CPU's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefillOutcome {
    /// The list may have objects now, and the caller tries again.
    Again,
    /// Neither the CPU nor its node has a slab with free objects.
    Nothing,
}

/// Result of an attempt to allocate from a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlabOutcome {
    /// The CPU allocates from the slab, or the state has changed: the caller looks again.
    Again,
    /// The slab that was taken has no free object.
    Exhausted,
}

/// Target of a refill: a CPU's slot of a cache, and the word that was read from it.
#[derive(Clone, Copy)]
pub(super) struct RefillTarget<'a> {
    pub cpu: CpuId,
    pub cache: &'a Cache,
    pub seen: u64,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Refills this CPU's list, unless it has objects by now. Under `bitmap`, the CPU's slot gets a slab instead of a
    /// list. Takes no new pages.
    pub(super) fn refill(&self, cache: &Cache) -> RefillOutcome {
        let cpu = self.local.cpu();
        let mut list = self.cpu_partial(cpu, cache.id).lock();
        let refilled = self.refill_from(cpu, cache, &mut list);
        self.unlock_and_trim(cpu, cache, list);
        refilled
    }

    fn refill_from(&self, cpu: CpuId, cache: &Cache, list: &mut List<CpuPartial>) -> RefillOutcome {
        let seen = self.slot(cpu, cache.id).main.load(Acquire);
        if self.has_objects(cache, seen) {
            return RefillOutcome::Again;
        }
        let at = RefillTarget { cpu, cache, seen };
        // After a stray write to a link, a list may end in any address, so the slab is used only if this CPU owns it.
        let current = self.current(cache, cpu);
        if let Some(slab) = current.filter(|&pfn| self.owner_in(cache, pfn) == Some(Owner::Cpu(cpu)))
            && self.use_current(at, slab, list) == SlabOutcome::Again
        {
            return RefillOutcome::Again;
        }
        self.flush_cpu_stack(cpu, cache.id, list);
        // Waiting slabs are used first, since remote frees must not wait longer than the rest. The slab that has waited
        // longest has the most objects.
        while let Some(pfn) = list.last().filter(|_| list.waiting() > 0).or_else(|| list.first()) {
            list.remove(self.map, pfn);
            if self.use_own(at, pfn, list) == SlabOutcome::Again {
                return RefillOutcome::Again;
            }
        }
        self.use_node_slabs(at, list)
    }

    /// Returns the slab that a CPU's list belongs to, from which the CPU allocates. Returns `None` if there is none,
    /// and always with sheaves and for checked caches. The caller has the lock of the CPU's slabs.
    pub(super) fn current(&self, cache: &Cache, cpu: CpuId) -> Option<Pfn> {
        let slot = self.slot(cpu, cache.id);
        let address = match self.path(cache) {
            Path::Tagged => cache.layout.mask.slab_around(slot.main.load(Acquire)).get(),
            Path::PageField | Path::PageFieldGuarded => slot.paired.load(Acquire),
            Path::Bitmap => return self.map.pfn_by_word(slot.main.load(Acquire)),
            Path::Sheaves | Path::Checked => 0,
        };
        self.map.pfn(address)
    }

    /// Returns whether the word of a CPU's slot has free objects.
    fn has_objects(&self, cache: &Cache, seen: u64) -> bool {
        match self.path(cache) {
            Path::Bitmap => !self.map.slab_by_word(seen).bits().is_empty(),
            _ => !is_mark(seen),
        }
    }

    /// Makes the free objects of the slab that has just been used up, its own list and its remote frees, this CPU's
    /// list. Returns [`Exhausted`](SlabOutcome::Exhausted) if there are none. The slab stays queued or not as before.
    fn use_current(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, .. } = at;
        if self.path(cache) == Path::Bitmap {
            return self.use_current_bits(at, pfn, list);
        }
        let slab = self.map.slab(pfn);
        let base = self.map.slab_address(pfn);
        let Ok(own) = self.take_local(cpu, cache, pfn) else { return SlabOutcome::Again };
        let chain = own.concat(slab.take_remote(base), cache.links);
        self.publish(at, pfn, chain, list)
    }

    /// Makes the free objects of a slab of this CPU, which was taken off the CPU's list of slabs, the CPU's list of
    /// objects. Returns [`Exhausted`](SlabOutcome::Exhausted) if there are none; the slab is not queued then. If the
    /// caller was moved to another CPU, the slab is queued again.
    fn use_own(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, .. } = at;
        if self.path(cache) == Path::Bitmap {
            return self.use_own_bits(at, pfn, list);
        }
        let slab = self.map.slab(pfn);
        // The queued bit is cleared before the slab's own list is taken: a free in between queues the slab again.
        let remote = slab.take_remote_unqueued(self.map.slab_address(pfn));
        match self.take_local(cpu, cache, pfn) {
            Ok(own) => {
                let chain = own.concat(remote, cache.links);
                self.publish(at, pfn, chain, list)
            }
            Err(_moved) => {
                self.return_chain(at, pfn, remote, list);
                SlabOutcome::Again
            }
        }
    }

    /// Takes slabs off the node's list until one can be used. This CPU owns that slab from then on.
    fn use_node_slabs(&self, at: RefillTarget<'_>, list: &mut List<CpuPartial>) -> RefillOutcome {
        let node = self.pages.node_of(at.cpu);
        loop {
            let Some(pfn) = self.get_partial_node(node, at.cache.id) else { return RefillOutcome::Nothing };
            if self.use_unowned(at, pfn, list) == SlabOutcome::Again {
                return RefillOutcome::Again;
            }
        }
    }

    /// Makes this CPU the owner of a slab that the caller holds and that no CPU owns, and uses the slab as
    /// [`use_own`](Self::use_own) does. If the caller was moved to another CPU, the slab goes to its node.
    fn use_unowned(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, .. } = at;
        let slab = self.map.slab(pfn);
        let mine = Exchange::new(&slab.owner, slab.owner.load(Relaxed), Owner::Cpu(cpu).raw());
        if self.local.replace_if(cpu, mine) == ExchangeOutcome::Done {
            // Only a slab with an owner may be held without being queued. Otherwise a remote free would queue it, and
            // hand it to the next CPU that looks.
            return self.use_own(at, pfn, list);
        }
        self.add_partial(cache, pfn);
        SlabOutcome::Again
    }

    /// Takes a slab's own list, on its owner's CPU.
    ///
    /// # Errors
    /// If the caller does not run on that CPU any more.
    pub(super) fn take_local(&self, cpu: CpuId, cache: &Cache, pfn: Pfn) -> Result<Chain, ExchangeOutcome> {
        let (slab, base) = (self.map.slab(pfn), self.map.slab_address(pfn));
        let nothing = Local::new(end_mark(base), cache.layout.objects);
        loop {
            let local = slab.local();
            if local == nothing {
                return Ok(Chain::empty(base));
            }
            match self.local.replace_if(cpu, Exchange::new(&slab.local, local.raw(), nothing.raw())) {
                ExchangeOutcome::Done => {
                    let head = local.list(base.get());
                    return Ok(Chain { head, len: cache.layout.objects - local.used() });
                }
                ExchangeOutcome::Changed => {}
                ExchangeOutcome::Moved => return Err(ExchangeOutcome::Moved),
            }
        }
    }

    /// Makes a chain this CPU's list, if the caller still runs on the CPU and the CPU's list still is the one without
    /// objects that was read before. Otherwise returns the objects to their slab. Returns
    /// [`Exhausted`](SlabOutcome::Exhausted) if the chain is empty.
    fn publish(&self, at: RefillTarget<'_>, pfn: Pfn, chain: Chain, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, seen } = at;
        if chain.is_empty() {
            return SlabOutcome::Exhausted;
        }
        let slot = self.slot(cpu, cache.id);
        let mut exchange = Exchange::new(slot.main, seen, chain.head);
        if self.path(cache) != Path::Tagged {
            // There are two words to write: the list stays a mark until the second word names the new slab.
            let (of, now) = (slot.paired.load(Acquire), self.map.address(pfn));
            if of != now {
                let turned = Exchange::new(slot.paired, of, now).with_witness(slot.main, seen);
                if self.local.replace_if(cpu, turned) != ExchangeOutcome::Done {
                    self.return_chain(at, pfn, chain, list);
                    return SlabOutcome::Again;
                }
            }
            exchange = exchange.with_witness(slot.paired, now);
        }
        if self.local.replace_if(cpu, exchange) != ExchangeOutcome::Done {
            self.return_chain(at, pfn, chain, list);
        }
        SlabOutcome::Again
    }

    /// Returns a chain to a slab of the target CPU as a remote free, and puts the slab on that CPU's list unless it is
    /// queued. May run on any CPU.
    fn return_chain(&self, at: RefillTarget<'_>, pfn: Pfn, chain: Chain, list: &mut List<CpuPartial>) {
        let (slab, links) = (self.map.slab(pfn), at.cache.links);
        let queue = if chain.is_empty() {
            slab.queue()
        } else {
            let last = chain.last(links);
            slab.push_remote(chain, last, links).1
        };
        if queue == Queue::Push {
            self.put_cpu_partial(at.cache.id, pfn, list);
        }
    }

    /// Moves the slabs on a CPU's stack to the CPU's list. The CPU owns all of them: only the holder of a slab changes
    /// its owner, and the CPU that pushed the slab was its holder.
    pub(super) fn flush_cpu_stack(&self, cpu: CpuId, id: CacheId, list: &mut List<CpuPartial>) {
        for pfn in self.cpu_partial(cpu, id).stack.take(self.map) {
            debug_assert_eq!(self.map.slab(pfn).owner(), Owner::Cpu(cpu), "a slab on a CPU's stack has another owner");
            self.put_cpu_partial(id, pfn, list);
        }
    }

    /// Makes a slab of new pages, and gives it to this CPU. The slab goes to its node instead if the CPU's list has
    /// objects by now, or if the caller was moved to another CPU.
    ///
    /// # Errors
    /// If there are no pages.
    pub(super) fn grow(&self, cache: &Cache, gfp: Gfp) -> Result<(), ObjectError> {
        let cpu = self.local.cpu();
        let pfn = self.new_slab(cache, gfp, self.pages.node_of(cpu))?;
        let mut list = self.cpu_partial(cpu, cache.id).lock();
        let seen = self.slot(cpu, cache.id).main.load(Acquire);
        if self.has_objects(cache, seen) || self.path(cache) == Path::Checked {
            self.add_partial(cache, pfn);
            return Ok(());
        }
        // The slab that was used up may have free objects by now. It keeps them, and is queued.
        let used = self.use_unowned(RefillTarget { cpu, cache, seen }, pfn, &mut list);
        debug_assert!(used == SlabOutcome::Again, "a new slab has no objects");
        self.unlock_and_trim(cpu, cache, list);
        Ok(())
    }
}
