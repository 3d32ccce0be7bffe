//! Sheaves: each CPU keeps its free objects in arrays, of any slabs. No CPU owns a slab. This module depends on `cpu`
//! for the sections that change a CPU's arrays, and on `node`, `free`, `bitmap` and `pages` for slabs.
//!
//! A CPU allocates from its *main* sheaf and frees into it, regardless of the object's slab and of the CPU that
//! allocated it. If the main sheaf is empty or full, another sheaf replaces it, tried in this order:
//!
//! ```text
//! spare    the CPU's second sheaf
//! barn     the node's sheaves: a full one in exchange for an empty one, or the other way round
//! slabs    an empty sheaf is filled from the node's slabs, then from new pages; a full one is flushed to its slabs,
//!          grouped by slab where that pays (`group`); both hold the lock of the node's slabs once, as far as these
//!          suffice
//! ```
//!
//! On a free, a new empty sheaf is allocated while the barn has room for full ones. If the barn is full, the full spare
//! is flushed.
//!
//! Sections on the CPU change the main sheaf as they change a list: the slot's word is the place of the sheaf's last
//! object. The main sheaf is replaced by a section too, under the lock of the CPU's part of the cache. So it stays with
//! the CPU while that lock is held, although its length may change. The spare is protected by the lock alone. A sheaf
//! that is being filled or flushed belongs to the call that does so, with no lock held on it. If the CPU has another
//! sheaf in its place afterwards, or the caller was moved to another CPU, the sheaf becomes a spare, is put into the
//! barn or, if neither has room, is flushed and freed.
//!
//! A double free is detected if the two frees follow each other on a CPU. The object is then found in its sheaf or, if
//! it was freed to its slab, in that slab. It is also detected if a bulk free names an object twice in a row. A later
//! double free is detected only if slabs have bitmaps, when the object is flushed.
//!
//! The memory of sheaves comes from caches which do not have sheaves themselves. If there is no memory for a sheaf,
//! objects are allocated from slabs and freed to slabs one by one. On a machine with several nodes, an object of
//! another node than the CPU's is freed to its slab at once. A CPU's sheaves have objects of another node only if its
//! own node had no free objects left, or if the other node had more slabs than it keeps.
//!
//! linux: mm/slub.c:__pcs_replace_empty_main, __pcs_replace_full_main, sheaf_flush_unused, refill_sheaf

mod barn;
mod bulk;
mod check;
mod count;
mod flow;
mod group;
mod guard;
mod sheaf;
#[cfg(all(test, not(loom)))]
mod tests;

use core::sync::atomic::Ordering::{Acquire, Release};

use super::address::ObjectAddress;
use super::cache::Cache;
use super::cpu::sheaf::Top;
use super::cpu::{CpuLocal, Exchange, ExchangeOutcome, FreedObject, PushOutcome, Slot};
use super::id::CacheId;
use super::partial::{CpuPartial, List};
use super::{CacheConfig, CreateError, ObjectError, ObjectFreeError, SlabAllocator};
use crate::base::fault::{Fault, is_planted};
use crate::base::lock::Guard;
use crate::base::{CpuId, Gfp, NodeId, RawLock};
use crate::platform::Platform;
pub(super) use barn::Barn;
use guard::SheafGuard;
pub(super) use sheaf::OwnedSheaf;
use sheaf::{UNWRITTEN, Want};

/// Number of caches that sheaves are allocated from.
pub(super) const KINDS: usize = sheaf::SIZES.len();

/// The sheaves of one CPU for one cache, locked. linux: mm/slub.c:slub_percpu_sheaves
struct PercpuSheaves<'m, L: RawLock> {
    cpu: CpuId,
    slot: Slot<'m>,
    /// Number of objects that a sheaf of the cache has room for.
    capacity: u64,
    /// Word of a slot that has no main sheaf.
    none: Top,
    /// True if the CPU is offline, so that it would never use a sheaf that it is given.
    is_offline: bool,
    _slabs: Guard<'m, L, List<CpuPartial>>,
}

