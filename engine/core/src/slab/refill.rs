//! A CPU whose list has run out looks for a slab: nearest first.
//!
//! 1. What others freed into the slab it has just used up. Only when that is nothing is the slab let go; it stays the
//!    CPU's, and is queued again by the first free into it.
//! 2. Its other slabs that have free objects.
//! 3. The node's slabs, which nobody owns: it owns the slab from then on.
//! 4. New pages ([`grow`](SlabAllocator::grow)), with no lock held.
//!
//! All of it happens under the lock of this CPU's slabs of the cache, so that only sections that began before can still
//! change the CPU's list. The lock binds no one to the CPU, though: each step that touches what only the CPU's sections
//! may write is a section itself, and says so if the caller has been moved. Objects in hand then go back to their slab
//! the way that is open to everybody, as if they were freed from elsewhere.
//!
//! linux: mm/slub.c:___slab_alloc

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::cache::{Cache, Path};
use super::cpu::{CpuLocal, Exchange, ExchangeOutcome};
use super::freelist::Chain;
use super::id::CacheId;
use super::partial::{CpuPartial, List};
use super::slab::{Owner, Queue, Slab};
use super::word::{Local, end_mark, is_mark};
use super::{ObjectError, SlabAllocator};
use crate::base::{CpuId, Gfp, Pfn};
use crate::platform::Platform;

/// Result of a refill of a CPU's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefillOutcome {
    /// The list may have objects now; the caller tries again.
    Again,
    /// Neither the CPU nor its node has a slab with free objects.
    Nothing,
}

