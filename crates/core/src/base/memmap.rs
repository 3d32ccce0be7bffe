//! From a frame number to its metadata, through a table of sections.
//!
//! Memory comes in sections of one array each: of 2^15 frames (128 MiB of 4 KiB pages, as Linux's on x86-64), or of an
//! eighth of all that a small machine may have, but no smaller than the largest block. A hole as large as a section costs
//! one empty slot, and the table begins where memory does. Sections appear while others are in use and never go
//! away: what is read without a lock stays readable when frames go offline. No block crosses a section, so a block's buddy is
//! always in the block's own section.
//!
//! The table is read by everybody and written by whoever brings memory in, under the lock for that. It keeps metadata for
//! `'m`, and takes none that lives shorter: a [`Section`] is invariant in it.
//!
//! linux: mm/sparse.c

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::without_provenance_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::carve::{Carver, Plan};
use super::frame::Frame;
use super::pageblock::Pageblock;
use super::word::Word;
use super::{Order, Pfn};

/// Frames in the largest section, as a power of two.
const SECTION_ORDER_MAX: u32 = if cfg!(loom) { 5 } else { 15 };
/// Frames in the smallest section: it holds the largest block.
const SECTION_ORDER_MIN: u32 = if cfg!(loom) { 5 } else { Order::MAX.get() as u32 };
/// Sections that a small machine is made of, as a power of two.
const SMALL_SECTIONS: u32 = 3;

/// Frames that share a cache line: a page, its buddy, and their buddy of order 1, which a free looks at together.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line([Frame; 4]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64, "a line holds frames and nothing else");

/// Address of metadata that is not there. Odd: metadata never is.
const ABSENT: usize = 1;

/// Which frames a table is for, and how they are cut into sections and pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// First frame of the first section.
    base: u32,
    /// Frames in a section, as a power of two.
    section_order: u32,
    sections: usize,
    pageblock_order: Order,
}

impl Geometry {
    /// For the frames from `first` up to `end`.
    pub(crate) fn new(first: Pfn, end: Pfn, pageblock_order: Order) -> Geometry {
        let span = end.raw().saturating_sub(first.raw()).max(1);
        let section_order = (span.ilog2().saturating_sub(SMALL_SECTIONS)).clamp(SECTION_ORDER_MIN, SECTION_ORDER_MAX);
        let base = first.raw() >> section_order << section_order;
        let sections = (end.raw().saturating_sub(base) as usize).div_ceil(1 << section_order);
        Geometry { base, section_order, sections, pageblock_order }
    }

    /// Number of sections.
    pub(crate) fn sections(&self) -> usize {
        self.sections
    }

    /// Frames in a section.
    pub(crate) fn section_pages(&self) -> u32 {
        1 << self.section_order
    }

    /// Indices of the sections that hold frames of a range, which the table must be for.
    pub(crate) fn sections_of(&self, range: &Range<Pfn>) -> Range<usize> {
        let index = |pfn: u32| pfn.saturating_sub(self.base) as usize;
        let end = index(range.end.raw()).div_ceil(1 << self.section_order).min(self.sections);
        (index(range.start.raw()) >> self.section_order).min(end)..end
    }

    /// Size and alignment of one section's metadata.
    pub(crate) fn section_layout(&self) -> Layout {
        Plan::EMPTY
            .array::<Pageblock>(self.pageblocks_per_section())
            .and_then(|plan| plan.array::<Line>(self.lines_per_section()))
            .expect("a section's metadata is far smaller than the address space")
            .layout()
    }

    /// Size and alignment of the metadata of so many sections.
    pub(crate) fn layout_of(&self, sections: usize) -> Layout {
        let section = self.section_layout();
        Layout::from_size_align(section.size() * sections, section.align()).expect("at most 64 GiB and a bit")
    }

    fn pageblocks_per_section(&self) -> usize {
        1 << (self.section_order - u32::from(self.pageblock_order.get()))
    }

    fn lines_per_section(&self) -> usize {
        1 << (self.section_order - 2)
    }
}

/// One slot of the table: where metadata is, as the address that frame 0 and pageblock 0 would have if it went on down
/// to them; [`ABSENT`] if there is none.
#[derive(Debug)]
pub(crate) struct Section<'m> {
    frames: AtomicPtr<Frame>,
    pageblocks: AtomicPtr<Pageblock>,
    /// Invariant: metadata that lives shorter than the table is not taken.
    metadata: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl Section<'_> {
    /// A slot without memory.
    pub(crate) fn absent() -> Self {
        Section {
            frames: AtomicPtr::new(without_provenance_mut(ABSENT)),
            pageblocks: AtomicPtr::new(without_provenance_mut(ABSENT)),
            metadata: PhantomData,
        }
    }

    /// Where frame 0 would be, if the section is there.
    #[inline]
    fn frames(&self) -> Option<*const Frame> {
        let frames = self.frames.load(Ordering::Acquire);
        (frames.addr() != ABSENT).then_some(frames.cast_const())
    }
}

