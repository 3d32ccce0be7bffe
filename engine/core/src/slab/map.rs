//! Map from addresses to slabs. For each 4 KiB of one address range, the map has one byte and 32 bytes of metadata.
//!
//! The byte records what the page is used for: a cache's number, [`LARGE`] for the start of a block that `kmalloc`
//! allocated, or 0 otherwise. A free reads this byte first, so a pointer outside of slabs and blocks is detected. Pages
//! larger than 4 KiB have several bytes, so that fast paths need not know the page size.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::Memory;
use super::address::SlabAddress;
use super::id::CacheId;
use super::slab::Slab;
use crate::base::{Order, Pfn};

/// Byte of a page that is in no slab and no block.
pub(super) const NONE: CacheId = CacheId::new(0);
/// Byte of the first page of a block that `kmalloc` took from the page allocator.
pub(super) const LARGE: CacheId = CacheId::new(u8::MAX);
/// Size of a grain, the memory that shares one byte of the map, as a power of two. This is the smallest page size.
const GRAIN_SHIFT: u32 = 12;

/// Shift from the distance between slabs' metadata to the distance between the slabs.
pub(super) const METADATA_SHIFT: u32 = GRAIN_SHIFT - Slab::SIZE.trailing_zeros();

/// Returns whether a page size is a power of two that is not smaller than a grain.
pub(super) const fn is_page_size(page_size: u32) -> bool {
    page_size.is_power_of_two() && page_size >= 1 << GRAIN_SHIFT
}

/// Returns the number of grains in this many pages, each of which has a byte in the map and metadata of a slab.
pub(super) const fn grains(pages: u32, page_size: u32) -> usize {
    (pages as usize) << (page_size.trailing_zeros() - GRAIN_SHIFT)
}

/// The range, its bytes and its metadata. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct SlabMap<'m> {
    /// Address of the first frame of the range.
    base: u64,
    first: u32,
    /// Shift from a frame's index to its first grain.
    page_grains_shift: u32,
    kinds: &'m [AtomicU8],
    slabs: &'m [Slab],
    /// Number that is added to an address divided by 128 to get the address of its grain's metadata.
    slabs_origin: u64,
    nowhere: &'m Slab,
}

