//! Freeing of objects. With sheaves, an object goes into a sheaf of this CPU ([`sheaves`](super::sheaves)). Otherwise
//! it goes onto one of three lists:
//!
//! - this CPU's list, if the list belongs to the object's slab;
//! - the slab's own list, if this CPU owns the slab;
//! - the slab's list of remote frees, in all other cases.
//!
//! The first two cases are one section. The section refuses the first free into a slab without free objects, because
//! the slab must be queued then. It also refuses the free of the last object in use, because the slab may be discarded
//! then. These frees take the slow path.
//!
//! linux: mm/slub.c:slab_free, __slab_free

use core::panic::Location;
use core::sync::atomic::Ordering::Relaxed;

use super::address::ObjectAddress;
use super::cache::{Cache, Path};
use super::cpu::{CpuLocal, Exchange, ExchangeOutcome, FreedObject, PushOutcome};
use super::debug::Call;
use super::fast_path::{AnyFastPath, FastPath, only_sheaves};
use super::freelist::{Chain, set_freepointer};
use super::hot::Hot;
use super::id::CacheId;
use super::partial::{CpuPartial, List};
use super::slab::{Owner, Queue, Slab};
use super::{ObjectFreeError, SlabAllocator};
use crate::base::fault::{Fault, is_planted};
use crate::base::lock::Guard;
use crate::base::{CpuId, Pfn};
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Frees an object of a cache. In most cases, this costs a multiplication and a section.
    ///
    /// # Errors
    /// If no object of a slab starts at the address, the object is found to be free, or it is an object of a checked
    /// cache that is damaged.
    ///
    /// # Safety
    /// The address is in a page of this cache. If an object starts there, it is not used any more.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn slab_free<F: FastPath>(
        &self,
        id: CacheId,
        object: ObjectAddress,
    ) -> Result<(), ObjectFreeError> {
        let hot = self.hot(id);
        if !hot.is_for_sections(object) {
            return self.slab_free_other(id, object);
        }
        // SAFETY: the address is in a page of a cache. An object starts there, as `is_for_sections` found, and the caller
        // gives it up.
        let freed = unsafe { self.freed_object(object, hot) };
        match F::push::<P, C>(&self.local, self.slots(id), hot, freed) {
            PushOutcome::Done => Ok(()),
            PushOutcome::Refused => self.slab_free_slow(id, object),
        }
    }

    /// Returns a freed object for a fast path. With sheaves alone, it has no slab of its own, whose look-up would cost
    /// the free of each object.
    ///
    /// # Safety
    /// The object is in a page of the cache of `hot`, which was allocated from there, and its user gives it up.
    #[inline(always)]
    pub(super) unsafe fn freed_object(&self, object: ObjectAddress, hot: &Hot) -> FreedObject<'_> {
        let slab = match only_sheaves::<P>() {
            true => self.map.nowhere(),
            // SAFETY: the page belongs to a cache, so the address and the start of its slab are in memory of the range.
            false => unsafe { self.map.slab_at::<P>(object.slab(hot.mask)) },
        };
        // SAFETY: the caller gives the object up, and the slab is the object's unless all fast paths are of sheaves.
        unsafe { FreedObject::new(object, slab, hot.mask) }
    }

    /// Frees an address that fast paths refuse: an object whose node must be determined, an object of a checked cache,
    /// or an address at which no object starts.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn slab_free_other(&self, id: CacheId, address: ObjectAddress) -> Result<(), ObjectFreeError> {
        match self.cache(id) {
            _ if self.hot(id).is_object(address) => self.slab_free_slow(id, address),
            Some(cache) if self.is_checked(cache) => {
                self.free_checked(cache, address, Call { requested: 0, place: Location::caller() })
            }
            _ => Err(self.refused(ObjectFreeError::Interior { address: address.get() })),
        }
    }

    /// Frees an object outside the fast path: through sheaves, if the cache has them; otherwise under the lock of this
    /// CPU's slabs, if this CPU owns the slab, or by an atomic step.
    ///
    /// # Errors
    /// If the object is found to be free, or if its cache does not exist any more.
    #[cold]
    #[inline(never)]
    fn slab_free_slow(&self, id: CacheId, object: ObjectAddress) -> Result<(), ObjectFreeError> {
        let hot = self.hot(id);
        let foreign = ObjectFreeError::Foreign { address: object.get() };
        let cache = self.cache(id).ok_or_else(|| self.refused(foreign))?;
        // SAFETY: the page belongs to the cache, so the slab's start is in the range. The caller of `slab_free` gives
        // the object up.
        let freed = unsafe { FreedObject::new(object, self.map.slab_at::<P>(object.slab(hot.mask)), hot.mask) };
        if self.path(cache) == Path::Sheaves {
            return self.free_to_pcs(cache, freed);
        }
        if self.is_double_free(cache, freed) {
            return Err(self.refused(ObjectFreeError::DoubleFree { address: object.get() }));
        }
        loop {
            let cpu = self.local.cpu();
            match freed.slab().owner() {
                Owner::Cpu(owner) if owner == cpu => {
                    if self.free_to_owned_slab(cpu, cache, freed)
                        || AnyFastPath::push::<P, C>(&self.local, self.slots(id), hot, freed) == PushOutcome::Done
                    {
                        return Ok(());
                    }
                }
                Owner::Cpu(_) | Owner::Node => {
                    self.free_remote(cache, self.pfn_of(freed), freed.object());
                    return Ok(());
                }
            }
        }
    }

    /// Returns whether an object is known to be free: the first object of a list of its slab or of this CPU's list, or
    /// any object whose bit is set. Objects in sheaves are not considered.
    pub(super) fn is_double_free(&self, cache: &Cache, freed: FreedObject<'_>) -> bool {
        let (slab, object) = (freed.slab(), freed.object());
        if cache.has_bits {
            return slab.free_bits().has_any(self.bit_of(cache.id, object));
        }
        let is_in_slab = [slab.local().list(object.get()), slab.remote().list(object.get())].contains(&object.get());
        // With sheaves, the slot's word is not a list.
        is_in_slab
            || self.path(cache) != Path::Sheaves
                && self.slot(self.local.cpu(), cache.id).main.load(Relaxed) == object.get()
    }

    /// Frees an object into a slab that this CPU owns, if the slab has no free object of its own yet, or the object is
    /// its last one in use. Returns `false` and frees nothing if neither is so, if the CPU does not own the slab any
    /// more, if a section changed the slab meanwhile, or if the caller was moved to another CPU.
    ///
    /// The lock of the CPU's slabs is held, so that no other CPU can take the slab, use it up and give its pages back
    /// before it is queued.
    fn free_to_owned_slab(&self, cpu: CpuId, cache: &Cache, freed: FreedObject<'_>) -> bool {
        let slab = freed.slab();
        let mut list = self.cpu_partial(cpu, cache.id).lock();
        let owner = slab.owner.load(Relaxed);
        // The former holder of the lock may have taken the slab from this CPU.
        if slab.owner() != Owner::Cpu(cpu) {
            return false;
        }
        let (before, after, is_first, is_last) = match self.path(cache) {
            Path::Bitmap => self.with_bit(cache, freed),
            _ => link_to_local(cache, freed),
        };
        if !is_first && !is_last {
            return false;
        }
        let exchange = Exchange::new(&slab.local, before, after).with_witness(&slab.owner, owner);
        if self.local.replace_if(cpu, exchange) != ExchangeOutcome::Done {
            return false;
        }
        if is_planted(Fault::FreesUnlocked) {
            drop(list);
            list = self.cpu_partial(cpu, cache.id).lock();
        }
        if is_first && slab.queue() == Queue::Push {
            list.push(self.map, self.pfn_of(freed));
        }
        if is_last {
            self.retire_from_cpu(cpu, cache, self.pfn_of(freed), list);
        }
        true
    }

    /// Returns the owner of a slab. With sheaves, no CPU owns a slab, and code for such owners is removed if the
    /// platform fixes that policy.
    fn owner(&self, slab: &Slab) -> Owner {
        if only_sheaves::<P>() { Owner::Node } else { slab.owner() }
    }

    /// Returns the first frame of the slab of a freed object.
    pub(super) fn pfn_of(&self, freed: FreedObject<'_>) -> Pfn {
        self.map.pfn(freed.slab_address().get()).expect("the slab of an object is in the range of the slab allocator")
    }

    /// Frees an object from any CPU, by one atomic step, and queues, retires or counts the slab if necessary. An object
    /// whose bit is already set is reported instead.
    pub(super) fn free_remote(&self, cache: &Cache, pfn: Pfn, object: ObjectAddress) {
        if cache.has_bits {
            return self.free_all_bits(cache, pfn, &[object]);
        }
        self.free_chain_remote(cache, pfn, Chain { head: object.get(), len: 1 }, object);
    }

    /// Frees a chain of objects of one slab from any CPU, by one atomic step, and queues, retires or counts the slab if
    /// necessary.
    #[inline(never)]
    pub(super) fn free_chain_remote(&self, cache: &Cache, pfn: Pfn, chain: Chain, last: ObjectAddress) {
        let (slab, len) = (self.map.slab(pfn), chain.len);
        let (after, queue) = slab.push_remote(chain, last, cache.links);
        let is_free = after.len() == slab.local().used();
        self.after_remote_free(cache, (pfn, slab), RemoteFree { queue, is_first: after.len() == len, is_free });
    }

    /// Queues, retires or counts a slab after an atomic step freed objects into it remotely.
    pub(super) fn after_remote_free(&self, cache: &Cache, (pfn, slab): (Pfn, &Slab), freed: RemoteFree) {
        // The owner is read before the slab is queued. Afterwards another CPU may give the slab's pages back.
        let owner = self.owner(slab);
        match (owner, freed.queue) {
            (_, Queue::Push) => self.push_to_owner(cache, (pfn, slab)),
            (Owner::Node, Queue::IsQueued) if freed.is_free => self.retire_from_node(cache, pfn),
            (Owner::Cpu(cpu), Queue::IsQueued) if freed.is_first => self.count_waiting(cpu, cache, pfn),
            (_, Queue::IsQueued) => {}
        }
    }

    /// Pushes a slab that was just queued onto the stack of its owner or, without an owner, of its node. If too many
    /// slabs wait on the owner's stack, or the owner is offline, waiting slabs are moved to the node. A slab of a node
    /// that is wholly free by then is retired.
    fn push_to_owner(&self, cache: &Cache, (pfn, slab): (Pfn, &Slab)) {
        match self.owner(slab) {
            Owner::Cpu(owner) => {
                let waiting = self.cpu_partial(owner, cache.id).stack.push(&self.map, pfn);
                if waiting.is_none_or(|waiting| waiting > cache.limits.cpu_waiting) {
                    self.drain_waiting(owner, cache);
                }
            }
            Owner::Node => {
                // A node's stack is never closed.
                _ = self.node_partial(self.node_of(pfn), cache.id).stack.push(&self.map, pfn);
                // Another CPU may have freed the last object in use meanwhile, without finding the slab on the list.
                // The slab may be discarded by now.
                slab.meet_remote();
                if self.is_wholly_free(cache, pfn) {
                    self.retire_from_node(cache, pfn);
                }
            }
        }
    }

    /// Retires a slab of this CPU whose last object in use was freed. The CPU keeps some of these slabs, and discards
    /// the others. Releases the lock of the CPU's slabs.
    fn retire_from_cpu(&self, cpu: CpuId, cache: &Cache, pfn: Pfn, mut list: Guard<'_, P::Lock, List<CpuPartial>>) {
        let slab = self.map.slab(pfn);
        // The CPU that queued the slab may not have put it on the list yet, or the slab may be the one that this CPU
        // allocates from.
        let is_idle = list.has(slab) && self.current(cache, cpu) != Some(pfn);
        let goes = is_idle && list.wholly_free() >= cache.limits.cpu_free;
        if goes {
            list.remove(self.map, pfn);
            // All objects of the slab are free and with the slab, so no section of this CPU uses it any more.
            slab.disown();
        } else if is_idle {
            list.count_free(slab);
        }
        self.unlock_and_trim(cpu, cache, list);
        if goes {
            self.discard_slab(cache, pfn);
        }
    }
}

/// State of a slab right after a remote free.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteFree {
    /// Result of setting the queued bit: whether the caller has to queue the slab.
    pub queue: Queue,
    /// True if the slab had no remote frees before.
    pub is_first: bool,
    /// True if all objects of the slab seem to be free.
    pub is_free: bool,
}

/// Returns the word of the slab's own list before and after a free, whether this is the first object on it, and whether
/// the object is the last one in use. The object is linked to the list, but the list is not written yet.
fn link_to_local(cache: &Cache, freed: FreedObject<'_>) -> (u64, u64, bool, bool) {
    let local = freed.slab().local();
    // SAFETY: `FreedObject` owns the object, so it is free from now on and no other code uses it.
    unsafe { set_freepointer(freed.object(), local.list(freed.object().get()), cache.links) };
    let after = local.with_freed(freed.object());
    (local.raw(), after.raw(), local.is_mark(), after.used() == 0)
}
