//! Free to a checked cache: the address must be that of an object that is in use and undamaged.
//!
//! linux: mm/slub.c:free_to_partial_list, free_debug_processing

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::config::CacheFlags;
use super::super::cpu::CpuLocal;
use super::super::freelist::set_freepointer;
use super::super::partial::{List, NodePartial};
use super::super::slab::Queue;
use super::super::{ObjectFreeError, SlabAllocator};
use super::object::Object;
use super::repair::inspect_in_use;
use super::state::{Fault, State};
use super::{Call, LockedNode, track};
use crate::base::Pfn;
use crate::platform::Platform;
use crate::platform::report::{Fix, SlabBug, SlabReport};

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Frees an address that is in a page of a checked cache.
    ///
    /// # Errors
    /// If no object starts there, or the object is free or damaged; nothing is freed then, and a damaged object is
    /// taken out of use. These errors are reported to the platform too. If the page does not belong to the cache any
    /// more, the error is reported only if the platform requests reports of all refused frees.
    pub(in super::super) fn free_checked(
        &self,
        cache: &Cache,
        object: ObjectAddress,
        call: Call,
    ) -> Result<(), ObjectFreeError> {
        let Some(pfn) = self.map.pfn(object.slab(cache.layout.mask).get()) else {
            return Err(self.refused(ObjectFreeError::Foreign { address: object.get() }));
        };
        let mut held = self.lock_node(self.node_of(pfn), cache.id);
        let freed = if self.map.kind(pfn) == cache.id {
            self.free_held(cache, pfn, object, &mut held, call)
        } else {
            Err(ObjectFreeError::Foreign { address: object.get() })
        };
        let is_reported = held.found.is_some();
        self.unlock_and_report(held);
        if let Some(idle) = freed.map_err(|error| if is_reported { error } else { self.refused(error) })? {
            self.discard_slab(cache, idle);
        }
        Ok(())
    }

    /// Frees an address under the lock of the slab's node. Returns the slab if the caller must discard it, otherwise
    /// `None`.
    ///
    /// # Errors
    /// If no object starts at the address, or if the object is free or damaged. The report is left in `held`.
    fn free_held<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        address: ObjectAddress,
        held: &mut LockedNode<'_, 's, P::Lock>,
        call: Call,
    ) -> Result<Option<Pfn>, ObjectFreeError> {
        let object = self.expect_object(cache, address, held)?;
        self.expect_in_use(cache, &object, held)?;
        if cache.flags.contains(CacheFlags::SANITY) {
            self.repair_freelist(cache, pfn, held);
        }
        object.prepare(State::Free, 0);
        object.set_track(track::FREED, self.now(call));
        let slab = self.map.slab(pfn);
        let local = slab.local();
        // SAFETY: the object was in use and on no list, and its user has freed it, so no other code uses it.
        unsafe { set_freepointer(object.address(), local.list(object.address().get()), cache.links) };
        slab.set_local(local.with_freed(object.address()));
        if slab.queue() == Queue::Push {
            held.list.push(self.map, pfn);
        }
        Ok(self.idle(cache, pfn, &mut held.list))
    }

    /// Returns the object that starts at an address of a slab.
    ///
    /// # Errors
    /// If no object starts at the address. The report is left in `held`.
    fn expect_object<'s>(
        &self,
        cache: &'s Cache,
        address: ObjectAddress,
        held: &mut LockedNode<'_, 's, P::Lock>,
    ) -> Result<Object<'s>, ObjectFreeError> {
        let around = cache.layout.object_around(address.get()).map(|object| self.object(cache, object));
        if let Some(object) = around.filter(|object| object.address() == address) {
            return Ok(object);
        }
        let object = around.map(|object| self.describe(cache, &object, None));
        held.found = Some(SlabReport {
            bug: SlabBug::InvalidPointer,
            cache: cache.name.as_str(),
            address: address.get(),
            damage: None,
            object,
            fix: Fix::NotFreed,
        });
        Err(ObjectFreeError::Interior { address: address.get() })
    }

    /// Checks that an object is in use and undamaged. linux: mm/slub.c:free_consistency_checks
    ///
    /// # Errors
    /// If the object is free, or damaged, in which case it is taken out of use. The report is left in `held`.
    fn expect_in_use<'s>(
        &self,
        cache: &'s Cache,
        object: &Object<'s>,
        held: &mut LockedNode<'_, 's, P::Lock>,
    ) -> Result<(), ObjectFreeError> {
        let address = object.address().get();
        if matches!(object.state(), Some((State::Free | State::Gone, _))) {
            held.found = Some(self.new_report(cache, object, Fault::new(SlabBug::AlreadyFree), Fix::NotFreed));
            return Err(ObjectFreeError::DoubleFree { address });
        }
        inspect_in_use(object, cache).map_err(|fault| {
            held.found = Some(self.new_report(cache, object, fault, Fix::NotFreed));
            self.take_out(object);
            ObjectFreeError::Damaged { address }
        })
    }

    /// Counts a listed slab, if it has become wholly free. If the node already has enough wholly free slabs, takes the
    /// slab off the list instead and returns it for the caller to discard. Otherwise returns `None`.
    fn idle(&self, cache: &Cache, pfn: Pfn, list: &mut List<NodePartial>) -> Option<Pfn> {
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
}
