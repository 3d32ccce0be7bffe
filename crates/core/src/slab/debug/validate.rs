//! Walks over whole slabs of checked caches: for objects that are damaged, and for those that are in use.
//!
//! The lock of a slab's node is held for one object at a time, so that who allocates meanwhile waits for little, and
//! reports are made with no lock held. What comes and goes meanwhile is seen or not.
//!
//! linux: mm/slub.c:validate_slab_cache, on_freelist, list_slab_objects

use super::super::SlabAllocator;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::partial::{List, OfNode};
use super::super::word::is_mark;
use super::slot::{Fault, Slot, State};
use super::{fix_of, inspect_free, inspect_in_use, next_of, track};
use crate::base::Pfn;
use crate::platform::Platform;
use crate::platform::report::{Fix, SlabBug, SlabReport, Track};

/// An object that somebody has.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    /// Its address.
    pub address: u64,
    /// Its offset in its slab.
    pub offset: u64,
    /// Who allocated it, if the cache remembers.
    pub allocated: Option<Track>,
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, P, C> {
    /// Looks at every object of every checked cache, and reports those that are damaged; says how many there were.
    ///
    /// Those in use are mended, so that they are reported once; free ones are not used again.
    pub fn validate(&self) -> u64 {
        self.cache_ids().map(|(id, cache)| self.validate_cache(id, cache)).sum()
    }

    /// The same for one cache; 0 if it is not checked.
    pub(in super::super) fn validate_cache(&self, id: u8, cache: &Cache) -> u64 {
        let mut damaged = 0;
        self.each_object(id, cache, |pfn, slot, list| {
            let report = match self.is_free(cache, pfn, slot) {
                Some(true) => self.validate_free(cache, pfn, slot, list),
                Some(false) => self.validate_in_use(cache, slot),
                None => None,
            };
            damaged += u64::from(report.is_some());
            report
        });
        damaged
    }

    /// Shows every object of a checked cache that is in use.
    pub(in super::super) fn each_in_use(&self, id: u8, cache: &Cache, mut visit: impl FnMut(&InUse)) {
        self.each_object(id, cache, |_, slot, _| {
            if let Some((State::InUse, _)) = slot.state() {
                let address = slot.object();
                let allocated = self.track(slot, track::ALLOCATED);
                visit(&InUse { address, offset: address & !cache.layout.mask, allocated });
            }
            None
        });
    }

    /// Whether nothing is wrong with a wholly free slab that the caller holds: it may go. If something is, the slab stays,
    /// without the objects in question: whoever wrote there may do it again. linux: mm/slub.c:__free_slab
    pub(in super::super) fn may_go(&self, id: u8, cache: &Cache, pfn: Pfn) -> bool {
        if !cache.is_checked() {
            return true;
        }
        let mut is_sound = true;
        for object in cache.layout.objects_of(self.map.address(pfn)) {
            let slot = self.slot(cache, object);
            if matches!(slot.state(), Some((State::Gone, _))) {
                is_sound = false;
            } else if let Err(fault) = inspect_free(&slot) {
                is_sound = false;
                self.pages.platform().slab_error(&self.found(cache, &slot, fault, Fix::TakenOut));
                self.take_out(&slot);
            }
        }
        if !is_sound {
            let mut list = self.of_node(self.node_of(pfn), id).lock();
            list.push(self.map, pfn);
            self.relink(cache, pfn, &mut list);
        }
        is_sound
    }

    /// Whether a slab's list is made of its free objects, and of all of them. linux: mm/slub.c:on_freelist
    ///
    /// # Errors
    /// What is wrong; the list was made anew.
    pub(super) fn expect_free_list<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        list: &mut List<OfNode>,
    ) -> Result<(), SlabReport<'s>> {
        let (base, local) = (self.map.address(pfn), self.map.slab(pfn).local());
        let mut at = local.list();
        let free = cache.layout.objects - local.used();
        for nth in 1..=free {
            let slot = self.slot(cache, at);
            let next = match slot.state() {
                Some((State::InUse | State::Gone, _)) => Err(Fault { bug: SlabBug::FreePointer, damage: None }),
                _ => next_of(cache, base, &slot),
            };
            at = match next {
                Ok(next) if is_mark(next) == (nth == free) => next,
                _ => {
                    let fault = Fault { bug: SlabBug::FreePointer, damage: None };
                    let report = self.found(cache, &slot, fault, Fix::Relinked);
                    self.relink(cache, pfn, list);
                    return Err(report);
                }
            };
        }
        Ok(())
    }

    fn validate_free<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        slot: &Slot<'_>,
        list: &mut List<OfNode>,
    ) -> Option<SlabReport<'s>> {
        let sound = inspect_free(slot).and_then(|()| next_of(cache, self.map.address(pfn), slot).map(|_| ()));
        let report = self.found(cache, slot, sound.err()?, fix_of(slot));
        self.take_out(slot);
        self.relink(cache, pfn, list);
        Some(report)
    }

    fn validate_in_use<'s>(&self, cache: &'s Cache, slot: &Slot<'_>) -> Option<SlabReport<'s>> {
        let fault = inspect_in_use(slot, cache).err()?;
        let report = self.found(cache, slot, fault, Fix::Restored);
        let asked = slot.state().map_or(cache.layout.object_size, |(_, asked)| asked);
        slot.prepare(State::InUse, asked);
        Some(report)
    }

    /// Whether an object is free; nothing if it was taken out of use. One whose own word says nothing is free if it is
    /// listed.
    fn is_free(&self, cache: &Cache, pfn: Pfn, slot: &Slot<'_>) -> Option<bool> {
        match slot.state() {
            Some((State::Gone, _)) => None,
            Some((state, _)) => Some(state == State::Free),
            None => Some(self.is_listed(cache, pfn, slot.object())),
        }
    }

    fn is_listed(&self, cache: &Cache, pfn: Pfn, object: u64) -> bool {
        let mut at = self.map.slab(pfn).local().list();
        for _ in 0..cache.layout.objects {
            if is_mark(at) || at == object {
                return at == object;
            }
            let Ok(next) = next_of(cache, self.map.address(pfn), &self.slot(cache, at)) else { return false };
            at = next;
        }
        false
    }

    /// Every object of a checked cache, under its node's lock; what is found is reported without.
    fn each_object<'s>(
        &self,
        id: u8,
        cache: &'s Cache,
        mut look: impl FnMut(Pfn, &Slot<'s>, &mut List<OfNode>) -> Option<SlabReport<'s>>,
    ) {
        for pfn in self.map.of_kind(id, cache.layout.order).filter(|_| cache.is_checked()) {
            for object in cache.layout.objects_of(self.map.address(pfn)) {
                let mut list = self.of_node(self.node_of(pfn), id).lock();
                // It may have gone meanwhile, or be about to.
                let slab = self.map.slab(pfn);
                if self.map.kind(pfn) != id || (slab.local().used() == 0 && !list.has(slab)) {
                    break;
                }
                let report = look(pfn, &self.slot(cache, object), &mut list);
                drop(list);
                report.iter().for_each(|report| self.pages.platform().slab_error(report));
            }
        }
    }
}
