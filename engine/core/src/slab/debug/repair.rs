//! Checks of single objects, and repair: a damaged object is taken out of use, and its slab's list is rebuilt.
//!
//! linux: mm/slub.c:check_object, slab_fix

use core::sync::atomic::Ordering::Relaxed;

use super::super::SlabAllocator;
use super::super::address::{ObjectAddress, SlabAddress};
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::freelist::{Chain, get_freepointer};
use super::super::partial::{List, NodePartial};
use super::super::word::{Local, end_mark};
use super::LockedNode;
use super::object::Object;
use super::state::{Fault, State};
use crate::base::Pfn;
use crate::platform::Platform;
use crate::platform::report::{Fix, SlabBug};

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Takes an object out of use, and counts it. The object keeps the bytes that its last user, or the stray write,
    /// left in it.
    pub(super) fn take_out(&self, object: &Object<'_>) {
        object.become_state(State::Gone, 0);
        self.debugging.taken_out.fetch_add(1, Relaxed);
    }

    /// Takes a damaged object that should be free out of use, and rebuilds its slab's list. The report is left in
    /// `held`. If the object's state word is that of an object in use or out of use, only the list is damaged, and the
    /// object is left as it is.
    pub(super) fn take_out_free<'s>(
        &self,
        cache: &'s Cache,
        pfn: Pfn,
        object: &Object<'_>,
        fault: Fault,
        held: &mut LockedNode<'_, 's, P::Lock>,
    ) {
        let fix = match object.state() {
            Some((State::InUse | State::Gone, _)) => Fix::Relinked,
            _ => Fix::TakenOut,
        };
        held.found = Some(self.new_report(cache, object, fault, fix));
        self.take_out_unreadable(cache, pfn);
        if !object.is_used() {
            self.take_out(object);
        }
        self.relink(cache, pfn, &mut held.list);
    }

    /// Takes all free objects whose state words are invalid out of use, for example after a write over several of them.
    /// The function acts only if the number of objects that are marked as used is the number that the slab records,
    /// since the others then are known to be free.
    pub(super) fn take_out_unreadable(&self, cache: &Cache, pfn: Pfn) {
        let objects = cache.layout.objects_of(self.map.slab_address(pfn)).map(|object| self.object(cache, object));
        if objects.clone().filter(Object::is_used).count() == usize::from(self.map.slab(pfn).local().used()) {
            objects.filter(|object| object.state().is_none()).for_each(|object| self.take_out(&object));
        }
    }

    /// Rebuilds the list of a slab's free objects from the objects' state words, and takes the slab off its node's list
    /// if none is free.
    pub(super) fn relink(&self, cache: &Cache, pfn: Pfn, list: &mut List<NodePartial>) {
        let base = self.map.slab_address(pfn);
        let free = cache.layout.objects_of(base).filter(|&object| self.object(cache, object).is_free());
        // SAFETY: these are all free objects of this slab, each of which occurs once. They are on no other list, and
        // the slab's node is locked, so no other code uses them.
        let chain = unsafe { Chain::build(base, free, cache.links) };
        self.map.slab(pfn).set_local(Local::new(chain.head, cache.layout.objects - chain.len));
        self.unlist_if_exhausted(pfn, list);
    }

    /// Takes a slab off its node's list if it has no free objects. The next free puts it on the list again.
    pub(super) fn unlist_if_exhausted(&self, pfn: Pfn, list: &mut List<NodePartial>) {
        let slab = self.map.slab(pfn);
        if slab.local().is_mark() && list.has(slab) {
            list.remove(self.map, pfn);
            let is_unqueued = slab.unqueue(self.map.slab_address(pfn));
            debug_assert!(is_unqueued, "a CPU freed into a checked slab without the node's lock");
        }
    }
}

/// Checks that an object that should be free is free and undamaged. Returns the first fault that is found otherwise.
pub(super) fn inspect_free(object: &Object<'_>) -> Result<(), Fault> {
    match object.state() {
        // The link or list that led to this object is damaged, since a free list has only free objects.
        Some((State::InUse | State::Gone, _)) => Err(Fault::new(SlabBug::FreePointer)),
        _ => object.inspect(State::Free, 0),
    }
}

/// Checks that an object in use is undamaged. Returns the first fault that is found otherwise.
pub(super) fn inspect_in_use(object: &Object<'_>, cache: &Cache) -> Result<(), Fault> {
    match object.state() {
        Some((_, requested)) => object.inspect(State::InUse, requested),
        None => {
            object.inspect(State::InUse, cache.layout.object_size)?;
            Err(Fault::new(SlabBug::State))
        }
    }
}

/// Returns the object after a free one on its list, or the end mark. Fails if the link leads neither to an object of
/// the slab nor to its end mark.
pub(super) fn next_of(cache: &Cache, base: SlabAddress, object: &Object<'_>) -> Result<u64, Fault> {
    // SAFETY: the object is free and its node is locked, so no other code uses it.
    let next = unsafe { get_freepointer(object.address(), cache.links) };
    let is_sound = next == end_mark(base)
        || (cache.layout.mask.slab_around(next) == base && cache.layout.is_object(ObjectAddress::new(next)));
    if is_sound { Ok(next) } else { Err(Fault::new(SlabBug::FreePointer)) }
}