/// The table. Cheap to copy: a slice and a few numbers. It shows what frames and pageblocks are, and lets nobody outside
/// the engine change it.
#[derive(Clone, Copy, Debug)]
pub struct MemMap<'m> {
    sections: &'m [Section<'m>],
    base: u32,
    section_order: u32,
    pageblock_order: Order,
}

impl<'m> MemMap<'m> {
    /// A map over as many slots as `geometry` says.
    pub(crate) fn new(sections: &'m [Section<'m>], geometry: Geometry) -> MemMap<'m> {
        assert_eq!(sections.len(), geometry.sections, "a slot for each section");
        let Geometry { base, section_order, pageblock_order, .. } = geometry;
        MemMap { sections, base, section_order, pageblock_order }
    }

    /// How it is cut.
    pub(crate) fn geometry(&self) -> Geometry {
        let MemMap { sections, base, section_order, pageblock_order } = *self;
        Geometry { base, section_order, sections: sections.len(), pageblock_order }
    }

    /// Size of a pageblock.
    #[inline]
    pub fn pageblock_order(&self) -> Order {
        self.pageblock_order
    }

    /// Size of half a pageblock: the largest part of one.
    #[inline]
    pub(crate) fn half_pageblock_order(&self) -> Order {
        Order::new(self.pageblock_order.get() - 1)
    }

    /// The frames that can have metadata.
    pub fn frames_max(&self) -> Range<u64> {
        let base = u64::from(self.base);
        base..base + ((self.sections.len() as u64) << self.section_order)
    }

    /// Makes section `index` present, with metadata carved from `memory`; all its frames are Absent.
    /// `false` if the memory is too small or there is no such slot. A section that is present stays as it is. Called by
    /// one at a time.
    pub(crate) fn add_section(&self, index: usize, memory: &mut Carver<'m>) -> bool {
        let (geometry, Some(section)) = (self.geometry(), self.sections.get(index)) else { return false };
        if self.is_present(index) {
            return true;
        }
        let Some(pageblocks) = memory.array(geometry.pageblocks_per_section(), |_| Pageblock::new()) else {
            return false;
        };
        let Some(lines) = memory.array(geometry.lines_per_section(), |_| Line::default()) else { return false };
        let start = self.base as usize + (index << self.section_order);
        let pageblocks = pageblocks.as_mut_ptr().wrapping_sub(start >> self.pageblock_order.get());
        section.pageblocks.store(pageblocks, Ordering::Release);
        section.frames.store(lines.as_mut_ptr().cast::<Frame>().wrapping_sub(start), Ordering::Release);
        true
    }

    /// Whether section `index` has metadata.
    pub(crate) fn is_present(&self, index: usize) -> bool {
        self.sections.get(index).is_some_and(|section| section.frames().is_some())
    }

    /// The slot that a frame's section has or would have.
    #[inline]
    fn section_of(&self, pfn: Pfn) -> Option<&'m Section<'m>> {
        self.sections.get((pfn.raw().wrapping_sub(self.base) >> self.section_order) as usize)
    }

    /// Metadata of `pfn`, if its section is present.
    #[inline]
    pub fn try_frame(&self, pfn: Pfn) -> Option<&'m Frame> {
        let frames = self.section_of(pfn)?.frames()?;
        // SAFETY: `add_section` carved frames for all of this section, which `pfn` is in, for 'm, and left the pointer as far
        // below the first as that is above frame 0. Frames are shared only as atomics.
        Some(unsafe { &*frames.wrapping_add(pfn.index()) })
    }

    /// The block that a frame is in, be it free, on a per-CPU list or allocated: its head, and the head's word. `None`
    /// if the frame is in none, or its section is not present. At most eleven steps.
    pub fn block_around(&self, pfn: Pfn) -> Option<(Pfn, Word)> {
        Order::all().find_map(|order| {
            let head = pfn.align_down(order);
            let word = self.try_frame(head)?.word();
            (word.is_head() && pfn.raw() - head.raw() < word.order().pages()).then_some((head, word))
        })
    }

    /// Metadata of `pfn`, whose section the caller knows to be present.
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    pub fn frame(&self, pfn: Pfn) -> &'m Frame {
        match self.try_frame(pfn) {
            Some(frame) => frame,
            None => absent(pfn),
        }
    }

    /// Metadata of the frames of a range whose sections the caller knows to be present: a slice for each section.
    ///
    /// # Panics
    /// If one is not.
    #[inline]
    pub fn frames(&self, range: &Range<Pfn>) -> impl Iterator<Item = &'m [Frame]> + use<'m> {
        let (map, mut at, end) = (*self, range.start.index(), range.end.index());
        let pages = 1_usize << self.section_order;
        core::iter::from_fn(move || {
            let left = end.checked_sub(at).filter(|&left| left > 0)?;
            let pfn = Pfn::new(at as u32);
            let Some(frames) = map.section_of(pfn).and_then(Section::frames) else { absent(pfn) };
            let (first, count) = (frames.wrapping_add(at), left.min(pages - (at - map.base as usize) % pages));
            at += count;
            // SAFETY: as in `try_frame`; the section holds so many frames from this one on, in one array.
            Some(unsafe { core::slice::from_raw_parts(first, count) })
        })
    }

    /// Metadata of the pageblock around `pfn`, whose section the caller knows to be present.
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    pub fn pageblock(&self, pfn: Pfn) -> &'m Pageblock {
        match self.try_frame_and_pageblock(pfn) {
            Some((_, pageblock)) => pageblock,
            None => absent(pfn),
        }
    }

    /// Metadata of `pfn` and of the pageblock around it, if its section is present.
    #[inline]
    pub fn try_frame_and_pageblock(&self, pfn: Pfn) -> Option<(&'m Frame, &'m Pageblock)> {
        let section = self.section_of(pfn)?;
        let frames = section.frames()?;
        // Published before the frames were, so it is there.
        let pageblocks = section.pageblocks.load(Ordering::Relaxed).cast_const();
        let index = pfn.index();
        // SAFETY: as in `try_frame`; `add_section` stores the pageblocks' pointer, made likewise, before that of the
        // frames, which was loaded with Acquire and is not absent.
        Some(unsafe { (&*frames.wrapping_add(index), &*pageblocks.wrapping_add(index >> self.pageblock_order.get())) })
    }

    /// First frame of each pageblock of every section that is present.
    pub fn pageblocks(&self) -> impl Iterator<Item = Pfn> + use<'m> {
        let (step, pages) = (self.pageblock_order.pages(), 1_u32 << self.section_order);
        self.present_sections()
            .flat_map(move |start| (0..pages / step).map(move |block| Pfn::new(start.raw() + block * step)))
    }

    /// First frame of every section that is present.
    pub(crate) fn present_sections(&self) -> impl Iterator<Item = Pfn> + use<'m> {
        let map = *self;
        (0..self.sections.len())
            .filter(move |&index| map.is_present(index))
            .map(move |index| Pfn::new(map.base + ((index as u32) << map.section_order)))
    }
}

