//! Map from addresses to slabs. For each 4 KiB of memory, the map has one byte and 32 bytes of metadata.
//!
//! The byte records what the page is used for: a cache's number, [`LARGE`] for the start of a block that `kmalloc`
//! allocated, or 0 otherwise. A free reads this byte first, so a pointer outside of slabs and blocks is detected. Pages
//! larger than 4 KiB have several bytes, so that fast paths need not know the page size.
//!
//! The bytes and the metadata are two tables over the whole range, or, on a platform whose memory has holes
//! ([`Platform::SPARSEMEM`]), two for each [section](sections) that has memory. With tables over the whole range, a
//! free needs one load less.

use core::alloc::Layout;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::Memory;
use super::address::SlabAddress;
use super::id::CacheId;
use super::slab::Slab;
use crate::base::carve::Carver;
use crate::base::memmap::{Geometry, SECTION_ORDER};
use crate::base::{Order, Pfn};
use crate::platform::Platform;
use sections::{SlabSection, has_sections};

pub(super) mod sections;

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

/// The range, its bytes and its metadata. Cheap to copy. The fields that a free reads are adjacent, at the front.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SlabMap<'m> {
    /// Address of the first frame of the range.
    base: u64,
    kinds: &'m [AtomicU8],
    /// Number that is added to an address divided by 128 to get the address of its grain's metadata, with one table.
    slabs_origin: u64,
    /// Sections of memory with holes; empty if the tables are of the whole range.
    sections: &'m [SlabSection<'m>],
    /// Number of grains of the range, those of holes included.
    grains: usize,
    /// Shift from a grain to its section; with one table, all grains are in section 0.
    section_shift: u32,
    /// Mask of a grain's place in its section.
    section_mask: usize,
    /// Shift from a frame's index to its first grain.
    page_grains_shift: u32,
    slabs: &'m [Slab],
    nowhere: &'m Slab,
    first: u32,
}

