//! Tables of a section of memory, for memory with holes. The sections are those of the page allocator
//! ([`memmap`](crate::base::memmap)), so a block and the slabs in it are in one section.
//!
//! The storage of a section is the metadata of its grains in descending order, and behind it their bytes in ascending
//! order. The address between the two thus leads to both tables, and publishing it is one store. Sections are added
//! while others are in use and are never removed.
//!
//! linux: mm/sparse.c

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicUsize};

use super::{NONE, grains};
use crate::base::Order;
use crate::base::carve::{Carver, Plan};
use crate::base::memmap::{Geometry, SECTION_ORDER};
use crate::platform::Platform;
use crate::policy::slab::SlabPolicy;
use crate::slab::slab::Slab;

/// Returns whether the metadata of slabs is stored by section of memory. Under `bitmap`, a CPU's slot has the address
/// of a slab's metadata, and the object is computed from it, which needs one table.
pub(crate) const fn has_sections<P: Platform>() -> bool {
    P::SPARSEMEM && matches!(P::POLICY, Some(policy) if !matches!(policy.slab.objects, SlabPolicy::Bitmap))
}

/// Address of the border between a section's two tables, which is the first entry of its table of bytes. It is 0 if the
/// section has no tables.
#[derive(Debug)]
pub(in crate::slab) struct SlabSection<'m> {
    place: AtomicUsize,
    /// Makes the type invariant in `'m`, so that tables with a shorter lifetime than the map are rejected.
    tables: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> SlabSection<'m> {
    /// Returns a section without memory.
    pub(in crate::slab) const fn absent() -> SlabSection<'m> {
        SlabSection { place: AtomicUsize::new(0), tables: PhantomData }
    }

    /// Appends the tables of a section of this many grains to a plan. Returns `None` if the size overflows.
    fn plan(plan: Plan, grains: usize) -> Option<Plan> {
        plan.array::<Slab>(grains)?.array::<AtomicU8>(grains)
    }

    pub(super) fn is_present(&self) -> bool {
        self.place.load(Acquire) != 0
    }

    /// Gives the section its tables, of this many grains, from `storage`. If the section has tables already, the new
    /// ones stay unused. Returns `None` if the storage is too small.
    pub(super) fn add(&self, grains: usize, storage: &mut Carver<'m>) -> Option<()> {
        // SAFETY: `Slab::zeros` returns metadata whose bytes are all 0.
        let slabs = unsafe { storage.zeros(grains, Slab::zeros) }?;
        // SAFETY: each value is `NONE`, whose one byte is 0.
        let kinds = unsafe { storage.zeros(grains, || AtomicU8::new(NONE.get())) }?;
        assert!(
            slabs.as_ptr_range().end.addr() == kinds.as_ptr().addr(),
            "the two tables of a section are not adjacent"
        );
        slabs.as_mut_ptr().expose_provenance();
        _ = self.place.compare_exchange(0, kinds.as_mut_ptr().expose_provenance(), Release, Relaxed);
        Some(())
    }

    /// Returns the byte of a grain; `None` if the section has no memory.
    ///
    /// # Safety
    /// The grain, counted from the section's first, is below the number for which the section's tables were added.
    #[inline(always)]
    pub(super) unsafe fn kind(&self, grain: usize) -> Option<&'m AtomicU8> {
        let place = self.place.load(Acquire);
        if place == 0 {
            return None;
        }
        // SAFETY: a place that is not 0 is the address of the table of bytes that `add` carved, whose provenance it
        // exposed, and the caller promises that the grain is in it. The table stays for as long as the map.
        Some(unsafe { &*with_exposed_provenance::<AtomicU8>(place + grain) })
    }

    /// Returns the metadata of a grain.
    ///
    /// # Safety
    /// The section has tables: the caller has checked this, or owns memory in the section. The grain is below the
    /// section's number of grains.
    #[inline(always)]
    pub(super) unsafe fn slab(&self, grain: usize) -> &'m Slab {
        // The caller has synchronized with the call that added the tables, so a relaxed load sees them. Fast paths that
        // do not need the metadata pay nothing, because such a load can be left out.
        let metadata = self.place.load(Relaxed).wrapping_sub((grain + 1) * size_of::<Slab>());
        // SAFETY: the section has memory, so its metadata ends at the address that was loaded, in descending order from
        // there. `add` exposed its provenance, and the caller promises that the grain is in the table.
        unsafe { &*with_exposed_provenance::<Slab>(metadata) }
    }
}

/// Returns the largest number of sections that this many adjacent pages can be in. The sections may begin before the
/// first page and end after the last, in whole blocks.
pub(in crate::slab) const fn sections_max(pages: u32) -> usize {
    (pages as usize + 2 * Order::MAX.pages() as usize).div_ceil(1 << SECTION_ORDER)
}

/// Returns the layout of the tables of these sections of the page allocator, one after the other.
pub(crate) fn layout_of_sections(geometry: Geometry, page_size: u32, sections: Range<usize>) -> Layout {
    let pages = sections.map(|index| geometry.frames_of(index)).map(|frames| (frames.end - frames.start) as u32);
    layout_of(pages.map(|pages| grains(pages, page_size)))
}

/// Returns the layout of the tables of sections with these numbers of grains, one after the other.
pub(super) fn layout_of(mut grains: impl Iterator<Item = usize>) -> Layout {
    let plan = grains.try_fold(Plan::EMPTY, SlabSection::plan);
    plan.expect("33 bytes for each 4 KiB of memory fit the address space").layout()
}
