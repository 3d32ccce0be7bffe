//! Bulk allocation and free: objects are copied from and to sheaves, and sheaves are exchanged in between, under one
//! lock for up to 64 objects.
//!
//! Objects are copied from and to the spare, which that lock protects. The main sheaf becomes the spare when its turn
//! comes. Objects that the CPU and its barn do not have come from slabs directly, and objects for which they have no
//! room are flushed to slabs, as in Linux.
//!
//! linux: mm/slub.c:alloc_from_pcs_bulk, free_to_pcs_bulk

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::id::CacheId;
use super::super::{KmemCache, ObjectError, ObjectFreeError, SlabAllocator};
use super::PercpuSheaves;
use super::guard::SheafGuard;
use super::sheaf::{OwnedSheaf, UNWRITTEN, Want};
use crate::base::Gfp;
use crate::platform::Platform;

/// Number of objects that are collected before a lock is taken for them.
const GATHERED_MAX: usize = 64;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Allocates an object for every element of `objects`, or none.
    ///
    /// # Errors
    /// If there are not enough objects, and no page for a slab. The objects that were taken are freed then.
    pub(in crate::slab) fn alloc_from_pcs_bulk(
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
            self.with_each_spare(cache, Want::Objects, |sheaf| {
                taken += sheaf.take(&mut wanted[taken..]);
                taken == wanted.len()
            });
            if taken < wanted.len() {
                match self.refill_objects(cache, gfp, &mut wanted[taken..]) {
                    Ok(more) => taken += more,
                    Err(error) => {
                        _ = self.free_to_pcs_bulk(cache, &mut wanted[..taken]);
                        self.free_unused(cache, &objects[..done]);
                        return Err(error);
                    }
                }
            }
            for &object in &wanted[..taken] {
                objects[done] = self.slab_post_alloc_hook(cache.id, object, gfp);
                done += 1;
            }
        }
        Ok(())
    }

    /// Frees objects of a bulk allocation that failed. An object that is found free already was freed twice before, not
    /// by this caller.
    fn free_unused(&self, cache: &Cache, objects: &[NonNull<u8>]) {
        let mut gathered = [UNWRITTEN; GATHERED_MAX];
        for chunk in objects.chunks(GATHERED_MAX) {
            let back = &mut gathered[..chunk.len()];
            back.iter_mut().zip(chunk).for_each(|(place, object)| *place = ObjectAddress::from_ptr(object.as_ptr()));
            _ = self.free_to_pcs_bulk(cache, back);
        }
    }

    /// Puts objects of this CPU's node into its sheaves, and flushes those for which there is no room. Changes the
    /// order of `objects`.
    ///
    /// # Errors
    /// If an object is free already, as far as this is detected: it is the last object of the sheaf that it was to be
    /// put into. It stays as it is.
    fn free_to_pcs_bulk(&self, cache: &Cache, objects: &mut [ObjectAddress]) -> Result<(), ObjectFreeError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.ensure_sheaf(cache);
        let (mut put, mut result) = (0, Ok(()));
        self.with_each_spare(cache, Want::Room, |sheaf| {
            if let Some(&twice) = objects.get(put).filter(|next| sheaf.objects().last() == Some(next)) {
                result = result.and(Err(self.refused(ObjectFreeError::DoubleFree { address: twice.get() })));
                put += 1;
            }
            put += sheaf.put(&objects[put..]);
            put == objects.len()
        });
        self.flush(cache, &mut objects[put..]);
        result
    }

    /// Gives this CPU its first sheaf, if there is memory for it. Without this, a CPU with bulk requests only would
    /// never get a sheaf.
    fn ensure_sheaf(&self, cache: &Cache) {
        let slot = self.slot(self.local.cpu(), cache.id);
        let is_without = slot.main.load(Relaxed) == self.no_sheaf().raw() && slot.paired.load(Relaxed) == 0;
        if is_without && let Some(sheaf) = self.alloc_empty_sheaf(cache, Gfp::NOWAIT) {
            self.install(cache, SheafGuard::new(self, cache, Some(sheaf)));
        }
    }

    /// Calls `copy` with one spare sheaf of this CPU after the other, until `copy` returns `true`, or no sheaf is left
    /// that meets the want.
    fn with_each_spare(&self, cache: &Cache, want: Want, mut copy: impl FnMut(&mut OwnedSheaf) -> bool) {
        let cpu = self.local.cpu();
        let mut pcs = self.lock_pcs(cpu, cache);
        let mut spare = pcs.take_spare();
        while !spare.as_mut().is_some_and(&mut copy) {
            spare = match self.next_spare(&pcs, cache.id, want, spare) {
                Ok(next) => next,
                Err(last) => {
                    spare = last;
                    break;
                }
            };
        }
        if let Some(sheaf) = spare {
            self.store_sheaf(pcs, cache, sheaf);
        }
    }

    /// Replaces a spare that does not meet a want by another sheaf: the main one, or one of the barn's.
    ///
    /// # Errors
    /// If there is no such sheaf, if the barn has no room for the spare, or if the caller was moved to another CPU. The
    /// error contains the spare.
    fn next_spare(
        &self,
        pcs: &PercpuSheaves<'_, P::Lock>,
        id: CacheId,
        want: Want,
        spare: Option<OwnedSheaf>,
    ) -> Result<Option<OwnedSheaf>, Option<OwnedSheaf>> {
        if pcs.meets(want) {
            return self.swap_main(pcs, spare);
        }
        self.barn(self.pages.node_of(pcs.cpu), id).replace(want, spare).map(Some)
    }
}

impl<P: Platform, C: CpuLocal> KmemCache<'_, '_, '_, P, C> {
    /// Frees objects of a cache with sheaves. See [`free_bulk`](Self::free_bulk).
    ///
    /// # Errors
    /// As for [`free_bulk`](Self::free_bulk).
    ///
    /// # Safety
    /// As for [`free_bulk`](Self::free_bulk).
    pub(in crate::slab) unsafe fn free_bulk_to_pcs(&self, objects: &[NonNull<u8>]) -> Result<(), ObjectFreeError> {
        let (slab, cache) = (self.slab, self.info());
        let mut gathered = [UNWRITTEN; GATHERED_MAX];
        let (mut len, mut last, mut result) = (0, None, Ok(()));
        for &object in objects {
            let address = ObjectAddress::from_ptr(object.as_ptr());
            let is_ours =
                slab.map.kind_at::<P>(address.get()) == Some(cache.id) && slab.hot(cache.id).is_object(address);
            if !is_ours || !slab.is_on_local_node(address) {
                // SAFETY: the caller promises for each object what `free` demands.
                result = result.and(unsafe { self.free(object) });
                continue;
            }
            if last == Some(address) {
                result = result.and(Err(slab.refused(ObjectFreeError::DoubleFree { address: address.get() })));
                continue;
            }
            (gathered[len], last) = (address, Some(address));
            len += 1;
            if len == GATHERED_MAX {
                result = result.and(slab.free_to_pcs_bulk(cache, &mut gathered));
                len = 0;
            }
        }
        result.and(slab.free_to_pcs_bulk(cache, &mut gathered[..len]))
    }
}
