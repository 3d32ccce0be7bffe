//! Reports, made where the damage is found, and handed to the platform once no lock is held.
//!
//! linux: mm/slub.c:object_err, cache_from_obj

use core::sync::atomic::Ordering::Relaxed;

use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::{ObjectFreeError, SlabAllocator, map};
use super::slot::{Fault, Slot};
use super::{Call, track};
use crate::platform::Platform;
use crate::platform::report::{Damage, Fix, ObjectReport, SlabBug, SlabReport, Track, Who};

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, P, C> {
    /// What is wrong with an object, by who has the lock of its slab's node.
    pub(super) fn found<'s>(&self, cache: &'s Cache, slot: &Slot<'_>, fault: Fault, fix: Fix) -> SlabReport<'s> {
        let Fault { bug, damage } = fault;
        let object = Some(self.describe(cache, slot, damage));
        SlabReport { bug, cache: cache.name.as_str(), address: slot.object(), damage, object, fix }
    }

    pub(super) fn describe(&self, cache: &Cache, slot: &Slot<'_>, damage: Option<Damage>) -> ObjectReport {
        let slab = slot.object() & cache.layout.mask;
        ObjectReport {
            address: slot.object(),
            slab,
            objects: cache.layout.objects,
            used: self.map.pfn(slab).map_or(0, |pfn| self.map.slab(pfn).local().used()),
            allocated: self.track(slot, track::ALLOCATED),
            freed: self.track(slot, track::FREED),
            sections: slot.sections(damage),
        }
    }

    /// Who allocated an object, or freed it, if that is known.
    pub(super) fn track(&self, slot: &Slot<'_>, which: u32) -> Option<Track> {
        track::read(slot.track(which)?, self.debugging.operations.load(Relaxed))
    }

    /// The words of a track of who calls now.
    pub(super) fn now(&self, call: Call) -> [u64; track::TRACK_WORDS] {
        let who = match self.pages.platform().caller() {
            0 => Who::Source(call.place),
            address => Who::Code(address),
        };
        track::written(who, self.local.cpu(), self.debugging.operations.fetch_add(1, Relaxed) + 1)
    }

    /// The error for an address that was given back to a cache in none of whose pages it is; reported if that cache is
    /// checked, or the one that it is of.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn refuse(&self, called: &Cache, address: u64) -> ObjectFreeError {
        let kind = self.map.kind_at(address).unwrap_or(map::NONE);
        let other = self.cache(kind);
        if called.is_checked() || other.is_some_and(Cache::is_checked) {
            let bug = other.map_or(SlabBug::Foreign, |other| SlabBug::WrongCache(other.name.as_str()));
            let object = other.and_then(|other| self.described(kind, other, address));
            let cache = called.name.as_str();
            let report = SlabReport { bug, cache, address, damage: None, object, fix: Fix::NotFreed };
            self.pages.platform().slab_error(&report);
        }
        match other {
            Some(_) => ObjectFreeError::WrongCache { address, cache: kind },
            None => ObjectFreeError::Foreign { address },
        }
    }

    /// Reports an address that was given back to `kfree`, and that it did not give out, if its caches are checked.
    pub(in super::super) fn report_foreign(&self, address: u64) {
        if !self.debugging.flags.is_empty() {
            let (bug, cache, fix) = (SlabBug::Foreign, "kmalloc", Fix::NotFreed);
            let report = SlabReport { bug, cache, address, damage: None, object: None, fix };
            self.pages.platform().slab_error(&report);
        }
    }

    /// Reports a free that was refused, for callers that have nobody to give the error to, unless it has been reported.
    pub(in super::super) fn report_refused(&self, error: ObjectFreeError) {
        let (address, bug) = match error {
            ObjectFreeError::Foreign { address } => (address, SlabBug::Foreign),
            ObjectFreeError::Interior { address } => (address, SlabBug::InvalidPointer),
            ObjectFreeError::DoubleFree { address } => (address, SlabBug::AlreadyFree),
            ObjectFreeError::WrongCache { .. } | ObjectFreeError::Damaged { .. } => return,
        };
        if self.debugging.flags.is_empty() {
            let cache = self.map.kind_at(address).and_then(|kind| self.cache(kind));
            let cache = cache.map_or("kmalloc", |cache| cache.name.as_str());
            let report = SlabReport { bug, cache, address, damage: None, object: None, fix: Fix::NotFreed };
            self.pages.platform().slab_error(&report);
        }
    }

    /// The object of a checked cache around an address.
    fn described(&self, id: u8, cache: &Cache, address: u64) -> Option<ObjectReport> {
        let pfn = self.map.pfn(address & cache.layout.mask)?;
        let object = cache.layout.object_around(address).filter(|_| cache.is_checked())?;
        let _list = self.of_node(self.node_of(pfn), id).lock();
        (self.map.kind(pfn) == id).then(|| self.describe(cache, &self.slot(cache, object), None))
    }
}