impl<'m> SlabMap<'m> {
    /// Creates the map of as many frames of `memory` as there is metadata for.
    pub(super) fn new(memory: &Memory, page_size: u32, kinds: &'m [AtomicU8], slabs: &'m [Slab]) -> SlabMap<'m> {
        let Memory { first, base, .. } = *memory;
        let (nowhere, slabs) = slabs.split_first().expect("there is one more slab than pages");
        assert_eq!(kinds.len(), slabs.len(), "the numbers of kinds and of slabs differ");
        let page_grains_shift = page_size.trailing_zeros() - GRAIN_SHIFT;
        let base_metadata = (base.as_ptr().addr() as u64) >> METADATA_SHIFT;
        let slabs_origin = (slabs.as_ptr().expose_provenance() as u64).wrapping_sub(base_metadata);
        SlabMap {
            base: base.as_ptr().expose_provenance() as u64,
            first: first.raw(),
            page_grains_shift,
            kinds,
            slabs,
            slabs_origin,
            nowhere,
        }
    }

    /// Returns the address of a frame of the range.
    #[inline]
    pub fn address(&self, pfn: Pfn) -> u64 {
        self.base + (u64::from(pfn.raw() - self.first) << (self.page_grains_shift + GRAIN_SHIFT))
    }

    /// Returns the address of the slab that starts at a frame.
    #[inline]
    pub(super) fn slab_address(&self, pfn: Pfn) -> SlabAddress {
        SlabAddress::new(self.address(pfn))
    }

    /// Returns the frame at an address, if the address is in the range.
    #[inline]
    pub fn pfn(&self, address: u64) -> Option<Pfn> {
        let grain = address.wrapping_sub(self.base) >> GRAIN_SHIFT;
        (grain < self.kinds.len() as u64).then(|| self.pfn_of_grain(grain as usize))
    }

    /// Returns the byte of the page at an address, or `None` if the address is not in the range.
    #[inline(always)]
    pub fn kind_at(&self, address: u64) -> Option<CacheId> {
        let grain = address.wrapping_sub(self.base) >> GRAIN_SHIFT;
        Some(CacheId::new(self.kinds.get(grain as usize)?.load(Relaxed)))
    }

    /// Returns the metadata of the slab at an address.
    ///
    /// # Safety
    /// The address is in the range, and a multiple of a grain.
    #[inline(always)]
    pub(super) unsafe fn slab_at(&self, slab: SlabAddress) -> &'m Slab {
        debug_assert!(self.pfn(slab.get()).is_some(), "the address is not in the range");
        let metadata = (slab.get() >> METADATA_SHIFT).wrapping_add(self.slabs_origin);
        // SAFETY: the address is in the range and a multiple of a grain, as the caller promises, so `metadata` is the
        // address of the grain's entry in `slabs`, whose provenance `new` exposed. The entry is borrowed for `'m`.
        unsafe { &*(metadata as *const Slab) }
    }

    /// Returns the byte of a page: the number of its cache, `LARGE` or `NONE`.
    #[inline]
    pub fn kind(&self, pfn: Pfn) -> CacheId {
        CacheId::new(self.kinds[self.grain(pfn)].load(Relaxed))
    }

    /// Sets the byte of each of these pages.
    pub(super) fn set_kind(&self, pfn: Pfn, pages: u32, kind: CacheId) {
        for of_grain in &self.kinds[self.grain(pfn)..self.grain(pfn) + ((pages as usize) << self.page_grains_shift)] {
            of_grain.store(kind.get(), Relaxed);
        }
    }

    /// Returns the metadata of the slab that starts at a frame.
    #[inline]
    pub fn slab(&self, pfn: Pfn) -> &'m Slab {
        &self.slabs[self.grain(pfn)]
    }

    /// Returns the first frame of the slab that has this metadata.
    #[inline]
    pub(super) fn pfn_of(&self, slab: &Slab) -> Pfn {
        let bytes = core::ptr::from_ref(slab).addr() - self.slabs.as_ptr().addr();
        self.pfn_of_grain(bytes / size_of::<Slab>())
    }

    #[inline]
    fn pfn_of_grain(&self, grain: usize) -> Pfn {
        Pfn::new(self.first + (grain >> self.page_grains_shift) as u32)
    }

    /// Returns the address of the slab that has this metadata.
    #[inline]
    pub(super) fn base_of(&self, slab: &Slab) -> SlabAddress {
        self.slab_address(self.pfn_of(slab))
    }

    /// Returns the first frames of the blocks of an order whose first page has the byte of a cache, for walks over all
    /// slabs of the cache. Without a lock, a block may be discarded at once. Costs a look at each block of that order
    /// in the range.
    pub(super) fn slabs_of_cache(&self, cache: CacheId, order: Order) -> impl Iterator<Item = Pfn> + use<'m> {
        self.slabs_of_cache_before(self.frames().end, cache, order)
    }

    /// Returns the first frames of a cache's slabs before the frame `end`. Only the pages before it are looked at.
    pub(super) fn slabs_of_cache_before(
        &self,
        end: Pfn,
        cache: CacheId,
        order: Order,
    ) -> impl Iterator<Item = Pfn> + use<'m> {
        let map = *self;
        let end = end.min(self.frames().end).raw();
        let start = self.first.checked_next_multiple_of(order.pages()).unwrap_or(end);
        (start..end).step_by(order.pages() as usize).map(Pfn::new).filter(move |&pfn| map.kind(pfn) == cache)
    }

    /// Returns the word by which a CPU's slot names a slab ([`Slot::main`](super::cpu::Slot::main) under `bitmap`): the
    /// address of its metadata.
    pub(super) fn word_of(&self, slab: &'m Slab) -> u64 {
        core::ptr::from_ref(slab).expose_provenance() as u64
    }

    /// Returns the slab whose metadata is at the address that a slot holds, or [`nowhere`](Self::nowhere).
    pub(super) fn slab_by_word(&self, word: u64) -> &'m Slab {
        // The metadata of no slab is before the table.
        let bytes = (word as usize).wrapping_sub(self.slabs.as_ptr().addr());
        self.slabs.get(bytes / size_of::<Slab>()).unwrap_or(self.nowhere)
    }

    /// Returns a slab without objects. Slots that have no slab name this one.
    pub(super) fn nowhere(&self) -> &'m Slab {
        self.nowhere
    }

    /// Returns the number that is added to 128 times the address of a slab's metadata to get the slab's address.
    pub(super) fn origin(&self) -> u64 {
        self.base.wrapping_sub((self.slabs.as_ptr().addr() as u64) << METADATA_SHIFT)
    }

    /// Returns the addresses of the table of bytes and of the table of slabs' metadata.
    pub(super) fn tables(&self) -> [u64; 2] {
        [self.kinds.as_ptr().addr() as u64, self.slabs.as_ptr().addr() as u64]
    }

    /// Returns the number of pages in the range.
    fn pages(&self) -> usize {
        self.kinds.len() >> self.page_grains_shift
    }

    /// Returns the frames of the range.
    pub(super) fn frames(&self) -> Range<Pfn> {
        let first = Pfn::new(self.first);
        first..first.offset(self.pages() as u32)
    }

    /// Returns whether a whole block is in the range.
    pub(super) fn has(&self, pfn: Pfn, order: Order) -> bool {
        let frames = self.frames();
        frames.contains(&pfn) && frames.end.raw() - pfn.raw() >= order.pages()
    }

    fn grain(&self, pfn: Pfn) -> usize {
        ((pfn.raw() - self.first) as usize) << self.page_grains_shift
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use core::ptr::NonNull;

    use super::*;

    /// Calls `run` with a map of eight frames that starts at frame `first`.
    pub(crate) fn with_map<R>(first: u32, run: impl FnOnce(SlabMap<'_>) -> R) -> R {
        let (kinds, slabs) = ([const { AtomicU8::new(NONE.get()) }; 8], [(); 9].map(|()| Slab::unused()));
        let memory = Memory { first: Pfn::new(first), base: NonNull::dangling(), pages: 8, caches: 0 };
        run(SlabMap::new(&memory, 4096, &kinds, &slabs))
    }

    #[test]
    fn frame_kind_is_found_by_address_and_pfn() {
        with_map(16, |map| {
            let cache = CacheId::new(5);
            map.set_kind(Pfn::new(18), 2, cache);
            for (pfn, kind) in [(16, NONE), (17, NONE), (18, cache), (19, cache), (20, NONE), (23, NONE)]
                .map(|(pfn, kind)| (Pfn::new(pfn), kind))
            {
                let address = map.address(pfn);
                assert_eq!((map.kind(pfn), map.kind_at(address + 4095)), (kind, Some(kind)), "{pfn:?}");
                assert_eq!((map.pfn(address), map.pfn_of(map.slab(pfn))), (Some(pfn), pfn));
            }
            let end = map.address(Pfn::new(16)) + 8 * 4096;
            assert_eq!((map.pfn(end), map.kind_at(end), map.pfn(map.address(Pfn::new(16)) - 1)), (None, None, None));
        });
    }

    #[test]
    fn block_is_in_the_map_only_as_a_whole() {
        with_map(16, |map| {
            for (pfn, order) in [(16, 0), (16, 3), (20, 2), (22, 1), (23, 0)] {
                assert!(map.has(Pfn::new(pfn), Order::new(order)), "{pfn}, {order}");
            }
            for (pfn, order) in [(15, 0), (8, 3), (0, 5), (16, 4), (20, 3), (23, 1), (24, 0), (u32::MAX, 0)] {
                assert!(!map.has(Pfn::new(pfn), Order::new(order)), "{pfn}, {order}");
            }
        });
    }
}