impl<'m> SlabMap<'m> {
    /// Creates the map. It covers the first frames of `memory`, one grain for each entry of `kinds`.
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
            grains: kinds.len(),
            section_shift: usize::BITS - 1,
            section_mask: usize::MAX,
            sections: &[],
            kinds,
            slabs,
            slabs_origin,
            nowhere,
        }
    }

    /// Returns the map of the page allocator's whole range, in sections that have no memory yet. `self` is the map of
    /// the same memory, without tables.
    pub(super) fn with_sections(self, geometry: Geometry, sections: &'m [SlabSection<'m>]) -> SlabMap<'m> {
        assert_eq!(sections.len(), geometry.sections(), "the number of sections is not that of the page allocator");
        let Range { start, end } = geometry.frames();
        assert!(self.first >= start.raw(), "the memory of the slab begins below that of the page allocator");
        let below = u64::from(self.first - start.raw()) << (self.page_grains_shift + GRAIN_SHIFT);
        SlabMap {
            base: self.base - below,
            first: start.raw(),
            grains: ((end.raw() - start.raw()) as usize) << self.page_grains_shift,
            section_shift: SECTION_ORDER + self.page_grains_shift,
            section_mask: (1 << (SECTION_ORDER + self.page_grains_shift)) - 1,
            sections,
            ..self
        }
    }

    /// Adds tables, from `storage`, to those of these sections that have none. Returns `None` if the storage is too
    /// small.
    pub(super) fn add_sections(&self, sections: Range<usize>, storage: &mut Carver<'m>) -> Option<()> {
        let mut absent = sections.filter(|&index| !self.sections[index].is_present());
        absent.try_for_each(|index| self.sections[index].add(self.grains_in(index).len(), storage))
    }

    /// Returns the layout of the tables that these sections still lack.
    pub(super) fn layout_of(&self, sections: Range<usize>) -> Layout {
        let absent = sections.filter(|&index| !self.sections[index].is_present());
        sections::layout_of(absent.map(|index| self.grains_in(index).len()))
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
        (grain < self.grains as u64).then(|| self.pfn_of_grain(grain as usize))
    }

    /// Returns the byte of the page at an address, or `None` if the address is in no memory of the range. `P` is the
    /// platform of the allocator.
    #[inline(always)]
    pub fn kind_at<P: Platform>(&self, address: u64) -> Option<CacheId> {
        let grain = address.wrapping_sub(self.base) >> GRAIN_SHIFT;
        let kind = match has_sections::<P>() {
            // SAFETY: the maps of allocators on such a platform have sections.
            true => unsafe { self.kind_in_section(grain as usize) }?,
            false => self.kinds.get(grain as usize)?,
        };
        Some(CacheId::new(kind.load(Relaxed)))
    }

    /// Returns the metadata of the slab at an address. `P` is the platform of the allocator.
    ///
    /// # Safety
    /// The address is in memory of the range, and a multiple of a grain.
    #[inline(always)]
    pub(super) unsafe fn slab_at<P: Platform>(&self, slab: SlabAddress) -> &'m Slab {
        debug_assert!(self.pfn(slab.get()).is_some(), "the address is not in the range");
        if has_sections::<P>() {
            let grain = (slab.get() - self.base) as usize >> GRAIN_SHIFT;
            // SAFETY: the address is in the range, so it is in one of the sections, whose memory is present as the
            // caller promises. Every grain of a section that is in the range has an entry in its tables.
            return unsafe {
                self.sections.get_unchecked(grain >> self.section_shift).slab(self.grain_in_section(grain))
            };
        }
        let metadata = (slab.get() >> METADATA_SHIFT).wrapping_add(self.slabs_origin);
        // SAFETY: the address is in the range and a multiple of a grain, as the caller promises, so `metadata` is the
        // address of the grain's entry in `slabs`, whose provenance `new` exposed. The entry is borrowed for `'m`.
        unsafe { &*(metadata as *const Slab) }
    }

    /// Returns the byte of a grain; `None` if the grain is in no memory of the range.
    fn kind_of_grain(&self, grain: usize) -> Option<&'m AtomicU8> {
        match self.sections.is_empty() {
            true => self.kinds.get(grain),
            // SAFETY: the map has sections.
            false => unsafe { self.kind_in_section(grain) },
        }
    }

    /// Returns the byte of a grain in a section; `None` if the grain is in no memory of the range.
    ///
    /// # Safety
    /// The map has sections.
    #[inline(always)]
    unsafe fn kind_in_section(&self, grain: usize) -> Option<&'m AtomicU8> {
        if grain >= self.grains {
            return None;
        }
        // SAFETY: the grain is in the range, so it is in one of the sections, whose tables have an entry for it.
        unsafe { self.sections.get_unchecked(grain >> self.section_shift).kind(self.grain_in_section(grain)) }
    }

    /// Returns the place of a grain in its section.
    #[inline(always)]
    fn grain_in_section(&self, grain: usize) -> usize {
        grain & self.section_mask
    }

    fn slab_in_section(&self, grain: usize) -> &'m Slab {
        let section = self.sections.get(grain >> self.section_shift).filter(|section| section.is_present());
        let section = section.filter(|_| grain < self.grains).expect("a slab is in memory of the slab allocator");
        // SAFETY: the section is present, and the grain is in the range, so the section's tables have an entry for it.
        unsafe { section.slab(self.grain_in_section(grain)) }
    }

    /// Returns the byte of a page: the number of its cache, `LARGE` or `NONE`, which is also that of a page in a hole.
    #[inline(never)]
    pub fn kind(&self, pfn: Pfn) -> CacheId {
        let grain = self.grain(pfn);
        let kind = self.kind_of_grain(grain);
        CacheId::new(kind.map_or(NONE.get(), |kind| kind.load(Relaxed)))
    }

    /// Sets the byte of each of these pages.
    #[inline(never)]
    pub(super) fn set_kind(&self, pfn: Pfn, pages: u32, kind: CacheId) {
        let first = self.grain(pfn);
        for grain in first..first + ((pages as usize) << self.page_grains_shift) {
            let stored = self.kind_of_grain(grain);
            stored.expect("a slab is in memory of the slab allocator").store(kind.get(), Relaxed);
        }
    }

    /// Returns the metadata of the slab that starts at a frame.
    #[inline(never)]
    pub fn slab(&self, pfn: Pfn) -> &'m Slab {
        let grain = self.grain(pfn);
        self.slabs.get(grain).unwrap_or_else(|| self.slab_in_section(grain))
    }

    #[inline]
    fn pfn_of_grain(&self, grain: usize) -> Pfn {
        Pfn::new(self.first + (grain >> self.page_grains_shift) as u32)
    }

    /// Returns the first frames of the blocks of an order whose first page has the byte of a cache, for walks over all
    /// slabs of the cache. Unless the caller holds a lock, a slab that is returned may already have been freed. Reads
    /// the byte of every block of that order in memory of the range.
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
        let blocks = self.present_before(end).flat_map(move |frames| {
            let (start, end) = (frames.start.raw(), frames.end.raw());
            let start = start.checked_next_multiple_of(order.pages()).unwrap_or(end);
            (start..end).step_by(order.pages() as usize).map(Pfn::new)
        });
        blocks.filter(move |&pfn| map.kind(pfn) == cache)
    }

    /// Returns the frames before `end` that have metadata: those of all sections with memory, in ascending order.
    pub(super) fn present_before(&self, end: Pfn) -> impl Iterator<Item = Range<Pfn>> + use<'m> {
        let map = *self;
        let all = 0..self.sections.len().max(1);
        let present = all.filter(move |&index| map.sections.get(index).is_none_or(SlabSection::is_present));
        present.map(move |index| {
            let Range { start, end: last } = map.grains_in(index);
            map.pfn_of_grain(start)..map.pfn_of_grain(last).min(end)
        })
    }

    /// Returns the grains of a section. Without sections, section 0 is the whole range.
    fn grains_in(&self, section: usize) -> Range<usize> {
        let start = section << self.section_shift;
        start..self.grains.min(start + (1 << self.section_shift))
    }

    /// Returns the word by which a CPU's slot names a slab ([`Slot::main`](super::cpu::Slot::main) under `bitmap`): the
    /// address of its metadata.
    pub(super) fn word_of(&self, slab: &'m Slab) -> u64 {
        core::ptr::from_ref(slab).expose_provenance() as u64
    }

    /// Returns the first frame of the slab that a slot names under `bitmap`; `None` if the slot has no slab.
    pub(super) fn pfn_by_word(&self, word: u64) -> Option<Pfn> {
        let index = (word as usize).wrapping_sub(self.slabs.as_ptr().addr()) / size_of::<Slab>();
        (index < self.slabs.len()).then(|| self.pfn_of_grain(index))
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
        self.grains >> self.page_grains_shift
    }

    /// Returns the frames of the range.
    pub(super) fn frames(&self) -> Range<Pfn> {
        let first = Pfn::new(self.first);
        first..first.offset(self.pages() as u32)
    }

    /// Returns whether a whole block is in memory of the range. No block crosses the end of a section.
    pub(super) fn has(&self, pfn: Pfn, order: Order) -> bool {
        let frames = self.frames();
        if !frames.contains(&pfn) || frames.end.raw() - pfn.raw() < order.pages() {
            return false;
        }
        self.sections.get(self.grain(pfn) >> self.section_shift).is_none_or(SlabSection::is_present)
    }

    fn grain(&self, pfn: Pfn) -> usize {
        ((pfn.raw() - self.first) as usize) << self.page_grains_shift
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    extern crate std;

    use core::ptr::NonNull;

    use super::*;
    use crate::base::CpuId;
    use crate::base::lock::SoloLock;
    use crate::platform::NoProbe;
    use crate::platform::host::Solo;
    use crate::policy::Policy;

    /// A platform whose memory has no holes.
    type NoHoles = Solo<NoProbe>;

    /// A platform whose memory has holes.
    struct Holes;

    impl Platform for Holes {
        type Lock = SoloLock;
        type Probe = NoProbe;

        const POLICY: Option<Policy> = Some(Policy::FREEHOLD);
        const SPARSEMEM: bool = true;

        fn probe(&self) -> &NoProbe {
            &NoProbe
        }

        fn cpu(&self) -> CpuId {
            CpuId(0)
        }
    }

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
                assert_eq!((map.kind(pfn), map.kind_at::<NoHoles>(address + 4095)), (kind, Some(kind)), "{pfn:?}");
                assert_eq!((map.pfn(address), map.pfn_by_word(map.word_of(map.slab(pfn)))), (Some(pfn), Some(pfn)));
            }
            let end = map.address(Pfn::new(16)) + 8 * 4096;
            assert_eq!(
                (map.pfn(end), map.kind_at::<NoHoles>(end), map.pfn(map.address(Pfn::new(16)) - 1)),
                (None, None, None)
            );
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

    /// Frames of the last section in [`section_has_tables_only_if_it_was_added`].
    const LAST: u32 = Order::MAX.pages();

    /// The first of two sections is a hole, and the second is shorter than a whole one.
    #[test]
    fn section_has_tables_only_if_it_was_added() {
        for page_size in [4096, 16384] {
            let first = Pfn::new(Order::MAX.pages() + 6);
            let end = Pfn::new(Order::MAX.pages() + (1 << SECTION_ORDER) + LAST);
            let geometry = Geometry::new(first, end, Order::new(9));
            let base = NonNull::without_provenance(((7_usize << 30) | (first.index() * page_size)).try_into().unwrap());
            let memory = Memory { first, base, pages: end.raw() - first.raw(), caches: 0 };
            let (nowhere, sections) = ([Slab::unused()], [const { SlabSection::absent() }; 2]);
            let map = SlabMap::new(&memory, page_size as u32, &[], &nowhere).with_sections(geometry, &sections);
            let mut storage = std::vec![core::mem::MaybeUninit::uninit(); map.layout_of(0..2).size()];
            let after = Carver::new(&mut storage[..]);
            check_sections(map, geometry, after);
        }
    }

    fn check_sections<'m>(map: SlabMap<'m>, geometry: Geometry, mut storage: Carver<'m>) {
        let Range { start, end } = geometry.frames();
        let (border, last) = (Pfn::new(end.raw() - LAST), Pfn::new(end.raw() - 1));
        map.add_sections(1..2, &mut storage).expect("the storage is as large as the layout");
        let cache = CacheId::new(9);
        map.set_kind(Pfn::new(end.raw() - 8), 8, cache);
        for (pfn, kind) in
            [(border, Some(NONE)), (last, Some(cache)), (start, None), (Pfn::new(border.raw() - 1), None)]
        {
            let address = map.address(pfn);
            assert_eq!(map.kind_at::<Holes>(address), kind, "{pfn:?}");
            assert_eq!((map.kind(pfn), map.pfn(address)), (kind.unwrap_or(NONE), Some(pfn)));
            assert_eq!(map.has(pfn, Order::ZERO), kind.is_some(), "{pfn:?}");
        }
        let past = map.address(last) + (map.address(last) - map.address(Pfn::new(last.raw() - 1)));
        assert_eq!((map.kind_at::<Holes>(past), map.kind_at::<Holes>(map.address(start) - 1)), (None, None));
        assert!(map.has(border, Order::MAX) && !map.has(last, Order::new(1)));
        for pfn in [border, Pfn::new(border.raw() + 1), last] {
            // SAFETY: the section of the frame has memory, and a frame begins at a multiple of a grain.
            let by_address = unsafe { map.slab_at::<Holes>(map.slab_address(pfn)) };
            assert!(core::ptr::eq(map.slab(pfn), by_address), "{pfn:?}");
            by_address.next.store(pfn.raw(), Relaxed);
        }
        assert_eq!(map.slab(border).next.load(Relaxed), border.raw(), "two pages share their metadata");
        assert!(map.present_before(end).eq([border..end]));
        assert!(map.slabs_of_cache(cache, Order::new(3)).eq([Pfn::new(end.raw() - 8)]));
        assert_eq!(map.layout_of(1..2).size(), 0, "a section that is present needs no storage");
    }
}
