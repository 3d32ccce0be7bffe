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
//! is held, however full it is. The spare belongs to the lock alone. What is filled or flushed is in hand meanwhile,
//! with no lock held; if its place has been taken by then, or the caller was moved to another CPU, it finds another
//! place there, or in the barn.
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
mod hand;
mod sheaf;
#[cfg(all(test, not(loom)))]
mod tests;

use core::sync::atomic::Ordering::{Acquire, Release};

use super::address::ObjectAddress;
use super::cache::Cache;
use super::cpu::sheaf::Top;
use super::cpu::{CpuLocal, Exchange, Freed, Pushed, Replaced, Slot};
use super::id::CacheId;
use super::partial::{List, OfCpu};
use super::{CacheConfig, CreateError, ObjectError, ObjectFreeError, SlabAllocator};
use crate::base::fault::{Fault, is_planted};
use crate::base::lock::Guard;
use crate::base::{CpuId, Gfp, NodeId, RawLock};
use crate::platform::Platform;
pub(super) use barn::Barn;
use hand::InHand;
pub(super) use sheaf::Held;
use sheaf::{UNWRITTEN, Want};

/// Caches that sheaves come from.
pub(super) const KINDS: usize = sheaf::SIZES.len();

/// One CPU's part of a cache, locked.
struct Part<'m, L: RawLock> {
    cpu: CpuId,
    slot: Slot<'m>,
    /// Objects that a sheaf of the cache has room for.
    capacity: u64,
    /// What the slot says when it has no main sheaf.
    none: Top,
    /// The CPU went offline, and nobody would look at what it is given.
    is_offline: bool,
    _slabs: Guard<'m, L, List<OfCpu>>,
}