#[cold]
#[inline(never)]
fn absent(pfn: Pfn) -> ! {
    panic!("frame {pfn} is in a section that is not present")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(first: u32, end: u32) -> Geometry {
        Geometry::new(Pfn::new(first), Pfn::new(end), Order::new(9))
    }

    #[test]
    fn small_machines_have_small_sections() {
        for (first, end, order, sections) in [
            (0, 1 << 12, 10, 4),
            (0, 1 << 15, 12, 8),
            (1 << 19, (1 << 19) + (1 << 15), 12, 8),
            (0, 1 << 18, 15, 8),
            (1 << 28, (1 << 28) + (1 << 22), 15, 128),
            (5, 6, 10, 1),
            (u32::MAX - 2000, u32::MAX, 10, 2),
        ] {
            let cut = geometry(first, end);
            assert_eq!((cut.section_order, cut.sections), (order, sections), "{first:#x} to {end:#x}");
        }
    }

    #[test]
    fn a_range_lies_in_sections_of_the_table_only() {
        let cut = geometry(1 << 20, 1 << 21);
        let of = |start: u32, end: u32| cut.sections_of(&(Pfn::new(start)..Pfn::new(end)));
        assert_eq!(of(1 << 20, 1 << 21), 0..32);
        assert_eq!(of((1 << 20) + 40_000, (1 << 20) + 40_001), 1..2);
        assert_eq!((of(0, 5), of(0, u32::MAX), of(u32::MAX - 1, u32::MAX)), (0..0, 0..32, 32..32));
    }
}
