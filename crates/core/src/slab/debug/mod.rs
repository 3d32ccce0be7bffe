//! Debugging: a cache made with any of [`CacheFlags::DEBUG`] has each allocation and each free checked.
//!
//! 1. CPUs hold no objects of such a cache, so that each request and each free comes here: fast paths find an empty list,
//!    and no address that is an object's ([`Hot`](super::hot::Hot)). Other caches pay nothing.
//! 2. Both are done under the lock of the slab's node, on the list that the slab keeps itself; pages are asked for and given back
//!    with no lock held. Costs the check of every byte around the object, and with poison of every byte in it.
//! 3. What is found damaged is reported ([`Platform::slab_error`]) once the lock is free, and is not used again: a free
//!    object is taken off its list for good, one in use is not freed. What lies around it is written anew, so that it is
//!    reported once.
//!
//! What an object looks like is in [`slot`], who had it in [`track`], walks over whole caches in [`validate`].
//!
//! linux: mm/slub.c:alloc_debug_processing, free_debug_processing, free_to_partial_list

mod letters;
mod report;
mod slot;
mod track;
mod validate;

use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

pub use letters::SlabDebugError;
pub(super) use slot::Spread;
pub use validate::InUse;

use super::cache::{Cache, CacheConfig, CacheFlags};
use super::cpu::CpuLocal;
use super::freelist::{Chain, link, set_link};
use super::partial::{List, OfNode};
use super::slab::Queue;
use super::word::{Local, end_mark, is_mark};
use super::{ObjectError, ObjectFreeError, SlabAllocator};
use crate::base::{Gfp, Pfn};
use crate::platform::Platform;
use crate::platform::report::{Fix, SlabBug, SlabReport};
use slot::{Fault, Slot, State};

/// What an allocator knows about its debugging.
#[derive(Debug)]
pub(super) struct Debugging {
    /// Checks that each cache makes, whatever it is asked for.
    pub flags: CacheFlags,
    /// Allocations and frees that were checked: the clock of tracks.
    operations: AtomicU64,
    taken_out: AtomicU64,
}

impl Debugging {
    /// Of an allocator whose caches all make these checks.
    pub const fn new(flags: CacheFlags) -> Debugging {
        Debugging { flags, operations: AtomicU64::new(0), taken_out: AtomicU64::new(0) }
    }

    /// What a cache is asked for, with those. linux: mm/slub.c:kmem_cache_flags
    pub fn applied<'a>(&self, config: &CacheConfig<'a>) -> CacheConfig<'a> {
        let flags = match config.constructor {
            Some(_) => self.flags - CacheFlags::POISON,
            None => self.flags,
        };
        config.with_flags(config.flags | flags)
    }
}

/// A request for an object, or a free, as its caller made it.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Bytes asked for; those of the cache's objects if that is more.
    pub asked: usize,
    /// Where in the program's source.
    pub place: &'static Location<'static>,
}