impl<L: RawLock> Part<'_, L> {
    /// Where the main sheaf ends, if there is one.
    fn main(&self) -> Option<Top> {
        let top = Top::from_raw(self.slot.main.load(Acquire));
        (top != self.none).then_some(top)
    }

    /// Whether the main sheaf would do, which stays that of the CPU as long as this value; it may be over at once.
    fn meets(&self, want: Want) -> bool {
        self.main().is_some() && want.is_met_by(self.main_len(), self.capacity)
    }

    /// The sheaf whose last object is there; nothing if there is none.
    ///
    /// # Safety
    /// As for [`Held::from_top`], if it is one.
    unsafe fn held(&self, top: Top) -> Option<Held> {
        // SAFETY: the caller's promise, and each sheaf of a cache has the same capacity.
        (top != self.none).then(|| unsafe { Held::from_top(top, self.capacity) })
    }

    /// Objects in the main sheaf; that may be over at once.
    fn main_len(&self) -> u64 {
        self.main().map_or(0, |top| top.len(self.capacity))
    }

    fn take_spare(&mut self) -> Option<Held> {
        let word = self.slot.paired.load(Acquire);
        self.slot.paired.store(0, Release);
        // SAFETY: a sheaf that was put here by `keep`; no section looks at this word, and nobody without this lock.
        unsafe { Held::from_word(word) }
    }

    /// Makes it the spare, if there is none and the CPU is online.
    fn keep(&mut self, sheaf: Held) -> Result<(), Held> {
        if self.is_offline && !is_planted(Fault::KeepsOffline) || self.slot.paired.load(Acquire) != 0 {
            return Err(sheaf);
        }
        self.put_back(sheaf);
        Ok(())
    }

    /// Makes what [`take_spare`](Self::take_spare) gave the spare again.
    fn put_back(&mut self, sheaf: Held) {
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

    /// Whether an object is of this CPU's node, and so may go into its sheaves. linux: mm/slub.c:slab_free
    fn is_at_home(&self, object: ObjectAddress) -> bool {
        let home = self.pages.node_of(self.local.cpu());
        self.pages.nodes() == 1 || self.map.pfn(object.get()).is_some_and(|pfn| self.node_of(pfn) == home)
    }

    /// Whether the policy gives CPUs sheaves.
    pub(super) fn has_sheaves(&self) -> bool {
        self.pages.rules().slab.objects.has_sheaves()
    }

    fn part(&self, cpu: CpuId, cache: &Cache) -> Part<'s, P::Lock> {
        let of_cpu = self.of_cpu(cpu, cache.id);
        let slabs = of_cpu.lock();
        Part {
            cpu,
            slot: self.slot(cpu, cache.id),
            capacity: u64::from(cache.sheaf),
            none: self.no_sheaf(),
            is_offline: of_cpu.stack.is_closed(),
            _slabs: slabs,
        }
    }

    /// A node's barn of a cache, under its lock.
    fn barn(&self, node: NodeId, id: CacheId) -> Guard<'s, P::Lock, Barn> {
        self.barns[node.index() * self.caches.len() + id.index()].lock()
    }

    /// Has the barns of a new cache take as many sheaves with objects as it says.
    pub(super) fn set_up_barns(&self, cache: &Cache) {
        (0..self.pages.nodes()).map(NodeId).for_each(|node| self.barn(node, cache.id).keep_at_most(cache.full_sheaves));
    }

    /// An object, when the main sheaf has none.
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    pub(super) fn alloc_by_exchange(&self, cache: &Cache, gfp: Gfp) -> Result<ObjectAddress, ObjectError> {
        loop {
            match self.exchange(cache, Want::Objects) {
                Ok(()) => {}
                Err(Some(empty)) => return self.alloc_by_refill(cache, gfp, empty),
                Err(None) => match self.new_sheaf(cache, gfp) {
                    Some(empty) => return self.alloc_by_refill(cache, gfp, empty),
                    None => return self.alloc_singly(cache, gfp),
                },
            }
            if let Some(object) = self.local.pop_sheaf(self.slots(cache.id)) {
                return Ok(object);
            }
        }
    }

    /// Fills a sheaf, takes an object out of it, and leaves the rest to this CPU.
    fn alloc_by_refill(&self, cache: &Cache, gfp: Gfp, sheaf: Held) -> Result<ObjectAddress, ObjectError> {
        let mut object = [UNWRITTEN];
        let mut result = Ok(0);
        let mut hand = InHand::new(self, cache, Some(sheaf));
        hand.with(|sheaf| {
            sheaf.fill_by(|room| {
                result = self.take_objects(cache, gfp, room);
                result.unwrap_or(0)
            });
            sheaf.take(&mut object);
        });
        self.install(cache, hand);
        result.map(|_| object[0])
    }

    /// Allocates an object straight from a slab, where there is no sheaf for it.
    fn alloc_singly(&self, cache: &Cache, gfp: Gfp) -> Result<ObjectAddress, ObjectError> {
        let mut object = [UNWRITTEN];
        self.take_objects(cache, gfp, &mut object)?;
        Ok(object[0])
    }

    /// A free, when the main sheaf has no room, or there are several nodes.
    ///
    /// # Errors
    /// If the object is free already: the last one in the main sheaf, or in its slab, as far as a look tells.
    pub(super) fn free_by_exchange(&self, cache: &Cache, freed: Freed<'_>) -> Result<(), ObjectFreeError> {
        while self.is_at_home(freed.object()) {
            // SAFETY: `Freed` owns the object, which is of this cache.
            if unsafe { self.local.push_sheaf(self.slots(cache.id), freed.object()) } == Pushed::Done {
                return Ok(());
            }
            if self.is_last_in_main(cache, freed.object()) {
                return Err(ObjectFreeError::DoubleFree { address: freed.object().get() });
            }
            if let Err(full) = self.exchange(cache, Want::Room) {
                // Without memory for another one, the spare is emptied.
                let spare = || self.part(self.local.cpu(), cache).take_spare();
                let sheaf = full.or_else(|| self.new_sheaf(cache, Gfp::NOWAIT)).or_else(spare);
                if sheaf.is_none() {
                    break;
                }
                let mut hand = InHand::new(self, cache, sheaf);
                hand.with(|sheaf| self.flush_sheaf(cache, sheaf));
                self.install(cache, hand);
            }
        }
        if self.is_free_already(cache, freed) {
            return Err(ObjectFreeError::DoubleFree { address: freed.object().get() });
        }
        self.free_remote(cache, freed.slab(), freed.object());
        Ok(())
    }

    /// Whether an object is the last one that this CPU's main sheaf got. The sheaf is taken for the look.
    fn is_last_in_main(&self, cache: &Cache, object: ObjectAddress) -> bool {
        let part = self.part(self.local.cpu(), cache);
        let Ok(Some(main)) = self.replace_main(&part, None) else { return false };
        let is_last = main.objects().last() == Some(&object);
        self.set_main(part, cache, main, None);
        is_last
    }

    /// Gives this CPU a main sheaf that meets a want: the spare, or one of the barn's.
    ///
    /// # Errors
    /// If there is none: with the sheaf to fill, or to flush, for it; or with nothing, if that has to be made.
    fn exchange(&self, cache: &Cache, want: Want) -> Result<(), Option<Held>> {
        let cpu = self.local.cpu();
        let mut part = self.part(cpu, cache);
        if part.meets(want) {
            return Ok(());
        }
        let unfit = match part.take_spare() {
            Some(spare) if want.is_met(&spare) => {
                self.set_main(part, cache, spare, None);
                return Ok(());
            }
            unfit => unfit,
        };
        let mut barn = self.barn(self.pages.node_of(cpu), cache.id);
        let is_surplus = want == Want::Room && unfit.is_some() && barn.is_full();
        let found = if is_surplus { None } else { barn.take(want) };
        match (found, want) {
            (Some(fresh), _) => {
                drop(barn);
                self.set_main(part, cache, fresh, unfit);
                Ok(())
            }
            (None, Want::Objects) => Err(unfit.or_else(|| barn.take(Want::Room))),
            (None, Want::Room) if is_surplus => Err(unfit),
            (None, Want::Room) => {
                if let Some(full) = unfit {
                    part.put_back(full);
                }
                Err(None)
            }
        }
    }

    /// Makes a sheaf the main one, if the caller still runs on that CPU, and stows away what is left.
    fn set_main(&self, mut part: Part<'_, P::Lock>, cache: &Cache, fresh: Held, unfit: Option<Held>) {
        let over = self.replace_main(&part, Some(fresh)).unwrap_or_else(|fresh| fresh);
        let node = self.pages.node_of(part.cpu);
        let mut stow = |sheaf: Held| part.keep(sheaf).or_else(|sheaf| self.barn(node, cache.id).put(sheaf)).err();
        let surplus = [over.and_then(&mut stow), unfit.and_then(&mut stow)];
        drop(part);
        self.retire_sheaves(cache, surplus);
    }

    /// Puts a sheaf, or none, in the place of the main one, which then is in hand.
    ///
    /// # Errors
    /// With the sheaf, if the caller does not run on that CPU any more.
    fn replace_main(&self, part: &Part<'_, P::Lock>, fresh: Option<Held>) -> Result<Option<Held>, Option<Held>> {
        let fresh = fresh.map_or(part.none, Held::into_top);
        // SAFETY: each is one that has just left the word, by a section on its CPU; or one that never got there.
        let held = |top| unsafe { part.held(top) };
        loop {
            let former = Top::from_raw(part.slot.main.load(Acquire));
            if is_planted(Fault::ReplacesOutside) {
                part.slot.main.store(fresh.raw(), Release);
                return Ok(held(former));
            }
            match self.local.replace_if(part.cpu, Exchange::new(part.slot.main, former.raw(), fresh.raw())) {
                Replaced::Done => return Ok(held(former)),
                // Others that run on this CPU have taken an object out of it, or put one in.
                Replaced::Changed => {}
                Replaced::Moved => return Err(held(fresh)),
            }
        }
    }

    /// Finds a place for a sheaf that was filled, or flushed: as this CPU's main one, if that still will not do.
    fn install(&self, cache: &Cache, hand: InHand<'_, 's, 'm, P, C>) {
        let Some(fresh) = hand.pass() else { return };
        let want = if fresh.is_empty() { Want::Room } else { Want::Objects };
        let cpu = self.local.cpu();
        let part = self.part(cpu, cache);
        if !part.meets(want) {
            return self.set_main(part, cache, fresh, None);
        }
        self.stow(part, cache, fresh);
    }

    /// Puts a sheaf in the place of the spare, or into the barn, or retires it.
    fn stow(&self, mut part: Part<'_, P::Lock>, cache: &Cache, sheaf: Held) {
        let stowed = part.keep(sheaf).or_else(|sheaf| self.barn(self.pages.node_of(part.cpu), cache.id).put(sheaf));
        drop(part);
        if let Err(surplus) = stowed {
            self.retire_sheaf(cache, surplus);
        }
    }

    /// Takes a CPU's sheaves from it, and flushes them.
    ///
    /// The main one is drained as a list is ([`CpuLocal::drain`]): what stands in the word for none is one onto which
    /// no section pushes, and nobody but a section writes the word without this lock.
    pub(super) fn take_sheaves(&self, cpu: CpuId, cache: &Cache) {
        let mut part = self.part(cpu, cache);
        let top = Top::from_raw(self.local.drain(cpu, part.slot, part.none.raw()));
        // SAFETY: it was in the word, and no section knows it any more.
        let main = unsafe { part.held(top) };
        let spare = part.take_spare();
        drop(part);
        self.retire_sheaves(cache, [main, spare]);
    }

    /// Flushes sheaves, and gives their memory back.
    fn retire_sheaves(&self, cache: &Cache, sheaves: [Option<Held>; 2]) {
        let hands = sheaves.map(|sheaf| InHand::new(self, cache, sheaf));
        for hand in hands {
            if let Some(sheaf) = hand.pass() {
                self.retire_sheaf(cache, sheaf);
            }
        }
    }

    /// Flushes all sheaves of a node's barn, and frees them.
    pub(super) fn empty_barn(&self, node: NodeId, cache: &Cache) {
        loop {
            let Some(sheaf) = self.barn(node, cache.id).take_any() else { return };
            self.retire_sheaf(cache, sheaf);
        }
    }

    /// What is in all sheaves of a cache, for walkers.
    pub(super) fn each_sheaf(&self, cache: &Cache, mut look: impl FnMut(&Held)) {
        let id = cache.id;
        for cpu in self.pages.cpu_ids() {
            let slot = self.slot(cpu, id);
            let top = Top::from_raw(slot.main.load(Acquire));
            // SAFETY: nothing else runs while one walks, and the values end here.
            let main = (top != self.no_sheaf()).then(|| unsafe { Held::from_top(top, u64::from(cache.sheaf)) });
            // SAFETY: likewise, and no lock is needed then.
            let spare = unsafe { Held::from_word(slot.paired.load(Acquire)) };
            main.iter().chain(&spare).for_each(&mut look);
        }
        for node in (0..self.pages.nodes()).map(NodeId) {
            self.barn(node, id).iter().for_each(&mut look);
        }
    }
}
