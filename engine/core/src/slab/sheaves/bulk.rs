//! Many objects at once: whole stretches of a sheaf are copied, and sheaves exchanged in between, under one lock.
//!
//! The stretches are the spare's, which belongs to that lock; the main sheaf takes its turn as the spare. What the CPU
//! and its barn do not have, or have no room for, comes from slabs and goes to them directly, as in Linux.
//!
//! linux: mm/slub.c:alloc_from_pcs_bulk, free_to_pcs_bulk

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::id::CacheId;
use super::super::{KmemCache, ObjectError, ObjectFreeError, SlabAllocator};
use super::Part;
use super::hand::InHand;
use super::sheaf::{Held, UNWRITTEN, Want};
use crate::base::Gfp;
use crate::platform::Platform;

/// Objects that are gathered before a lock is taken for them.
const GATHERED_MAX: usize = 64;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Fills `objects`, or none of it.
    ///
    /// # Errors
    /// If not all could be had.
    pub(in crate::slab) fn alloc_stretches(
        &self,
        cache: &Cache,
        gfp: Gfp,
        objects: &mut [NonNull<u8>],
    ) -> Result<(), ObjectError> {
        let mut gathered = [UNWRITTEN; GATHERED_MAX];
        let mut done = 0;
        while done < objects.len() {
            let wanted = &mut gathered[..GATHERED_MAX.min(objects.len() - done)];
            let mut taken = 0;
            self.by_stretches(cache, Want::Objects, |sheaf| {
                taken += sheaf.take(&mut wanted[taken..]);
                taken == wanted.len()
            });
            if taken < wanted.len() {
                match self.take_objects(cache, gfp, &mut wanted[taken..]) {
                    Ok(more) => taken += more,
                    Err(error) => {
                        _ = self.put_objects(cache, &mut wanted[..taken]);
                        self.take_back(cache, &objects[..done]);
                        return Err(error);
                    }
                }
            }
            for &object in &wanted[..taken] {
                objects[done] = self.handed_out(cache.id, object, gfp);
                done += 1;
            }
        }
        Ok(())
    }

    /// Gives back what was allocated for nothing. What is found free already was freed twice before, not by this
    /// caller.
    fn take_back(&self, cache: &Cache, objects: &[NonNull<u8>]) {
        let mut gathered = [UNWRITTEN; GATHERED_MAX];
        for chunk in objects.chunks(GATHERED_MAX) {
            let back = &mut gathered[..chunk.len()];
            back.iter_mut().zip(chunk).for_each(|(place, object)| *place = ObjectAddress::of(object.as_ptr()));
            _ = self.put_objects(cache, back);
        }
    }

    /// Puts objects of this CPU's node into its sheaves, and flushes those for which there is no room. Changes their
    /// order.
    ///
    /// # Errors
    /// If one is free already: the last one in a sheaf that the next ones were to go into. It stays as it is.
    fn put_objects(&self, cache: &Cache, objects: &mut [ObjectAddress]) -> Result<(), ObjectFreeError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.begin_sheaves(cache);
        let (mut put, mut result) = (0, Ok(()));
        self.by_stretches(cache, Want::Room, |sheaf| {
            if let Some(&twice) = objects.get(put).filter(|next| sheaf.objects().last() == Some(next)) {
                result = result.and(Err(ObjectFreeError::DoubleFree { address: twice.get() }));
                put += 1;
            }
            put += sheaf.put(&objects[put..]);
            put == objects.len()
        });
        self.flush(cache, &mut objects[put..]);
        result
    }

    /// Gives this CPU its first sheaf, if there is memory for it: a CPU that only makes bulk requests would not get one
    /// otherwise.
    fn begin_sheaves(&self, cache: &Cache) {
        let slot = self.slot(self.local.cpu(), cache.id);
        let is_without = slot.main.load(Relaxed) == self.no_sheaf().raw() && slot.paired.load(Relaxed) == 0;
        if is_without && let Some(sheaf) = self.new_sheaf(cache, Gfp::NOWAIT) {
            self.install(cache, InHand::new(self, cache, Some(sheaf)));
        }
    }

    /// Has `copy` work on this CPU's spare, on one sheaf after the other, until it says that it is done, or there is
    /// none left that meets the want.
    fn by_stretches(&self, cache: &Cache, want: Want, mut copy: impl FnMut(&mut Held) -> bool) {
        let cpu = self.local.cpu();
        let mut part = self.part(cpu, cache);
        let mut spare = part.take_spare();
        while !spare.as_mut().is_some_and(&mut copy) {
            spare = match self.next_spare(&part, cache.id, want, spare) {
                Ok(next) => next,
                Err(last) => {
                    spare = last;
                    break;
                }
            };
        }
        if let Some(sheaf) = spare {
            self.stow(part, cache, sheaf);
        }
    }

    /// Another sheaf for a spare that does not meet a want: the main one, or one of the barn's.
    ///
    /// # Errors
    /// With the spare, if there is none.
    fn next_spare(
        &self,
        part: &Part<'_, P::Lock>,
        id: CacheId,
        want: Want,
        spare: Option<Held>,
    ) -> Result<Option<Held>, Option<Held>> {
        if part.meets(want) {
            return self.replace_main(part, spare);
        }
        self.barn(self.pages.node_of(part.cpu), id).exchange(want, spare).map(Some)
    }
}

impl<P: Platform, C: CpuLocal> KmemCache<'_, '_, '_, P, C> {
    /// See [`free_bulk`](Self::free_bulk).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub(in crate::slab) unsafe fn free_stretches(&self, objects: &[NonNull<u8>]) -> Result<(), ObjectFreeError> {
        let (slab, cache) = (self.slab, self.info());
        let mut gathered = [UNWRITTEN; GATHERED_MAX];
        let (mut len, mut last, mut result) = (0, None, Ok(()));
        for &object in objects {
            let address = ObjectAddress::of(object.as_ptr());
            let is_ours = slab.map.kind_at(address.get()) == Some(cache.id) && slab.hot(cache.id).is_object(address);
            if !is_ours || !slab.is_at_home(address) {
                // SAFETY: the caller promises for each object what `free` demands.
                result = result.and(unsafe { self.free(object) });
                continue;
            }
            if last == Some(address) {
                result = result.and(Err(ObjectFreeError::DoubleFree { address: address.get() }));
                continue;
            }
            (gathered[len], last) = (address, Some(address));
            len += 1;
            if len == GATHERED_MAX {
                result = result.and(slab.put_objects(cache, &mut gathered));
                len = 0;
            }
        }
        result.and(slab.put_objects(cache, &mut gathered[..len]))
    }
}
