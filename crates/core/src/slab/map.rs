//! From an address to the slab around it: one byte and 32 bytes of metadata for each page of one address range.
//!
//! The byte says whose page it is: a cache's number, [`LARGE`] for the first page of a block that `kmalloc` took whole, 0 for
//! everything else. A free looks at it first, so a pointer that is not ours is noticed whatever it is.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::slab::Slab;
use crate::base::{Order, Pfn};

/// The page is in no slab.
pub(super) const NONE: u8 = 0;
/// The page begins a block that was asked for from the page allocator.
pub(super) const LARGE: u8 = u8::MAX;

/// The range, and what is known of its pages. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct SlabMap<'m> {
    base: u64,
    page_shift: u32,
    kinds: &'m [AtomicU8],
    slabs: &'m [Slab],
}

impl<'m> SlabMap<'m> {
    /// Frame 0 is at `base`; as many frames as there is metadata for.
    pub(super) fn new(base: NonNull<u8>, page_size: u32, kinds: &'m [AtomicU8], slabs: &'m [Slab]) -> SlabMap<'m> {
        assert_eq!(kinds.len(), slabs.len(), "each page has both");
        SlabMap { base: base.as_ptr().expose_provenance() as u64, page_shift: page_size.trailing_zeros(), kinds, slabs }
    }

    /// Address of a frame.
    #[inline]
    pub fn address(&self, pfn: Pfn) -> u64 {
        self.base + ((pfn.raw() as u64) << self.page_shift)
    }

    /// The frame at an address, if it is in the range.
    #[inline]
    pub fn pfn(&self, address: u64) -> Option<Pfn> {
        let index = address.wrapping_sub(self.base) >> self.page_shift;
        (index < self.kinds.len() as u64).then(|| Pfn::new(index as u32))
    }

    /// The frame at an address, and whose page it is; nothing if it is not in the range.
    #[inline(always)]
    pub fn look_up(&self, address: u64) -> Option<(Pfn, u8)> {
        let index = address.wrapping_sub(self.base) >> self.page_shift;
        let kind = self.kinds.get(index as usize)?.load(Relaxed);
        Some((Pfn::new(index as u32), kind))
    }

    /// The slab of an order around a frame in the range.
    #[inline(always)]
    pub(super) fn slab_around(&self, pfn: Pfn, order: Order) -> &'m Slab {
        let first = pfn.align_down(order).index();
        debug_assert!(first < self.slabs.len(), "the range begins with frame 0");
        // SAFETY: frames in the range have metadata, and so has every frame below one.
        unsafe { self.slabs.get_unchecked(first) }
    }

    /// Whose page it is.
    #[inline]
    pub fn kind(&self, pfn: Pfn) -> u8 {
        self.kinds[pfn.index()].load(Relaxed)
    }

    /// Says whose pages these are.
    pub(super) fn set_kind(&self, pfn: Pfn, pages: u32, kind: u8) {
        for of_page in &self.kinds[pfn.index()..pfn.index() + pages as usize] {
            of_page.store(kind, Relaxed);
        }
    }

    /// Metadata of the slab that begins at a frame.
    #[inline]
    pub fn slab(&self, pfn: Pfn) -> &'m Slab {
        &self.slabs[pfn.index()]
    }

    /// First frame of the slab whose metadata this is.
    #[inline]
    pub(super) fn pfn_of(&self, slab: &Slab) -> Pfn {
        let bytes = core::ptr::from_ref(slab).addr() - self.slabs.as_ptr().addr();
        Pfn::new((bytes / size_of::<Slab>()) as u32)
    }

    /// Address of the slab whose metadata this is.
    #[inline]
    pub(super) fn base_of(&self, slab: &Slab) -> u64 {
        self.address(self.pfn_of(slab))
    }

    /// Frames whose pages are of a kind, for walkers.
    pub(super) fn of_kind(&self, kind: u8, order: Order) -> impl Iterator<Item = Pfn> + use<'m> {
        let kinds = self.kinds;
        let step = order.pages() as usize;
        (0..kinds.len()).step_by(step).filter(move |&at| kinds[at].load(Relaxed) == kind).map(|at| Pfn::new(at as u32))
    }

    /// Pages in the range.
    pub fn pages(&self) -> usize {
        self.kinds.len()
    }
}
