//! `sheaves`: a CPU has its free objects in arrays, of any slabs; nobody owns a slab.
//!
//! A CPU allocates from its *main* sheaf and frees into it, whatever slab the object is of and whatever CPU allocated
//! it. When the main sheaf will not do, because it is empty or because it is full, another takes its place, nearest
//! first:
//!
//! ```text
//! spare    the CPU's second sheaf
//! barn     the node's: a full one for an empty one, or the other way round
//! slabs    an empty one is filled from the node's slabs, then from new pages; a full one is flushed to its slabs, in
//!          their order (`group`); both under one hold of the lock of the node's slabs, as far as these go
//! ```
//!
//! The main sheaf is changed by sections on its CPU, as a list is: the slot's word says where its last object is. It is
//! replaced by a section too, under the lock of the CPU's part of the cache, so it stays with the CPU while that lock
//! is held, however full it is. The spare belongs to the lock alone. A sheaf that is filled or flushed belongs to the
//! call meanwhile, with no lock held; if its place has been taken by then, or the caller was moved to another CPU, it
//! finds another place there, or in the barn.
//!
//! An object that is freed twice in a row on a CPU is noticed, in its sheaf or, if it went there at once, in its slab;
//! and so is one that a request to free many names twice in a row. One freed again later is noticed only where slabs
//! have bitmaps, when it is flushed.
//!
//! Sheaves are memory, and come from caches of their own, which have none. Without memory for a sheaf objects go to
//! and from their slabs one by one. On a machine with several nodes, an object of another node than the CPU's goes to
//! its slab at once: a CPU's sheaves have objects of another node only where its own had none left, or one that had
//! more slabs than it keeps.
//!
//! linux: mm/slub.c:__pcs_replace_empty_main, __pcs_replace_full_main, sheaf_flush_unused, refill_sheaf

mod barn;
mod bulk;
mod check;
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

/// Caches that sheaves come from.
pub(super) const KINDS: usize = sheaf::SIZES.len();

/// The sheaves of one CPU for one cache, locked. linux: mm/slub.c:slub_percpu_sheaves
struct PercpuSheaves<'m, L: RawLock> {
    cpu: CpuId,
    slot: Slot<'m>,
    /// Objects that a sheaf of the cache has room for.
    capacity: u64,
    /// What the slot says when it has no main sheaf.
    none: Top,
    /// The CPU went offline, and nobody would look at what it is given.
    is_offline: bool,
    _slabs: Guard<'m, L, List<CpuPartial>>,
}