/// Why a free was refused, with what there is to be reported.
type Refusal<'s> = (ObjectFreeError, Option<SlabReport<'s>>);

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, P, C> {
    /// Objects that were found damaged, and that nobody gets any more.
    pub fn taken_out_of_use(&self) -> u64 {
        self.debugging.taken_out.load(Relaxed)
    }

    /// An object of a checked cache, not zeroed.
    pub(super) fn alloc_checked(
        &self,
        id: u8,
        cache: &Cache,
        gfp: Gfp,
        call: Call,
    ) -> Result<NonNull<u8>, ObjectError> {
        let object = loop {
            let node = self.pages.node_of(self.local.cpu());
            let mut list = self.of_node(node, id).lock();
            let found = list.first().map(|pfn| self.take_first(cache, pfn, &mut list, call));
            drop(list);
            match found {
                Some(Ok(object)) => break object,
                Some(Err(report)) => self.pages.platform().slab_error(&report),
                None => {
                    if let Some(object) = self.take_of_new(id, cache, gfp, call)? {
                        break object;
                    }
                }
            }
        };
        if gfp.contains(Gfp::ZERO) {
            let asked = call.asked.min(cache.layout.object_size as usize);
            // SAFETY: an object that was just taken off a list is ours, and has so many bytes.
            unsafe { object.write_bytes(0, asked) };
        }
        Ok(object)
    }

    /// An object of a new slab, on whichever node its pages are.
    fn take_of_new(&self, id: u8, cache: &Cache, gfp: Gfp, call: Call) -> Result<Option<NonNull<u8>>, ObjectError> {
        let pfn = self.new_slab(id, cache, gfp, self.pages.node_of(self.local.cpu()))?;
        let mut list = self.of_node(self.node_of(pfn), id).lock();
        list.push(self.map, pfn);
        let taken = self.take_first(cache, pfn, &mut list, call);
        drop(list);
        taken.map(Some).or_else(|report| {
            self.pages.platform().slab_error(&report);
            Ok(None)
        })
    }

    /// Takes the first free object of a listed slab, if nothing is wrong with it.
    fn take_first<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        list: &mut List<OfNode>,
        call: Call,
    ) -> Result<NonNull<u8>, SlabReport<'s>> {
        // Off the list and back: a slab that is counted as wholly free is so no more.
        list.remove(self.map, pfn);
        list.push(self.map, pfn);
        let taken = self.take_from(cache, pfn, list, call);
        self.unlist_if_exhausted(pfn, list);
        taken
    }

    fn take_from<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        list: &mut List<OfNode>,
        call: Call,
    ) -> Result<NonNull<u8>, SlabReport<'s>> {
        let (slab, base) = (self.map.slab(pfn), self.map.address(pfn));
        let local = slab.local();
        let slot = self.slot(cache, local.list());
        let sound = inspect_free(&slot).and_then(|()| next_of(cache, base, &slot));
        match sound {
            Ok(next) => {
                let asked = call.asked.min(cache.layout.object_size as usize) as u32;
                slab.set_local(Local::new(next, local.used() + 1));
                slot.become_state(State::InUse, asked);
                slot.set_track(track::ALLOCATED, self.now(call));
                Ok(NonNull::new(slot.object() as *mut u8).expect("no object is at address 0"))
            }
            Err(fault) => {
                let report = self.found(cache, &slot, fault, fix_of(&slot));
                if report.fix == Fix::TakenOut {
                    self.take_out(&slot);
                }
                self.relink(cache, pfn, list);
                Err(report)
            }
        }
    }

    /// Gives an address back that is in a page of a checked cache.
    ///
    /// # Errors
    /// If there is no object, or it is free, or damaged; that is reported too, and nothing is freed.
    pub(super) fn free_checked(&self, id: u8, cache: &Cache, object: u64, call: Call) -> Result<(), ObjectFreeError> {
        let Some(pfn) = self.map.pfn(object & cache.layout.mask) else {
            return Err(ObjectFreeError::Foreign { address: object });
        };
        let mut list = self.of_node(self.node_of(pfn), id).lock();
        let freed = self.free_listed(id, cache, pfn, object, &mut list, call);
        drop(list);
        match freed {
            Ok(None) => Ok(()),
            Ok(Some(idle)) => {
                self.discard(id, cache, idle);
                Ok(())
            }
            Err((error, report)) => {
                report.iter().for_each(|report| self.pages.platform().slab_error(report));
                Err(error)
            }
        }
    }

    /// The same under the lock of the slab's node; the slab, if it is to be given back.
    fn free_listed<'s>(
        &self,
        id: u8,
        cache: &'s Cache,
        pfn: Pfn,
        address: u64,
        list: &mut List<OfNode>,
        call: Call,
    ) -> Result<Option<Pfn>, Refusal<'s>> {
        if self.map.kind(pfn) != id {
            return Err((ObjectFreeError::Foreign { address }, None));
        }
        let Some(object) = cache.layout.object_around(address) else {
            let (bug, cache) = (SlabBug::InvalidPointer, cache.name.as_str());
            let report = SlabReport { bug, cache, address, damage: None, object: None, fix: Fix::NotFreed };
            return Err((ObjectFreeError::Interior { address }, Some(report)));
        };
        let slot = self.slot(cache, object);
        self.expect_in_use(cache, &slot, address)?;
        if cache.flags.contains(CacheFlags::SANITY) {
            self.expect_free_list(cache, pfn, list)
                .map_err(|report| (ObjectFreeError::Damaged { address }, Some(report)))?;
        }
        slot.prepare(State::Free, 0);
        slot.set_track(track::FREED, self.now(call));
        let slab = self.map.slab(pfn);
        let local = slab.local();
        // SAFETY: an object in use of this slab, which its user gave back, and which is on no list.
        unsafe { set_link(object, local.list(), cache.links) };
        slab.set_local(local.with_freed(object));
        if slab.queue() == Queue::Push {
            list.push(self.map, pfn);
        }
        Ok(self.idle(cache, pfn, list))
    }

    /// Whether an address is that of an object in use, with nothing wrong. linux: mm/slub.c:free_consistency_checks
    fn expect_in_use<'s>(&self, cache: &'s Cache, slot: &Slot<'_>, address: u64) -> Result<(), Refusal<'s>> {
        let refuse = |bug| {
            let mut report = self.found(cache, slot, Fault { bug, damage: None }, Fix::NotFreed);
            report.address = address;
            Some(report)
        };
        if address != slot.object() {
            return Err((ObjectFreeError::Interior { address }, refuse(SlabBug::InvalidPointer)));
        }
        if matches!(slot.state(), Some((State::Free | State::Gone, _))) {
            return Err((ObjectFreeError::DoubleFree { address }, refuse(SlabBug::AlreadyFree)));
        }
        inspect_in_use(slot, cache).map_err(|fault| {
            let report = self.found(cache, slot, fault, Fix::NotFreed);
            self.take_out(slot);
            (ObjectFreeError::Damaged { address }, Some(report))
        })
    }

    /// Counts a slab that has become wholly free, or takes it off the list for good if the node has enough of them.
    fn idle(&self, cache: &Cache, pfn: Pfn, list: &mut List<OfNode>) -> Option<Pfn> {
        let slab = self.map.slab(pfn);
        if slab.local().used() > 0 || !list.has(slab) {
            return None;
        }
        if list.wholly_free() < cache.limits.node_free {
            list.count_free(slab);
            return None;
        }
        list.remove(self.map, pfn);
        Some(pfn)
    }

    /// Prepares the objects of a new slab, before they are linked.
    pub(super) fn prepare_checked(&self, cache: &Cache, base: u64) {
        cache.layout.objects_of(base).for_each(|object| self.slot(cache, object).prepare(State::Free, 0));
    }

    /// Bytes that were asked for when an object of a checked cache was allocated.
    pub(super) fn asked(&self, cache: &Cache, object: u64) -> usize {
        self.slot(cache, object).state().map_or(cache.layout.object_size, |(_, asked)| asked) as usize
    }

    /// Takes an object out of use. What its last user, or whoever damaged it, left in it stays.
    fn take_out(&self, slot: &Slot<'_>) {
        slot.become_state(State::Gone, 0);
        self.debugging.taken_out.fetch_add(1, Relaxed);
    }

    /// Links the free objects of a slab anew, by what they say they are.
    fn relink(&self, cache: &Cache, pfn: Pfn, list: &mut List<OfNode>) {
        let base = self.map.address(pfn);
        let is_free = |object: &u64| matches!(self.slot(cache, *object).state(), Some((State::Free, _)));
        // SAFETY: all free objects of this slab, which are listed nowhere else, under its node's lock.
        let chain = unsafe { Chain::build(base, cache.layout.objects_of(base).filter(is_free), cache.links) };
        self.map.slab(pfn).set_local(Local::new(chain.head, cache.layout.objects - chain.len));
        self.unlist_if_exhausted(pfn, list);
    }

    /// Takes a slab off its node's list if nothing in it is free; the next free lists it again.
    fn unlist_if_exhausted(&self, pfn: Pfn, list: &mut List<OfNode>) {
        let slab = self.map.slab(pfn);
        if is_mark(slab.local().list()) && list.has(slab) {
            list.remove(self.map, pfn);
            let is_unqueued = slab.unqueue(self.map.address(pfn));
            debug_assert!(is_unqueued, "nobody frees past the node's lock");
        }
    }

    fn slot<'c>(&self, cache: &'c Cache, object: u64) -> Slot<'c> {
        debug_assert!(cache.is_checked());
        // SAFETY: callers take the object from its slab's list, or found its page to be this cache's, under the node's lock.
        unsafe { Slot::new(cache, object) }
    }
}