/// Result of an attempt to allocate from a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlabOutcome {
    /// The CPU allocates from it, or somebody else does something better: look again.
    Again,
    /// The slab that was taken had no free object after all.
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
    /// Gives this CPU's list objects, unless it has some by now.
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
        // A stray write to a link can have a list end anywhere: only a slab of this CPU is believed.
        let current = self.current(cache, cpu);
        if let Some(slab) = current.filter(|&pfn| self.owner_in(cache, pfn) == Some(Owner::Cpu(cpu)))
            && self.use_current(at, slab, list) == SlabOutcome::Again
        {
            return RefillOutcome::Again;
        }
        self.flush_cpu_stack(cpu, cache.id, list);
        // What others freed into first: it may wait no longer than the rest, and what waited longest has most objects.
        while let Some(pfn) = list.last().filter(|_| list.waiting() > 0).or_else(|| list.first()) {
            list.remove(self.map, pfn);
            if self.use_own(at, pfn, list) == SlabOutcome::Again {
                return RefillOutcome::Again;
            }
        }
        self.use_node_slabs(at, list)
    }

    /// The slab that a CPU's list is of. The caller has the lock of the CPU's slabs.
    pub(super) fn current(&self, cache: &Cache, cpu: CpuId) -> Option<Pfn> {
        let slot = self.slot(cpu, cache.id);
        let address = match self.path(cache) {
            Path::Tagged => cache.layout.mask.slab_around(slot.main.load(Acquire)).get(),
            Path::PageField | Path::PageFieldGuarded => slot.paired.load(Acquire),
            Path::Bitmap => {
                let slab = self.map.slab_by_word(slot.main.load(Acquire));
                return (!core::ptr::eq(slab, self.map.nowhere())).then(|| self.map.pfn_of(slab));
            }
            Path::Sheaves | Path::Checked => 0,
        };
        self.map.pfn(address)
    }

    /// Whether the word of a CPU's slot says that there are objects.
    fn has_objects(&self, cache: &Cache, seen: u64) -> bool {
        match self.path(cache) {
            Path::Bitmap => !self.map.slab_by_word(seen).bits().is_empty(),
            _ => !is_mark(seen),
        }
    }

    /// What was freed into the slab that has just been used up, without letting go of it.
    fn use_current(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, .. } = at;
        if self.path(cache) == Path::Bitmap {
            return self.use_current_bits(at, pfn, list);
        }
        let slab = self.map.slab(pfn);
        let base = self.map.slab_address(pfn);
        let Ok(own) = self.take_local(cpu, cache, slab) else { return SlabOutcome::Again };
        let chain = own.concat(slab.take_remote(base), cache.links);
        self.publish(at, pfn, chain, list)
    }

    /// A slab of this CPU that was taken off its list.
    fn use_own(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, .. } = at;
        if self.path(cache) == Path::Bitmap {
            return self.use_own_bits(at, pfn, list);
        }
        let slab = self.map.slab(pfn);
        // First it is not queued any more, then its own list is taken: a free that comes between queues it again.
        let remote = slab.take_remote_unqueued(self.map.slab_address(pfn));
        match self.take_local(cpu, cache, slab) {
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

    /// Takes slabs off the node's list until one can be used; this CPU owns that slab from then on.
    fn use_node_slabs(&self, at: RefillTarget<'_>, list: &mut List<CpuPartial>) -> RefillOutcome {
        let node = self.pages.node_of(at.cpu);
        loop {
            let Some(pfn) = self.get_partial_node(node, at.cache.id) else { return RefillOutcome::Nothing };
            if self.use_unowned(at, pfn, list) == SlabOutcome::Again {
                return RefillOutcome::Again;
            }
        }
    }

    /// Makes this CPU the owner of a slab that the caller holds and that no CPU owns, and allocates from it.
    fn use_unowned(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, .. } = at;
        let slab = self.map.slab(pfn);
        let mine = Exchange::new(&slab.owner, slab.owner.load(Relaxed), Owner::Cpu(cpu).raw());
        if self.local.replace_if(cpu, mine) == ExchangeOutcome::Done {
            // Only an owner may have it not queued: else a free would hand it to the next CPU that looks.
            return self.use_own(at, pfn, list);
        }
        self.add_partial(cache, pfn);
        SlabOutcome::Again
    }

    /// Takes a slab's own list, on its owner's CPU.
    ///
    /// # Errors
    /// If the caller does not run there any more.
    pub(super) fn take_local(&self, cpu: CpuId, cache: &Cache, slab: &Slab) -> Result<Chain, ExchangeOutcome> {
        let nothing = Local::new(end_mark(self.map.base_of(slab)), cache.layout.objects);
        loop {
            let local = slab.local();
            if local == nothing {
                return Ok(Chain::empty(self.map.base_of(slab)));
            }
            match self.local.replace_if(cpu, Exchange::new(&slab.local, local.raw(), nothing.raw())) {
                ExchangeOutcome::Done => {
                    let head = local.list(self.map.base_of(slab).get());
                    return Ok(Chain { head, len: cache.layout.objects - local.used() });
                }
                ExchangeOutcome::Changed => {}
                ExchangeOutcome::Moved => return Err(ExchangeOutcome::Moved),
            }
        }
    }

    /// Makes a chain this CPU's list, if that still is the mark that was seen.
    fn publish(&self, at: RefillTarget<'_>, pfn: Pfn, chain: Chain, list: &mut List<CpuPartial>) -> SlabOutcome {
        let RefillTarget { cpu, cache, seen } = at;
        if chain.is_empty() {
            return SlabOutcome::Exhausted;
        }
        let slot = self.slot(cpu, cache.id);
        let mut exchange = Exchange::new(slot.main, seen, chain.head);
        if self.path(cache) != Path::Tagged {
            // Two words: the list stays a mark until the other one says which slab it is of.
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

    /// Returns a chain to a slab of the target CPU as a remote free, and queues the slab again. May run on any CPU.
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

    /// Moves the slabs on a CPU's stack to the CPU's list. That CPU owns all of them: only the holder of a slab changes
    /// its owner, and the holder was the CPU that pushed it.
    pub(super) fn flush_cpu_stack(&self, cpu: CpuId, id: CacheId, list: &mut List<CpuPartial>) {
        for pfn in self.cpu_partial(cpu, id).stack.take(self.map) {
            debug_assert_eq!(self.map.slab(pfn).owner(), Owner::Cpu(cpu), "a slab waits for its owner");
            self.put_cpu_partial(id, pfn, list);
        }
    }

    /// Makes a slab of new pages, and gives it to this CPU, or to the node if the caller is moved.
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
        // The slab that ran out may have got objects since; it keeps them, and is queued.
        let used = self.use_unowned(RefillTarget { cpu, cache, seen }, pfn, &mut list);
        debug_assert!(used == SlabOutcome::Again, "a new slab has objects");
        self.unlock_and_trim(cpu, cache, list);
        Ok(())
    }
}