impl<L: RawLock> PercpuSheaves<'_, L> {
    /// Where the main sheaf ends, if there is one.
    fn main(&self) -> Option<Top> {
        let top = Top::from_raw(self.slot.main.load(Acquire));
        (top != self.none).then_some(top)
    }

    /// Returns whether the main sheaf meets a want. The CPU keeps that sheaf while this value exists, but sections may
    /// empty or fill it at once.
    fn meets(&self, want: Want) -> bool {
        self.main().is_some() && want.is_met_by(self.main_len(), self.capacity)
    }

    /// Returns the sheaf of a slot's word; nothing if the word stands for no sheaf.
    ///
    /// # Safety
    /// As for [`OwnedSheaf::from_top`], if it is one.
    unsafe fn sheaf_at(&self, top: Top) -> Option<OwnedSheaf> {
        // SAFETY: the caller's promise, and each sheaf of a cache has the same capacity.
        (top != self.none).then(|| unsafe { OwnedSheaf::from_top(top, self.capacity) })
    }

    /// Objects in the main sheaf; that may be over at once.
    fn main_len(&self) -> u64 {
        self.main().map_or(0, |top| top.len(self.capacity))
    }

    fn take_spare(&mut self) -> Option<OwnedSheaf> {
        let word = self.slot.paired.load(Acquire);
        self.slot.paired.store(0, Release);
        // SAFETY: a sheaf that was put here by `set_spare`; no section looks at this word, and nobody without this
        // lock.
        unsafe { OwnedSheaf::from_word(word) }
    }

    /// Makes a sheaf the spare, if there is none and the CPU is online.
    fn set_spare(&mut self, sheaf: OwnedSheaf) -> Result<(), OwnedSheaf> {
        if self.is_offline && !is_planted(Fault::KeepsOffline) || self.slot.paired.load(Acquire) != 0 {
            return Err(sheaf);
        }
        self.restore_spare(sheaf);
        Ok(())
    }

    /// Makes a sheaf the spare again that [`take_spare`](Self::take_spare) returned.
    fn restore_spare(&mut self, sheaf: OwnedSheaf) {
        debug_assert_eq!(self.slot.paired.load(Acquire), 0, "it was taken from there");
        self.slot.paired.store(sheaf.into_word(), Release);
    }
}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Makes the caches that sheaves come from, if there are sheaves.
    pub(super) fn create_sheaf_caches(&self) -> Result<(), CreateError> {
        let wanted = if self.has_sheaves() { sheaf::SIZES.as_slice() } else { &[] };
        for (class, &(size, name)) in (0..).zip(wanted) {
            self.create_at(self.cache_of_sheaves(class), &CacheConfig::new(name, size).with_align(size))?;
        }
        Ok(())
    }

    /// Number of the first cache that sheaves come from. They are the last of all, so that a walk that gives everything
    /// back has given back the sheaves when it comes to them.
    pub(super) fn first_of_sheaves(&self) -> CacheId {
        CacheId::new((self.caches.len() - 1 - KINDS) as u8)
    }

    /// The cache of sheaves of a size, by its place among the sizes.
    fn cache_of_sheaves(&self, class: u8) -> CacheId {
        CacheId::new(self.first_of_sheaves().get() + class)
    }

    /// What stands in a slot for a sheaf that is not there: one without room, which has no object and refuses every
    /// object, so that a fast path always finds a sheaf.
    pub(super) fn no_sheaf(&self) -> Top {
        self.no_sheaf.top()
    }

    /// Returns whether an object is of this CPU's node, and so may be put into its sheaves. linux: mm/slub.c:slab_free
    fn is_on_local_node(&self, object: ObjectAddress) -> bool {
        let home = self.pages.node_of(self.local.cpu());
        self.pages.nodes() == 1 || self.map.pfn(object.get()).is_some_and(|pfn| self.node_of(pfn) == home)
    }

    /// Whether the policy gives CPUs sheaves.
    pub(super) fn has_sheaves(&self) -> bool {
        self.pages.rules().slab.objects.has_sheaves()
    }

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

    /// A node's barn of a cache, under its lock.
    fn barn(&self, node: NodeId, id: CacheId) -> Guard<'s, P::Lock, Barn> {
        self.barns[node.index() * self.caches.len() + id.index()].lock()
    }

    /// Sets how many sheaves with objects the barns of a new cache keep. linux: mm/slub.c:barn_init
    pub(super) fn barn_init(&self, cache: &Cache) {
        self.node_ids().for_each(|node| self.barn(node, cache.id).set_full_max(cache.full_sheaves));
    }

    /// Allocates an object when the main sheaf is empty: replaces or refills that sheaf. linux:
    /// mm/slub.c:alloc_from_pcs
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    pub(super) fn alloc_from_pcs(&self, cache: &Cache, gfp: Gfp) -> Result<ObjectAddress, ObjectError> {
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

    /// Fills a sheaf, allocates an object from it, and installs it on this CPU. linux: mm/slub.c:refill_sheaf
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

    /// Allocates an object straight from a slab, where there is no sheaf for it.
    fn alloc_without_sheaf(&self, cache: &Cache, gfp: Gfp) -> Result<ObjectAddress, ObjectError> {
        let mut object = [UNWRITTEN];
        self.refill_objects(cache, gfp, &mut object)?;
        Ok(object[0])
    }

    /// Frees an object when the main sheaf is full, or there are several nodes. linux: mm/slub.c:free_to_pcs
    ///
    /// # Errors
    /// If the object is free already: the last one in the main sheaf, or in its slab, as far as a look tells.
    pub(super) fn free_to_pcs(&self, cache: &Cache, freed: FreedObject<'_>) -> Result<(), ObjectFreeError> {
        while self.is_on_local_node(freed.object()) {
            // SAFETY: `FreedObject` owns the object, which is of this cache.
            if unsafe { self.local.push_sheaf(self.slots(cache.id), freed.object()) } == PushOutcome::Done {
                return Ok(());
            }
            if self.is_last_in_main(cache, freed.object()) {
                return Err(self.refused(ObjectFreeError::DoubleFree { address: freed.object().get() }));
            }
            if let Err(full) = self.pcs_replace_main(cache, Want::Room) {
                // Without memory for another one, the spare is emptied.
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
        self.free_remote(cache, freed.slab(), freed.object());
        Ok(())
    }

    /// Whether an object is the last one that this CPU's main sheaf got. The sheaf is taken for the look.
    fn is_last_in_main(&self, cache: &Cache, object: ObjectAddress) -> bool {
        let pcs = self.lock_pcs(self.local.cpu(), cache);
        let Ok(Some(main)) = self.swap_main(&pcs, None) else { return false };
        let is_last = main.objects().last() == Some(&object);
        self.set_main(pcs, cache, main, None);
        is_last
    }

    /// Gives this CPU a main sheaf that meets a want: the spare, or one of the barn's. linux:
    /// mm/slub.c:__pcs_replace_empty_main, __pcs_replace_full_main
    ///
    /// # Errors
    /// If there is none: with the sheaf to fill, or to flush, for it; or with nothing, if that has to be made.
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

    /// Makes a sheaf the main one, if the caller still runs on that CPU, and stows away what is left.
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
    /// With the sheaf, if the caller does not run on that CPU any more.
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
                // Others that run on this CPU have taken an object out of it, or put one in.
                ExchangeOutcome::Changed => {}
                // SAFETY: the sheaf of this word never got into the slot.
                ExchangeOutcome::Moved => return Err(unsafe { pcs.sheaf_at(fresh_top) }),
            }
        };
        // SAFETY: the sheaf of this word has just left the slot, by a section on its CPU.
        Ok(unsafe { pcs.sheaf_at(former_top) })
    }

    /// Stores a sheaf that was filled or flushed: as this CPU's main sheaf, if the present one still does not meet the
    /// want.
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
    /// With the sheaf, if there is a spare and the barn has no room.
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
    /// The main one is drained as a list is ([`CpuLocal::drain`]): what stands in the word for none is one onto which
    /// no section pushes, and nobody but a section writes the word without this lock.
    pub(super) fn pcs_flush_all_cpu(&self, cpu: CpuId, cache: &Cache) {
        let mut pcs = self.lock_pcs(cpu, cache);
        let top = Top::from_raw(self.local.drain(cpu, pcs.slot, pcs.none.raw()));
        // SAFETY: it was in the word, and no section knows it any more.
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

    /// What is in all sheaves of a cache, for walkers.
    pub(super) fn each_sheaf(&self, cache: &Cache, mut look: impl FnMut(&OwnedSheaf)) {
        let id = cache.id;
        for cpu in self.pages.cpu_ids() {
            let slot = self.slot(cpu, id);
            let top = Top::from_raw(slot.main.load(Acquire));
            // SAFETY: nothing else runs while one walks, and the values end here.
            let main = (top != self.no_sheaf()).then(|| unsafe { OwnedSheaf::from_top(top, u64::from(cache.sheaf)) });
            // SAFETY: likewise, and no lock is needed then.
            let spare = unsafe { OwnedSheaf::from_word(slot.paired.load(Acquire)) };
            main.iter().chain(&spare).for_each(&mut look);
        }
        for node in self.node_ids() {
            self.barn(node, id).iter().for_each(&mut look);
        }
    }
}