/// Whether a free object is what it should be.
fn inspect_free(slot: &Slot<'_>) -> Result<(), Fault> {
    match slot.state() {
        // Whatever led here, it was no link of ours.
        Some((State::InUse | State::Gone, _)) => Err(Fault { bug: SlabBug::FreePointer, damage: None }),
        _ => slot.inspect(State::Free, 0),
    }
}

/// Whether an object in use is what it should be.
fn inspect_in_use(slot: &Slot<'_>, cache: &Cache) -> Result<(), Fault> {
    match slot.state() {
        Some((_, asked)) => slot.inspect(State::InUse, asked),
        None => {
            slot.inspect(State::InUse, cache.layout.object_size)?;
            Err(Fault { bug: SlabBug::State, damage: None })
        }
    }
}

/// The object behind a free one, if its link leads to one of its slab, or ends there.
fn next_of(cache: &Cache, base: u64, slot: &Slot<'_>) -> Result<u64, Fault> {
    // SAFETY: a free object, under its node's lock.
    let next = unsafe { link(slot.object(), cache.links) };
    let is_sound = next == end_mark(base) || (next & cache.layout.mask == base && cache.layout.is_object(next));
    if is_sound { Ok(next) } else { Err(Fault { bug: SlabBug::FreePointer, damage: None }) }
}

/// What is done about an object that a list led to, and that is not what it should be.
fn fix_of(slot: &Slot<'_>) -> Fix {
    match slot.state() {
        Some((State::InUse | State::Gone, _)) => Fix::Relinked,
        _ => Fix::TakenOut,
    }
}
