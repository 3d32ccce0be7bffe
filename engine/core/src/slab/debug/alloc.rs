//! Allocation from a checked cache: the first free object of the node's first slab or of a new slab. A damaged object
//! is reported and taken out of use, and the next one is tried.
//!
//! linux: mm/slub.c:alloc_single_from_partial, alloc_debug_processing

use core::ptr::NonNull;

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::word::Local;
use super::super::{ObjectError, SlabAllocator};
use super::repair::{inspect_free, next_of};
use super::state::State;
use super::{Call, LockedNode, track};
use crate::base::{Gfp, Pfn};
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Allocates an object of a checked cache: checks the object, and marks it as in use. Reports damaged free objects
    /// on the way.
    ///
    /// # Errors
    /// If the node's list has no slab, and there is no page for a new one.
    pub(in super::super) fn alloc_checked(
        &self,
        cache: &Cache,
        gfp: Gfp,
        call: Call,
    ) -> Result<NonNull<u8>, ObjectError> {
        loop {
            let node = self.pages.node_of(self.local.cpu());
            let mut held = self.lock_node(node, cache.id);
            let first = held.list.first();
            let taken = first.map(|pfn| self.take_first(cache, pfn, &mut held, call));
            self.unlock_and_report(held);
            let object = match taken {
                Some(taken) => taken,
                None => self.take_of_new(cache, gfp, call)?,
            };
            if let Some(object) = object {
                self.zero_asked(cache, object, gfp, call);
                return Ok(object);
            }
        }
    }

    /// Takes the first object of a new slab, whose pages may be on any node. Returns `None` if the object is damaged.
    ///
    /// # Errors
    /// If there is no page for a slab.
    fn take_of_new(&self, cache: &Cache, gfp: Gfp, call: Call) -> Result<Option<NonNull<u8>>, ObjectError> {
        let pfn = self.new_slab(cache, gfp, self.pages.node_of(self.local.cpu()))?;
        let mut held = self.lock_node(self.node_of(pfn), cache.id);
        held.list.push(self.map, pfn);
        let taken = self.take_first(cache, pfn, &mut held, call);
        self.unlock_and_report(held);
        Ok(taken)
    }

    /// Takes the first free object of a listed slab. If the object is damaged, takes it out of use and returns `None`.
    fn take_first<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        held: &mut LockedNode<'_, 's, P::Lock>,
        call: Call,
    ) -> Option<NonNull<u8>> {
        // The slab is taken off the list and put back, so that it is not counted as wholly free any more.
        held.list.remove(self.map, pfn);
        held.list.push(self.map, pfn);
        let slab = self.map.slab(pfn);
        let local = slab.local();
        let object = self.object(cache, ObjectAddress::new(local.list(self.map.slab_address(pfn).get())));
        let next = match inspect_free(&object).and_then(|()| next_of(cache, self.map.slab_address(pfn), &object)) {
            Ok(next) => next,
            Err(fault) => {
                self.take_out_free(cache, pfn, &object, fault, held);
                return None;
            }
        };
        slab.set_local(Local::new(next, local.used() + 1));
        self.unlist_if_exhausted(pfn, &mut held.list);
        object.become_state(State::InUse, call.asked_of(cache) as u32);
        object.set_track(track::ALLOCATED, self.now(call));
        NonNull::new(object.address().as_ptr())
    }

    fn zero_asked(&self, cache: &Cache, object: NonNull<u8>, gfp: Gfp, call: Call) {
        if gfp.contains(Gfp::ZERO) {
            // SAFETY: the object was just taken off its slab's list, so no other code uses it, and it has at least the
            // requested bytes.
            unsafe { object.write_bytes(0, call.asked_of(cache)) };
        }
    }
}
