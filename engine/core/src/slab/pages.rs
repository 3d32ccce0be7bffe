//! Pages of slabs: allocation of new slabs, and return of wholly free ones, several adjacent slabs at once.
//!
//! Several slabs are cut from one block of a zone, and adjacent slabs are given back as one block. So several slabs
//! share the cost in the zone, which is a lock and a walk over free lists each time. This is most of the cost of large
//! objects, of which a slab has few.
//!
//! linux: mm/slub.c:allocate_slab, __free_slab, where each slab is a separate block
//!
//! # Design
//!
//! All slabs of a cache have one order. Linux uses smaller slabs if memory is short. Here a mask leads from an object
//! to its slab, and a cache has one mask, so a request for a slab may compact. If there is no block of the order,
//! `kmalloc` allocates a smaller block for that request alone, and an allocation from a cache that was created with
//! `create` fails. Sheaves must be available when memory is fragmented, so their slabs are single pages. If there is no
//! sheaf, objects are allocated without one.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::address::{ObjectAddress, SlabAddress};
use super::cache::Cache;
use super::cpu::CpuLocal;
use super::freelist::Chain;
use super::mix::mix;
use super::word::Local;
use super::{ObjectError, SlabAllocator, map};
use crate::base::{Gfp, NodeId, Order, Pfn};
use crate::page::AllocError;
use crate::platform::Platform;
use crate::policy::slab::SlabOrder;

