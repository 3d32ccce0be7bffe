//! Walks over whole checked caches, which find damaged objects and list objects in use.
//!
//! The lock of a slab's node is held for one object at a time, so that allocations meanwhile wait only briefly, and
//! reports are made with no lock held. Objects that are allocated or freed meanwhile may be visited or not.
//!
//! linux: mm/slub.c:validate_slab_cache, on_freelist, list_slab_objects

use super::super::SlabAllocator;
use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::word::{first_object, is_mark};
use super::object::Object;
use super::repair::{inspect_free, inspect_in_use, next_of};
use super::state::{Fault, State};
use super::{LockedNode, track};
use crate::base::Pfn;
use crate::platform::Platform;
use crate::platform::report::{Fix, SlabBug, Track};

/// Object in use, as walks over a cache show it.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    /// Address of the object's first byte.
    pub address: u64,
    /// Offset of the object from the start of its slab, in bytes.
    pub offset: u64,
    /// Record of the object's allocation, if the cache has tracks.
    pub allocated: Option<Track>,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Checks every object of every checked cache, and reports damaged objects. Returns their number.
    ///
    /// Damaged objects in use are repaired, so that each is reported once; damaged free objects are not used again.
    pub fn validate(&self) -> u64 {
        self.each_cache().map(|cache| self.validate_cache(&cache)).sum()
    }

    /// Checks every object of a cache, and returns the number of damaged ones; returns 0 if the cache is not checked.
    pub(in super::super) fn validate_cache(&self, cache: &Cache) -> u64 {
        let mut damaged = 0;
        self.visit_checked_objects(
            cache,
            |pfn, object, held| {
                match self.is_free(cache, pfn, object) {
                    Some(true) => self.validate_free(cache, pfn, object, held),
                    Some(false) => self.validate_in_use(cache, object, held),
                    None => {}
                }
                held.found.is_some()
            },
            |is_damaged| damaged += u64::from(is_damaged),
        );
        damaged
    }

    /// Calls `visit` for every object of a checked cache that is in use.
    pub(in super::super) fn each_in_use(&self, cache: &Cache, mut visit: impl FnMut(&InUse)) {
        self.visit_checked_objects(
            cache,
            |_, object, _| {
                let (State::InUse, _) = object.state()? else { return None };
                let address = object.address().get();
                let allocated = self.track(object, track::ALLOCATED);
                Some(InUse { address, offset: cache.layout.mask.offset_of(address), allocated })
            },
            |seen| seen.iter().for_each(&mut visit),
        );
    }

    /// Returns whether a wholly free slab that the caller holds may be discarded, which is so if its cache is not
    /// checked or all its objects are undamaged. Otherwise the damaged objects are reported and taken out of use, and
    /// the slab goes back on its node's list, since the faulty code may write to the same memory again. linux:
    /// mm/slub.c:free_slab
    pub(in super::super) fn may_discard(&self, cache: &Cache, pfn: Pfn) -> bool {
        if !self.is_checked(cache) {
            return true;
        }
        let mut is_sound = true;
        for object in cache.layout.objects_of(self.map.slab_address(pfn)) {
            let object = self.object(cache, object);
            if matches!(object.state(), Some((State::Gone, _))) {
                is_sound = false;
            } else if let Err(fault) = inspect_free(&object) {
                is_sound = false;
                self.pages.platform().slab_error(&self.new_report(cache, &object, fault, Fix::TakenOut));
                self.take_out(&object);
            }
        }
        if !is_sound {
            let mut list = self.node_partial(self.node_of(pfn), cache.id).lock();
            list.push(self.map, pfn);
            self.relink(cache, pfn, &mut list);
        }
        is_sound
    }

    /// Checks that a slab's list consists of all free objects of the slab, and rebuilds the list if it does not. linux:
    /// mm/slub.c:on_freelist
    pub(super) fn repair_freelist<'s>(&self, cache: &'s Cache, pfn: Pfn, held: &mut LockedNode<'_, 's, P::Lock>) {
        let local = self.map.slab(pfn).local();
        let free = cache.layout.objects - local.used();
        let mut at = local.list(self.map.slab_address(pfn).get());
        for nth in 1..=free {
            let object = self.object(cache, ObjectAddress::new(at));
            let next = match object.state() {
                Some((State::InUse | State::Gone, _)) => Err(Fault::new(SlabBug::FreePointer)),
                _ => next_of(cache, self.map.slab_address(pfn), &object),
            };
            match next {
                Ok(next) if is_mark(next) == (nth == free) => at = next,
                _ => {
                    held.found = Some(self.new_report(cache, &object, Fault::new(SlabBug::FreePointer), Fix::Relinked));
                    self.take_out_unreadable(cache, pfn);
                    return self.relink(cache, pfn, &mut held.list);
                }
            }
        }
    }

    fn validate_free<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        object: &Object<'_>,
        held: &mut LockedNode<'_, 's, P::Lock>,
    ) {
        let next = inspect_free(object).and_then(|()| next_of(cache, self.map.slab_address(pfn), object));
        if let Err(fault) = next {
            self.take_out_free(cache, pfn, object, fault, held);
        }
    }

    fn validate_in_use<'s>(&self, cache: &'s Cache, object: &Object<'_>, held: &mut LockedNode<'_, 's, P::Lock>) {
        if let Err(fault) = inspect_in_use(object, cache) {
            held.found = Some(self.new_report(cache, object, fault, Fix::Restored));
            let requested = object.state().map_or(cache.layout.object_size, |(_, requested)| requested);
            object.prepare(State::InUse, requested);
        }
    }

    /// Returns whether an object is free, or `None` if it was taken out of use. An object with an invalid state word is
    /// free if it is on its slab's list.
    fn is_free(&self, cache: &Cache, pfn: Pfn, object: &Object<'_>) -> Option<bool> {
        match object.state() {
            Some((State::Gone, _)) => None,
            Some((state, _)) => Some(state == State::Free),
            None => Some(self.is_listed(cache, pfn, object.address())),
        }
    }

    fn is_listed(&self, cache: &Cache, pfn: Pfn, object: ObjectAddress) -> bool {
        let mut at = self.map.slab(pfn).local().list(self.map.slab_address(pfn).get());
        for _ in 0..cache.layout.objects {
            let Some(first) = first_object(at) else { return false };
            if first == object {
                return true;
            }
            let Ok(next) = next_of(cache, self.map.slab_address(pfn), &self.object(cache, first)) else { return false };
            at = next;
        }
        false
    }

    /// Calls `look` for every object of a checked cache under its node's lock, and passes each result to `then` with no
    /// lock held. Does nothing for a cache that is not checked.
    fn visit_checked_objects<'s, T>(
        &self,
        cache: &'s Cache,
        mut look: impl FnMut(Pfn, &Object<'s>, &mut LockedNode<'_, 's, P::Lock>) -> T,
        mut then: impl FnMut(T),
    ) {
        for pfn in self.map.slabs_of_cache(cache.id, cache.layout.order).filter(|_| self.is_checked(cache)) {
            for object in cache.layout.objects_of(self.map.slab_address(pfn)) {
                let mut held = self.lock_node(self.node_of(pfn), cache.id);
                // The slab may have been discarded meanwhile, or is about to be.
                if !self.stays(cache.id, pfn, &held) {
                    break;
                }
                let seen = look(pfn, &self.object(cache, object), &mut held);
                self.unlock_and_report(held);
                then(seen);
            }
        }
    }
}
