//! Reports of damage and refused frees. They are made where the damage is found, and passed to the platform after all
//! locks are released.
//!
//! linux: mm/slub.c:object_err, cache_from_obj

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::layout::TRACK_WORDS;
use super::super::{ObjectFreeError, SlabAllocator, map};
use super::object::Object;
use super::state::Fault;
use super::{Call, track};
use crate::platform::Platform;
use crate::platform::report::{Damage, Fix, ObjectReport, SECTION_MAX, Section, SlabBug, SlabReport, Track, Who};

/// Bytes of a red zone or of padding that a report shows.
const SHOWN: u32 = 16;
const ROW: u32 = 16;

impl Object<'_> {
    /// Returns bytes of each part of an object's space: up to [`SECTION_MAX`] of the object, up to [`SHOWN`] of a red
    /// zone and of the padding. The bytes are those around the damage in the damaged part, the last of the left red
    /// zone, and the first otherwise. linux: mm/slub.c:print_trailer
    pub(super) fn sections(&self, damage: Option<Damage>) -> [Section; 4] {
        let hit = damage.map(|damage| (damage.start - self.start()) as u32);
        let left = self.left();
        let parts = [
            ("Redzone", left.end.saturating_sub(SHOWN).max(left.start)..left.end),
            ("Object", self.object_part()),
            ("Redzone", self.right()),
            ("Padding", self.padding()),
        ];
        parts.map(|(name, part)| self.section(name, part, hit))
    }

    fn section(&self, name: &'static str, part: Range<u32>, hit: Option<u32>) -> Section {
        let row = hit.filter(|hit| part.contains(hit)).map_or(0, |hit| (hit - part.start) / ROW);
        let start = part.start + row.saturating_sub(1) * ROW;
        let most = if name == "Object" { SECTION_MAX as u32 } else { SHOWN };
        let len = (part.end - start).min(most) as usize;
        let mut bytes = [0; SECTION_MAX];
        bytes[..len].copy_from_slice(self.bytes(start..start + len as u32));
        Section { name, start: self.start() + u64::from(start), len, bytes }
    }
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Creates a report of a damaged object. The caller has the lock of its slab's node.
    pub(super) fn new_report<'s>(
        &self,
        cache: &'s Cache,
        object: &Object<'_>,
        fault: Fault,
        fix: Fix,
    ) -> SlabReport<'s> {
        let Fault { bug, damage } = fault;
        let (address, described) = (object.address().get(), self.describe(cache, object, damage));
        SlabReport { bug, cache: cache.name.as_str(), address, damage, object: Some(described), fix }
    }

    pub(super) fn describe(&self, cache: &Cache, object: &Object<'_>, damage: Option<Damage>) -> ObjectReport {
        let slab = object.address().slab(cache.layout.mask).get();
        ObjectReport {
            address: object.address().get(),
            slab,
            objects: cache.layout.objects,
            used: self.map.pfn(slab).map_or(0, |pfn| self.map.slab(pfn).local().used()),
            allocated: self.track(object, track::ALLOCATED),
            freed: self.track(object, track::FREED),
            sections: object.sections(damage),
        }
    }

    /// Returns the track of an object's allocation or free, if it is valid.
    pub(super) fn track(&self, object: &Object<'_>, which: u32) -> Option<Track> {
        track::decode(object.track(which)?, self.debugging.operations.load(Relaxed))
    }

    /// Returns the words of a track of the current call, and advances the clock of tracks by one.
    pub(super) fn now(&self, call: Call) -> [u64; TRACK_WORDS] {
        let who = match self.pages.platform().caller() {
            0 => Who::Source(call.place),
            address => Who::Code(address),
        };
        track::encode(who, self.local.cpu(), self.debugging.operations.fetch_add(1, Relaxed) + 1)
    }

    /// Returns the error for an address that was freed to a cache but is in none of its pages. Reports it if that cache
    /// or the address's cache is checked, or if the platform requests reports of all refused frees.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn refuse(&self, called: &Cache, freed: ObjectAddress) -> ObjectFreeError {
        let address = freed.get();
        let kind = self.map.kind_at::<P>(address).unwrap_or(map::NONE);
        let found = self.find_cache(kind);
        let other = found.as_deref();
        let is_checked = self.is_checked(called) || other.is_some_and(|other| self.is_checked(other));
        if is_checked || P::REPORTS_REFUSED_FREES {
            let bug = other.map_or(SlabBug::Foreign, |other| SlabBug::WrongCache(other.name.as_str()));
            let object = other.and_then(|other| self.describe_address(other, address));
            let cache = called.name.as_str();
            let report = SlabReport { bug, cache, address, damage: None, object, fix: Fix::NotFreed };
            self.pages.platform().slab_error(&report);
        }
        match other {
            Some(_) => ObjectFreeError::WrongCache { address, cache: kind },
            None => ObjectFreeError::Foreign { address },
        }
    }

    /// Returns the error of a refused free, after reporting it if the platform requests reports of all refused frees.
    #[inline(always)]
    pub(in super::super) fn refused(&self, error: ObjectFreeError) -> ObjectFreeError {
        if P::REPORTS_REFUSED_FREES {
            self.report_refused(error);
        }
        error
    }

    /// Returns the error for an address that was passed to `kfree` and is in no cache. Reports it if all caches are
    /// checked (`slab_debug`), or if the platform requests reports of all refused frees.
    pub(in super::super) fn refused_large(&self, error: ObjectFreeError) -> ObjectFreeError {
        match error {
            ObjectFreeError::Foreign { address } | ObjectFreeError::Interior { address }
                if !self.debugging.flags.is_empty() =>
            {
                self.report_free(SlabBug::Foreign, "kmalloc", address);
                error
            }
            _ => self.refused(error),
        }
    }

    fn report_free(&self, bug: SlabBug<'_>, cache: &str, address: u64) {
        let report = SlabReport { bug, cache, address, damage: None, object: None, fix: Fix::NotFreed };
        self.pages.platform().slab_error(&report);
    }

    /// Reports a refused free whose error cannot be returned to a caller. Does nothing for errors that are always
    /// reported where they are found; while all caches are checked (`slab_debug`), this is assumed of all errors,
    /// unless the platform requests reports of all refused frees.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn report_refused(&self, error: ObjectFreeError) {
        let (address, bug) = match error {
            ObjectFreeError::Foreign { address } => (address, SlabBug::Foreign),
            ObjectFreeError::Interior { address } => (address, SlabBug::InvalidPointer),
            ObjectFreeError::DoubleFree { address } => (address, SlabBug::AlreadyFree),
            ObjectFreeError::WrongCache { .. } | ObjectFreeError::Damaged { .. } => return,
        };
        if P::REPORTS_REFUSED_FREES || self.debugging.flags.is_empty() {
            let found = self.map.kind_at::<P>(address).and_then(|kind| self.find_cache(kind));
            let cache = found.as_ref().map_or("kmalloc", |cache| cache.name.as_str());
            self.report_free(bug, cache, address);
        }
    }

    /// Returns a description of the object whose space contains an address. Returns `None` if the cache is not checked,
    /// or the page does not belong to it any more. Takes the node's lock.
    fn describe_address(&self, cache: &Cache, address: u64) -> Option<ObjectReport> {
        let pfn = self.map.pfn(cache.layout.mask.slab_around(address).get())?;
        let object = cache.layout.object_around(address).filter(|_| self.is_checked(cache))?;
        let _list = self.node_partial(self.node_of(pfn), cache.id).lock();
        (self.map.kind(pfn) == cache.id).then(|| self.describe(cache, &self.object(cache, object), None))
    }
}