/// Flags of a request for an object that do not apply to its slab or would be wrong for it: objects are not movable,
/// and all memory of a cache is of one kind. linux: mm/internal.h:GFP_SLAB_BUG_MASK
const NOT_FOR_SLABS: Gfp =
    Gfp::ZERO.union(Gfp::MOVABLE).union(Gfp::RECLAIMABLE).union(Gfp::HIGHMEM).union(Gfp::DMA32).union(Gfp::DMA);

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Makes a slab of new pages. The slab has no owner and is marked as queued, and the caller holds it. The caller
    /// must hold no lock. linux: mm/slub.c:new_slab
    ///
    /// # Errors
    /// If there is no block of the cache's order, or only one outside the memory of the slab allocator.
    pub(super) fn new_slab(&self, cache: &Cache, gfp: Gfp, node: NodeId) -> Result<Pfn, ObjectError> {
        let order = cache.layout.order;
        let first = self.pages.alloc_slab_pages(node, slab_gfp(cache, gfp), order).map_err(ObjectError::Pages)?;
        let slabs = self.init_slabs(cache, first, order);
        slabs.map(|slabs| slabs.start).ok_or(ObjectError::Pages(AllocError::OutOfMemory))
    }

    /// Makes `1 << power` adjacent slabs. Returns `None` if the node has no free block for them in a zone above its low
    /// watermark, if no block is that large, or if the block is outside the memory of the slab allocator.
    pub(super) fn new_slabs(&self, cache: &Cache, gfp: Gfp, node: NodeId, power: u8) -> Option<Range<Pfn>> {
        let whole = Order::from_u8(cache.layout.order.get() + power)?;
        let first = self.pages.try_alloc_slab_pages(node, slab_gfp(cache, gfp), whole)?;
        self.init_slabs(cache, first, whole)
    }

    /// Makes slabs of a block that was allocated for them. If the block is outside the range that has metadata of
    /// slabs, frees the block and returns `None`. Costs a store per page, an atomic step per slab, and a write to each
    /// object if free objects are linked.
    fn init_slabs(&self, cache: &Cache, first: Pfn, whole: Order) -> Option<Range<Pfn>> {
        let order = cache.layout.order;
        if !self.map.has(first, whole) {
            let _freed = self.pages.free_slab_pages(first, whole);
            return None;
        }
        let slabs = first..first.offset(whole.pages());
        self.pages.split_slab_pages(first, whole, order);
        let pages = FreeOnPanic(|| self.pages.free_slabs_pages(slabs.clone(), order));
        cache.slabs_in(&slabs).for_each(|pfn| self.init_slab(cache, pfn));
        core::mem::forget(pages);
        self.map.set_kind(first, whole.pages(), cache.id);
        self.counts[cache.id.index()].fetch_add(u64::from(whole.pages() / order.pages()), Relaxed);
        Some(slabs)
    }

    /// Makes one slab, all of whose objects are free, of allocated pages.
    fn init_slab(&self, cache: &Cache, pfn: Pfn) {
        let (slab, base) = (self.map.slab(pfn), self.map.slab_address(pfn));
        self.setup_objects(cache, base);
        if cache.has_bits {
            return slab.init_bits(cache.layout.all_bits());
        }
        slab.init(base, cache.layout.objects);
        let chain = self.init_freelist(cache, base);
        slab.set_local(Local::new(chain.head, cache.layout.objects - chain.len));
    }

    /// Initializes the objects of a new slab: debug bytes, then the constructor. linux: mm/slub.c:setup_object
    fn setup_objects(&self, cache: &Cache, base: SlabAddress) {
        if self.is_checked(cache) {
            self.prepare_checked(cache, base);
        }
        let Some(prepare) = cache.constructor else { return };
        for object in cache.layout.objects_of(base) {
            prepare(core::ptr::NonNull::new(object.as_ptr()).expect("no object has address 0"));
        }
    }

    /// Links all objects of a new slab, shuffled if the cache's order is random. linux: mm/slub.c:shuffle_freelist
    fn init_freelist(&self, cache: &Cache, base: SlabAddress) -> Chain {
        let objects = cache.layout.objects_of(base);
        if cache.order == SlabOrder::Address {
            // SAFETY: the pages are new and used by no other code, and these are all objects in them, each of which
            // occurs once.
            return unsafe { Chain::build(base, objects, cache.links) };
        }
        let (turn, size, count) = (self.turn(cache), u64::from(cache.layout.size), u64::from(cache.layout.objects));
        let first = base.get() + u64::from(cache.layout.first);
        let shuffled = (0..count).map(|at| ObjectAddress::new(first + shuffle(at, count, turn) * size));
        // SAFETY: as above; `shuffle` returns each place once.
        unsafe { Chain::build(base, shuffled, cache.links) }
    }

    /// Returns a number for a new slab that is hard to guess.
    fn turn(&self, cache: &Cache) -> u64 {
        mix(cache.secret ^ self.turns.fetch_add(1, Relaxed))
    }

    /// Frees the pages of a slab that is wholly free, on no list and no stack, and held by the caller. A checked slab
    /// with damaged objects goes back to its node instead. The caller holds no lock. linux: mm/slub.c:discard_slab
    pub(super) fn discard_slab(&self, cache: &Cache, pfn: Pfn) {
        self.discard_slabs(cache, pfn..pfn.offset(cache.layout.order.pages()));
    }

    /// Frees the pages of adjacent slabs, as [`discard_slab`](Self::discard_slab) does; only one slab at a time in a
    /// checked cache.
    pub(super) fn discard_slabs(&self, cache: &Cache, slabs: Range<Pfn>) {
        debug_assert!(
            !cache.is_checked() || cache.slabs_in(&slabs).count() == 1,
            "the slabs of a checked cache must be discarded one at a time"
        );
        if !self.may_discard(cache, slabs.start) {
            return;
        }
        debug_assert!(
            cache.slabs_in(&slabs).all(|pfn| self.is_wholly_free(cache, pfn)),
            "an object of a discarded slab is in use"
        );
        let (order, pages) = (cache.layout.order, slabs.end.raw() - slabs.start.raw());
        self.map.set_kind(slabs.start, pages, map::NONE);
        self.counts[cache.id.index()].fetch_sub(u64::from(pages / order.pages()), Relaxed);
        self.pages.free_slabs_pages(slabs, order);
    }
}

/// Returns the flags of a request for a slab's pages, given those of a request for an object.
fn slab_gfp(cache: &Cache, gfp: Gfp) -> Gfp {
    (gfp - NOT_FOR_SLABS) | cache.gfp | Gfp::COMP | Gfp::NOWARN
}

/// Guard that frees the pages of new slabs if a constructor panics.
struct FreeOnPanic<F: FnMut()>(F);

impl<F: FnMut()> Drop for FreeOnPanic<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Returns the place of the `at`-th object that is handed out, of `count`. The places are visited in steps that share
/// no divisor with the count, so each place occurs once. The start is hard to guess, and no memory is needed for the
/// order.
fn shuffle(at: u64, count: u64, turn: u64) -> u64 {
    let mut step = (turn >> 32) % count;
    while common_divisor(step, count) != 1 {
        step += 1;
    }
    ((turn & u64::from(u32::MAX)) + at * step) % count
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_is_a_permutation() {
        for count in [1, 2, 7, 16, 512] {
            for turn in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
                let mut seen = [false; 512];
                (0..count).for_each(|at| seen[shuffle(at, count, turn) as usize] = true);
                assert!(seen[..count as usize].iter().all(|seen| *seen), "{count} {turn:#x}");
            }
        }
    }
}