impl<L: RawLock> PercpuSheaves<'_, L> {
    /// Returns the top of the main sheaf, if there is one.
    fn main(&self) -> Option<Top> {
        let top = Top::from_raw(self.slot.main.load(Acquire));
        (top != self.none).then_some(top)
    }

    /// Returns whether the main sheaf meets a want. The CPU keeps that sheaf while this value exists, but sections may
    /// empty or fill it at once.
    fn meets(&self, want: Want) -> bool {
        self.main().is_some() && want.is_met_by(self.main_len(), self.capacity)
    }

    /// Returns the sheaf of a slot's word, or `None` if the word is the placeholder for no sheaf.
    ///
    /// # Safety
    /// As for [`OwnedSheaf::from_top`], unless the word is the placeholder.
    unsafe fn sheaf_at(&self, top: Top) -> Option<OwnedSheaf> {
        // SAFETY: the caller promises what `from_top` demands of the word, and each sheaf of a cache has the same
        // capacity.
        (top != self.none).then(|| unsafe { OwnedSheaf::from_top(top, self.capacity) })
    }

    /// Returns the number of objects in the main sheaf, which sections may change at once.
    fn main_len(&self) -> u64 {
        self.main().map_or(0, |top| top.len(self.capacity))
    }

    fn take_spare(&mut self) -> Option<OwnedSheaf> {
        let word = self.slot.paired.load(Acquire);
        self.slot.paired.store(0, Release);
        // SAFETY: the word is 0 or that of a sheaf that `restore_spare` stored. No section reads this word, and other
        // code reads it only with the lock that `self` holds. The word was cleared above, so the sheaf is in no word
        // any more.
        unsafe { OwnedSheaf::from_word(word) }
    }

    /// Makes a sheaf the spare, if there is none and the CPU is online. Returns the sheaf otherwise.
    fn set_spare(&mut self, sheaf: OwnedSheaf) -> Result<(), OwnedSheaf> {
        if self.is_offline && !is_planted(Fault::KeepsOffline) || self.slot.paired.load(Acquire) != 0 {
            return Err(sheaf);
        }
        self.restore_spare(sheaf);
        Ok(())
    }

    /// Stores a sheaf as the spare again that [`take_spare`](Self::take_spare) returned.
    fn restore_spare(&mut self, sheaf: OwnedSheaf) {
        debug_assert_eq!(self.slot.paired.load(Acquire), 0, "the place of the spare is not empty");
        self.slot.paired.store(sheaf.into_word(), Release);
    }
}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Creates the caches of sheaves, if the policy has sheaves.
    pub(super) fn create_sheaf_caches(&self) -> Result<(), CreateError> {
        let wanted = if self.has_sheaves() { sheaf::SIZES.as_slice() } else { &[] };
        for (class, &(size, name)) in (0..).zip(wanted) {
            self.create_at(self.cache_of_sheaves(class), &CacheConfig::new(name, size).with_align(size))?;
        }
        Ok(())
    }

    /// Returns the number of the first cache of sheaves. These are the last of all caches, so that a walk which gives
    /// back unused memory has freed the sheaves of all other caches when it gets to them.
    pub(super) fn first_of_sheaves(&self) -> CacheId {
        CacheId::new((self.caches.len() - 1 - KINDS) as u8)
    }

    /// Returns the cache of sheaves of a size, given the size's index.
    fn cache_of_sheaves(&self, class: u8) -> CacheId {
        CacheId::new(self.first_of_sheaves().get() + class)
    }

    /// Returns the word of slots that have no sheaf. It is the top of a sheaf without room, which has no object and
    /// refuses every object, so that a fast path always finds a sheaf.
    pub(super) fn no_sheaf(&self) -> Top {
        self.no_sheaf.top()
    }

    /// Returns whether an object is of this CPU's node, or there is one node only, so that the object may be put into
    /// the CPU's sheaves. linux: mm/slub.c:can_free_to_pcs
    fn is_on_local_node(&self, object: ObjectAddress) -> bool {
        let node = self.pages.node_of(self.local.cpu());
        self.pages.nodes() == 1 || self.map.pfn(object.get()).is_some_and(|pfn| self.node_of(pfn) == node)
    }

    /// Returns whether the policy gives CPUs sheaves.
    pub(super) fn has_sheaves(&self) -> bool {
        self.pages.rules().slab.objects.has_sheaves()
    }

    #[inline(never)]
    fn lock_pcs(&self, cpu: CpuId, cache: &Cache) -> PercpuSheaves<'s, P::Lock> {
        let cpu_partial = self.cpu_partial(cpu, cache.id);
        let slabs = cpu_partial.lock();
        PercpuSheaves {
            cpu,
            slot: self.slot(cpu, cache.id),
            capacity: u64::from(cache.sheaf),
            none: self.no_sheaf(),
            is_offline: cpu_partial.stack.is_closed(),
            _slabs: slabs,
        }
    }

    /// Locks a node's barn of a cache.
    fn barn(&self, node: NodeId, id: CacheId) -> Guard<'s, P::Lock, Barn> {
        self.barns[node.index() * self.caches.len() + id.index()].lock()
    }

    /// Sets the number of sheaves with objects that the barns of a new cache keep. linux: mm/slub.c:barn_init
    pub(super) fn barn_init(&self, cache: &Cache) {
        self.node_ids().for_each(|node| self.barn(node, cache.id).set_full_max(cache.full_sheaves));
    }

    /// Allocates an object when the main sheaf is empty: replaces or refills that sheaf. linux:
    /// mm/slub.c:alloc_from_pcs
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    pub(super) fn alloc_from_pcs(&self, cache: &Cache, gfp: Gfp) -> Result<ObjectAddress, ObjectError> {
        self.touch(cache);
        loop {
            match self.pcs_replace_main(cache, Want::Objects) {
                Ok(()) => {}
                Err(Some(empty)) => return self.alloc_from_refilled_sheaf(cache, gfp, empty),
                Err(None) => match self.alloc_empty_sheaf(cache, gfp) {
                    Some(empty) => return self.alloc_from_refilled_sheaf(cache, gfp, empty),
                    None => return self.alloc_without_sheaf(cache, gfp),
                },
            }
            if let Some(object) = self.local.pop_sheaf(self.slots(cache.id)) {
                return Ok(object);
            }
        }
    }

    /// Fills a sheaf, allocates an object from it, and stores the sheaf ([`install`](Self::install)), also in case of
    /// an error. linux: mm/slub.c:refill_sheaf
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    fn alloc_from_refilled_sheaf(
        &self,
        cache: &Cache,
        gfp: Gfp,
        sheaf: OwnedSheaf,
    ) -> Result<ObjectAddress, ObjectError> {
        let mut object = [UNWRITTEN];
        let mut result = Ok(0);
        let mut guard = SheafGuard::new(self, cache, Some(sheaf));
        guard.update(|sheaf| {
            sheaf.fill_by(|room| {
                result = self.refill_objects(cache, gfp, room);
                result.unwrap_or(0)
            });
            sheaf.take(&mut object);
        });
        self.install(cache, guard);
        result.map(|_| object[0])
    }

    /// Allocates an object directly from a slab, since there is no memory for a sheaf.
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    fn alloc_without_sheaf(&self, cache: &Cache, gfp: Gfp) -> Result<ObjectAddress, ObjectError> {
        let mut object = [UNWRITTEN];
        self.refill_objects(cache, gfp, &mut object)?;
        Ok(object[0])
    }

    /// Frees an object when the main sheaf is full, or there are several nodes. linux: mm/slub.c:free_to_pcs
    ///
    /// # Errors
    /// If the object is found to be free already: it is the last one in the main sheaf, or is free in its slab as far
    /// as a look at the slab's words shows.
    pub(super) fn free_to_pcs(&self, cache: &Cache, freed: FreedObject<'_>) -> Result<(), ObjectFreeError> {
        while self.is_on_local_node(freed.object()) {
            // SAFETY: `FreedObject` owns the object, which was allocated from this cache.
            if unsafe { self.local.push_sheaf(self.slots(cache.id), freed.object()) } == PushOutcome::Done {
                return Ok(());
            }
            if self.is_last_in_main(cache, freed.object()) {
                return Err(self.refused(ObjectFreeError::DoubleFree { address: freed.object().get() }));
            }
            if let Err(full) = self.pcs_replace_main(cache, Want::Room) {
                // If there is no memory for another sheaf, the spare is emptied.
                let sheaf = full
                    .or_else(|| self.alloc_empty_sheaf(cache, Gfp::NOWAIT))
                    .or_else(|| self.lock_pcs(self.local.cpu(), cache).take_spare());
                if sheaf.is_none() {
                    break;
                }
                let mut guard = SheafGuard::new(self, cache, sheaf);
                guard.update(|sheaf| self.sheaf_flush(cache, sheaf));
                self.install(cache, guard);
            }
        }
        if self.is_double_free(cache, freed) {
            return Err(self.refused(ObjectFreeError::DoubleFree { address: freed.object().get() }));
        }
        self.free_remote(cache, self.pfn_of(freed), freed.object());
        Ok(())
    }

    /// Returns whether an object is the last one that was put into this CPU's main sheaf. The sheaf is taken from the
    /// slot meanwhile.
    fn is_last_in_main(&self, cache: &Cache, object: ObjectAddress) -> bool {
        let pcs = self.lock_pcs(self.local.cpu(), cache);
        let Ok(Some(main)) = self.swap_main(&pcs, None) else { return false };
        let is_last = main.objects().last() == Some(&object);
        self.set_main(pcs, cache, main, None);
        is_last
    }

    /// Replaces this CPU's main sheaf by one that meets a want: the spare, or a sheaf of the barn. linux:
    /// mm/slub.c:__pcs_replace_empty_main, __pcs_replace_full_main
    ///
    /// # Errors
    /// If there is no such sheaf. The error contains the sheaf that the caller has to fill or flush, or nothing if the
    /// caller has to make one.
    fn pcs_replace_main(&self, cache: &Cache, want: Want) -> Result<(), Option<OwnedSheaf>> {
        let cpu = self.local.cpu();
        let mut pcs = self.lock_pcs(cpu, cache);
        if pcs.meets(want) {
            return Ok(());
        }
        let unfit = match pcs.take_spare() {
            Some(spare) if want.is_met(&spare) => {
                self.set_main(pcs, cache, spare, None);
                return Ok(());
            }
            unfit => unfit,
        };
        let mut barn = self.barn(self.pages.node_of(cpu), cache.id);
        let is_surplus = want == Want::Room && unfit.is_some() && barn.is_full();
        let found = if is_surplus { None } else { barn.get(want) };
        match (found, want) {
            (Some(fresh), _) => {
                drop(barn);
                self.set_main(pcs, cache, fresh, unfit);
                Ok(())
            }
            (None, Want::Objects) => Err(unfit.or_else(|| barn.get(Want::Room))),
            (None, Want::Room) if is_surplus => Err(unfit),
            (None, Want::Room) => {
                if let Some(full) = unfit {
                    pcs.restore_spare(full);
                }
                Err(None)
            }
        }
    }

    /// Makes the sheaf `fresh` the main one, if the caller still runs on that CPU. The sheaves that are left (`unfit`,
    /// and the replaced sheaf or `fresh`) become the spare, go to the barn, or are flushed and freed.
    #[inline(never)]
    fn set_main(
        &self,
        mut pcs: PercpuSheaves<'_, P::Lock>,
        cache: &Cache,
        fresh: OwnedSheaf,
        unfit: Option<OwnedSheaf>,
    ) {
        let over = self.swap_main(&pcs, Some(fresh)).unwrap_or_else(|fresh| fresh);
        let surplus = [over, unfit].map(|sheaf| self.put_in_spare_or_barn(&mut pcs, cache, sheaf?).err());
        drop(pcs);
        self.flush_and_free_sheaves(cache, surplus);
    }

    /// Replaces the main sheaf by another sheaf, or by none, and returns the former one.
    ///
    /// # Errors
    /// If the caller does not run on that CPU any more. The error contains the new sheaf.
    fn swap_main(
        &self,
        pcs: &PercpuSheaves<'_, P::Lock>,
        fresh: Option<OwnedSheaf>,
    ) -> Result<Option<OwnedSheaf>, Option<OwnedSheaf>> {
        let fresh_top = fresh.map_or(pcs.none, OwnedSheaf::into_top);
        let former_top = loop {
            let former = Top::from_raw(pcs.slot.main.load(Acquire));
            if is_planted(Fault::ReplacesOutside) {
                pcs.slot.main.store(fresh_top.raw(), Release);
                break former;
            }
            match self.local.replace_if(pcs.cpu, Exchange::new(pcs.slot.main, former.raw(), fresh_top.raw())) {
                ExchangeOutcome::Done => break former,
                // Other code on this CPU has taken an object out of the sheaf or put one in.
                ExchangeOutcome::Changed => {}
                // SAFETY: `into_top` gave this word for `fresh`, and the exchange failed, so the sheaf never got into
                // the slot.
                ExchangeOutcome::Moved => return Err(unsafe { pcs.sheaf_at(fresh_top) }),
            }
        };
        // SAFETY: a section on this CPU has just exchanged this word for another. So the sheaf is in no word any more,
        // and no later section reads it.
        Ok(unsafe { pcs.sheaf_at(former_top) })
    }

    /// Stores a sheaf that was filled or flushed. It becomes this CPU's main sheaf if the present one still does not
    /// meet the want, and is stored elsewhere otherwise.
    fn install(&self, cache: &Cache, guard: SheafGuard<'_, 's, 'm, P, C>) {
        let Some(fresh) = guard.into_sheaf() else { return };
        let want = if fresh.is_empty() { Want::Room } else { Want::Objects };
        let cpu = self.local.cpu();
        let pcs = self.lock_pcs(cpu, cache);
        if !pcs.meets(want) {
            return self.set_main(pcs, cache, fresh, None);
        }
        self.store_sheaf(pcs, cache, fresh);
    }

    /// Stores a sheaf as the spare or in the barn, or flushes and frees it.
    fn store_sheaf(&self, mut pcs: PercpuSheaves<'_, P::Lock>, cache: &Cache, sheaf: OwnedSheaf) {
        let stored = self.put_in_spare_or_barn(&mut pcs, cache, sheaf);
        drop(pcs);
        if let Err(surplus) = stored {
            self.flush_and_free_sheaf(cache, surplus);
        }
    }

    /// Makes a sheaf the CPU's spare, or puts it into the barn of the CPU's node.
    ///
    /// # Errors
    /// If there is a spare or the CPU is offline, and the barn has no room. The error contains the sheaf.
    fn put_in_spare_or_barn(
        &self,
        pcs: &mut PercpuSheaves<'_, P::Lock>,
        cache: &Cache,
        sheaf: OwnedSheaf,
    ) -> Result<(), OwnedSheaf> {
        pcs.set_spare(sheaf).or_else(|sheaf| self.barn(self.pages.node_of(pcs.cpu), cache.id).put(sheaf))
    }

    /// Takes a CPU's sheaves from it, and flushes and frees them. linux: mm/slub.c:__pcs_flush_all_cpu
    ///
    /// The main sheaf is drained as a list is ([`CpuLocal::drain`]), and is leaked if the CPU does not answer the
    /// fence. No section pushes onto the placeholder that replaces it, and only sections write the word without this
    /// lock.
    pub(super) fn pcs_flush_all_cpu(&self, cpu: CpuId, cache: &Cache) {
        let mut pcs = self.lock_pcs(cpu, cache);
        let top = Top::from_raw(self.local.drain(cpu, pcs.slot, pcs.none.raw()));
        // SAFETY: the word was drained from the slot, so the sheaf is in no word any more, and no section uses it.
        let main = unsafe { pcs.sheaf_at(top) };
        let spare = pcs.take_spare();
        drop(pcs);
        self.flush_and_free_sheaves(cache, [main, spare]);
    }

    /// Flushes and frees sheaves.
    fn flush_and_free_sheaves(&self, cache: &Cache, sheaves: [Option<OwnedSheaf>; 2]) {
        let guards = sheaves.map(|sheaf| SheafGuard::new(self, cache, sheaf));
        for guard in guards {
            if let Some(sheaf) = guard.into_sheaf() {
                self.flush_and_free_sheaf(cache, sheaf);
            }
        }
    }

    /// Flushes and frees all sheaves of a node's barn. linux: mm/slub.c:barn_shrink
    pub(super) fn barn_shrink(&self, node: NodeId, cache: &Cache) {
        loop {
            let Some(sheaf) = self.barn(node, cache.id).get_any() else { return };
            self.flush_and_free_sheaf(cache, sheaf);
        }
    }

    /// Calls `look` with each sheaf of a cache, for consistency checks.
    pub(super) fn each_sheaf(&self, cache: &Cache, mut look: impl FnMut(&OwnedSheaf)) {
        let id = cache.id;
        for cpu in self.pages.cpu_ids() {
            let slot = self.slot(cpu, id);
            let top = Top::from_raw(slot.main.load(Acquire));
            // SAFETY: no other code runs during a check, so no section changes the sheaf. The value is not used after
            // this call, so the sheaf still has one holder.
            let main = (top != self.no_sheaf()).then(|| unsafe { OwnedSheaf::from_top(top, u64::from(cache.sheaf)) });
            // SAFETY: as above; the lock that protects the spare is not needed while no other code runs.
            let spare = unsafe { OwnedSheaf::from_word(slot.paired.load(Acquire)) };
            main.iter().chain(&spare).for_each(&mut look);
        }
        for node in self.node_ids() {
            self.barn(node, id).iter().for_each(&mut look);
        }
    }
}
