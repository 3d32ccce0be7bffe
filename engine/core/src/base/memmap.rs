//! Lookup from a frame number to the frame's metadata, through a table of sections.
//!
//! Memory is divided into sections of 2^15 frames (128 MiB with 4 KiB pages, as in Linux on x86-64), each with its own
//! array of metadata. Sections are counted from the lowest frame that the configuration allows, and the last one ends
//! at the highest. So metadata is paid only for the frames that the machine may have, wherever they begin. A hole as
//! large as a section costs one empty slot.
//!
//! Sections are added while others are in use and are never removed. Metadata that is read without a lock therefore
//! stays readable when frames go offline. No block crosses a section border, so a block and its buddy are always in one
//! section.
//!
//! Any thread reads the table. Calls that bring memory online write it, under the hotplug lock. The table refers to
//! metadata for `'m` and accepts none with a shorter lifetime, because a section is invariant in `'m`.
//!
//! linux: mm/sparse.c

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::without_provenance_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::carve::{Carver, Plan};
use super::frame::{Frame, Links};
use super::pageblock::Pageblock;
use super::word::Word;
use super::{Order, Pfn};

/// Frames in a section, as a power of two.
pub(crate) const SECTION_ORDER: u32 = if cfg!(loom) { 5 } else { 15 };
/// Frames in a section: 2^15.
const SECTION_PAGES: u32 = 1 << SECTION_ORDER;

/// Words in a cache line.
const FRAMES_A_LINE: usize = 16;
/// Links in a cache line.
const LINKS_A_LINE: usize = 8;

/// Frame words that share a cache line: a page and its buddies up to order 3, which a free reads together.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Frames([Frame; FRAMES_A_LINE]);

/// Links that share a cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct LinksLine([Links; LINKS_A_LINE]);

#[cfg(not(loom))]
const _: () =
    assert!(size_of::<Frames>() == 64 && size_of::<LinksLine>() == 64, "a line consists of words or of links only");

/// Address that stands for missing metadata. It is odd, and metadata never is at an odd address.
const ABSENT: usize = 1;

/// Range of frames of a table, and its division into sections and pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// First frame of the first section: a multiple of the largest block.
    base: u32,
    /// Number of frames from `base` on, in whole blocks of the largest order.
    span: u32,
    pageblock_order: Order,
}

impl Geometry {
    /// Returns the geometry for the frames from `first` up to `end`, rounded to whole blocks of the largest order. The
    /// last block of the number space is excluded.
    pub(crate) fn new(first: Pfn, end: Pfn, pageblock_order: Order) -> Geometry {
        let base = first.align_down(Order::MAX).raw();
        let span = end.min(Pfn::END_MAX).raw().saturating_sub(base).next_multiple_of(Order::MAX.pages());
        Geometry { base, span, pageblock_order }
    }

    /// Returns the frames of all sections.
    pub(crate) fn frames(&self) -> Range<Pfn> {
        Pfn::new(self.base)..Pfn::new(self.base + self.span)
    }

    /// Returns the number of sections.
    pub(crate) fn sections(&self) -> usize {
        self.span.div_ceil(SECTION_PAGES) as usize
    }

    /// Returns the frame numbers of a section; the last section may have fewer than the others.
    pub(crate) fn frames_of(&self, section: usize) -> Range<u64> {
        let start = (section as u64) << SECTION_ORDER;
        let end = (start + u64::from(SECTION_PAGES)).min(u64::from(self.span));
        u64::from(self.base) + start..u64::from(self.base) + end
    }

    /// Returns the indices of the sections that contain frames of a range. Frames outside the table have none.
    pub(crate) fn sections_of(&self, range: &Range<Pfn>) -> Range<usize> {
        let [first, last] = [range.start, range.end].map(|pfn| pfn.raw().saturating_sub(self.base));
        let end = (last.div_ceil(SECTION_PAGES) as usize).min(self.sections());
        ((first >> SECTION_ORDER) as usize).min(end)..end
    }

    /// Returns the layout of the metadata of these sections.
    pub(crate) fn layout_of(&self, mut sections: impl Iterator<Item = usize>) -> Layout {
        let plan = sections.try_fold(Plan::EMPTY, |plan, section| {
            plan.array::<Pageblock>(self.pageblocks_in(section))?
                .array::<Frames>(self.frame_lines_in(section))?
                .array::<LinksLine>(self.link_lines_in(section))
        });
        plan.expect("the metadata of a section is a little more than 64 GiB at most").layout()
    }

    fn pages_in(&self, section: usize) -> usize {
        let frames = self.frames_of(section);
        (frames.end - frames.start) as usize
    }

    fn pageblocks_in(&self, section: usize) -> usize {
        self.pages_in(section) >> self.pageblock_order.get()
    }

    fn frame_lines_in(&self, section: usize) -> usize {
        self.pages_in(section) / FRAMES_A_LINE
    }

    fn link_lines_in(&self, section: usize) -> usize {
        self.pages_in(section) / LINKS_A_LINE
    }
}

/// One slot of the table. The pointers are biased: each is the address that frame 0 or pageblock 0 would have if the
/// array extended down to it, or [`ABSENT`] if there is no metadata. `frames` is written last.
#[derive(Debug)]
pub(crate) struct Section<'m> {
    frames: AtomicPtr<Frame>,
    links: AtomicPtr<Links>,
    pageblocks: AtomicPtr<Pageblock>,
    /// Makes the type invariant in `'m`, so that metadata with a shorter lifetime than the table is rejected.
    metadata: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl Section<'_> {
    /// Returns a section whose memory never came online.
    pub(crate) fn absent() -> Self {
        Section {
            frames: AtomicPtr::new(without_provenance_mut(ABSENT)),
            links: AtomicPtr::new(without_provenance_mut(ABSENT)),
            pageblocks: AtomicPtr::new(without_provenance_mut(ABSENT)),
            metadata: PhantomData,
        }
    }

    /// Returns the biased pointer to the frames, if the section is present.
    #[inline]
    fn frames(&self) -> Option<*const Frame> {
        let frames = self.frames.load(Ordering::Acquire);
        (frames.addr() != ABSENT).then_some(frames.cast_const())
    }
}

/// Parts of a section that a test can damage.
#[cfg(feature = "damage")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionPart {
    /// Removes the pageblocks while the frames stay.
    Pageblocks,
    /// Moves the frames to an impossible address.
    Frames,
}

/// Table of all sections, with read access for code outside the engine. Cheap to copy: a slice and three numbers.
#[derive(Clone, Copy, Debug)]
pub struct MemMap<'m> {
    sections: &'m [Section<'m>],
    geometry: Geometry,
}

impl<'m> MemMap<'m> {
    /// Creates a map over as many empty slots as `geometry` has sections.
    pub(crate) fn new(sections: &'m [Section<'m>], geometry: Geometry) -> MemMap<'m> {
        assert_eq!(sections.len(), geometry.sections(), "the number of slots is not the number of sections");
        MemMap { sections, geometry }
    }

    /// Returns the division into sections and pageblocks.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the order of a pageblock, which is the same in the whole map.
    #[inline]
    pub fn pageblock_order(&self) -> Order {
        self.geometry.pageblock_order
    }

    /// Returns the order of half a pageblock, its largest proper part.
    #[inline]
    pub(crate) fn half_pageblock_order(&self) -> Order {
        Order::new(self.geometry.pageblock_order.get() - 1)
    }

    /// Returns the range of frames that can have metadata.
    pub fn frames_max(&self) -> Range<u64> {
        let base = u64::from(self.geometry.base);
        base..base + u64::from(self.geometry.span)
    }

    /// Makes section `index` present, with metadata carved from `memory`; all its frames are Absent. Returns `false` if
    /// the memory is too small or the slot does not exist. A section that is already present is not changed. Concurrent
    /// calls are not allowed.
    pub(crate) fn add_section(&self, index: usize, memory: &mut Carver<'m>) -> bool {
        let (geometry, Some(section)) = (self.geometry, self.sections.get(index)) else { return false };
        if self.is_present(index) {
            return true;
        }
        let Some(pageblocks) = memory.array(geometry.pageblocks_in(index), |_| Pageblock::new()) else {
            return false;
        };
        let (frame_lines, link_lines) = (geometry.frame_lines_in(index), geometry.link_lines_in(index));
        // SAFETY: a line is 64 bytes of words without padding. Each word is Absent, which is 0, so the value has only
        // zero bytes.
        let Some(frames) = (unsafe { memory.zeros(frame_lines, Frames::default) }) else { return false };
        // SAFETY: a line is 64 bytes of links without padding. Their default is 0, so the value has only zero bytes.
        let Some(links) = (unsafe { memory.zeros(link_lines, LinksLine::default) }) else { return false };
        debug_assert!(
            frames.as_ptr().is_aligned() && links.as_ptr().is_aligned(),
            "memory map: words at {:p} or links at {:p} are not aligned to cache lines",
            frames.as_ptr(),
            links.as_ptr()
        );
        let start = geometry.frames_of(index).start as usize;
        let first_pageblock = start >> geometry.pageblock_order.get();
        section.pageblocks.store(pageblocks.as_mut_ptr().wrapping_sub(first_pageblock), Ordering::Release);
        section.links.store(links.as_mut_ptr().cast::<Links>().wrapping_sub(start), Ordering::Release);
        section.frames.store(frames.as_mut_ptr().cast::<Frame>().wrapping_sub(start), Ordering::Release);
        true
    }

    /// Damages a section for a test: removes its pageblocks, as if the frames had been published first, or moves its
    /// frames to an impossible address. In debug builds an access then fails an assertion before it touches the memory.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_section(&self, index: usize, part: SectionPart) {
        let section = &self.sections[index];
        match part {
            SectionPart::Pageblocks => section.pageblocks.store(without_provenance_mut(ABSENT), Ordering::Release),
            SectionPart::Frames => {
                let frames = section.frames.load(Ordering::Relaxed);
                section.frames.store(frames.wrapping_byte_add(1), Ordering::Release);
            }
        }
    }

    /// Returns whether section `index` has metadata.
    pub(crate) fn is_present(&self, index: usize) -> bool {
        self.sections.get(index).is_some_and(|section| section.frames().is_some())
    }

    /// Returns the slot of a frame's section, present or not; `None` if the frame is outside the table.
    #[inline]
    fn section_of(&self, pfn: Pfn) -> Option<&'m Section<'m>> {
        let place = pfn.raw().wrapping_sub(self.geometry.base);
        if place >= self.geometry.span {
            return None;
        }
        // SAFETY: `new` checked that there is a slot for every frame of the span, and `place` is below the span.
        Some(unsafe { self.sections.get_unchecked((place >> SECTION_ORDER) as usize) })
    }

    /// Returns the metadata of `pfn`, if its section is present.
    #[inline]
    pub fn try_frame(&self, pfn: Pfn) -> Option<&'m Frame> {
        let frames = self.section_of(pfn)?.frames()?;
        debug_assert!(
            frames.is_aligned(),
            "memory map: frames at {frames:p}, of the section of frame {pfn}, are not aligned"
        );
        // SAFETY: `add_section` carved frames for the whole part of the section within the span, which includes `pfn`,
        // for 'm. The pointer is biased down by the number of the first frame, so adding `pfn` gives this frame. Frames
        // are shared only as atomics.
        Some(unsafe { shared(frames.wrapping_add(pfn.index())) })
    }

    /// Returns the links of `pfn`.
    ///
    /// # Panics
    /// If the frame's section is not present.
    #[inline]
    pub(super) fn links(&self, pfn: Pfn) -> &'m Links {
        self.frame_and_links(pfn).1
    }

    /// Returns the links of `pfn`, if its section is present.
    #[inline]
    pub(super) fn try_links(&self, pfn: Pfn) -> Option<&'m Links> {
        self.try_frame_and_links(pfn).map(|(_, links)| links)
    }

    /// Returns the metadata of `pfn` and its links.
    ///
    /// # Panics
    /// If the frame's section is not present.
    #[inline]
    pub(super) fn frame_and_links(&self, pfn: Pfn) -> (&'m Frame, &'m Links) {
        match self.try_frame_and_links(pfn) {
            Some(found) => found,
            None => absent(pfn),
        }
    }

    #[inline]
    fn try_frame_and_links(&self, pfn: Pfn) -> Option<(&'m Frame, &'m Links)> {
        let section = self.section_of(pfn)?;
        let frames = section.frames()?;
        // The links were stored before the frames were published, so the pointer is valid.
        let links = section.links.load(Ordering::Relaxed).cast_const();
        debug_assert!(
            links.is_aligned(),
            "memory map: links at {links:p}, of the section of frame {pfn}, are not aligned"
        );
        // SAFETY: as in `try_frame`, with the same bounds. `add_section` carved links for as many frames and stored
        // their pointer, biased in the same way, before that of the frames, which was loaded with Acquire and is not
        // `ABSENT`.
        Some(unsafe { (shared(frames.wrapping_add(pfn.index())), shared(links.wrapping_add(pfn.index()))) })
    }

    /// Prefetches the word and the links of `pfn`, if its section is present and stable Rust has an instruction for it.
    #[inline]
    pub fn prefetch(&self, pfn: Pfn) {
        let Some((frame, links)) = self.try_frame_and_links(pfn) else { return };
        prefetch(frame);
        prefetch(links);
    }

    /// Overwrites the links of a frame, next and previous.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_links(&self, pfn: Pfn, next: u32, prev: u32) {
        self.links(pfn).next.store(next, Ordering::Relaxed);
        self.links(pfn).prev.store(prev, Ordering::Relaxed);
    }

    /// Returns the head and the head's word of the block that contains a frame, whether the block is free, on a per-CPU
    /// list or allocated. `None` if no block contains the frame or its section is not present. Takes at most eleven
    /// steps.
    pub fn block_around(&self, pfn: Pfn) -> Option<(Pfn, Word)> {
        Order::all().find_map(|order| {
            let head = pfn.align_down(order);
            let word = self.try_frame(head)?.word();
            (word.is_head() && pfn.raw() - head.raw() < word.order().pages()).then_some((head, word))
        })
    }

    /// Returns the metadata of `pfn`.
    ///
    /// # Panics
    /// If the frame's section is not present.
    #[inline(never)]
    pub fn frame(&self, pfn: Pfn) -> &'m Frame {
        match self.try_frame(pfn) {
            Some(frame) => frame,
            None => absent(pfn),
        }
    }

    /// Returns the metadata of the frames of a range, one slice per section.
    ///
    /// # Panics
    /// The iterator panics if a section is not present.
    #[inline]
    pub fn frames(&self, range: &Range<Pfn>) -> impl Iterator<Item = &'m [Frame]> + use<'m> {
        let (map, mut at, end) = (*self, range.start, range.end);
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let Some(frames) = map.try_frames(&(at..end)) else { absent(at) };
            at = Pfn::new(at.raw() + frames.len() as u32);
            Some(frames)
        })
    }

    /// Returns the metadata of the first frames of a non-empty range, up to the end of their section, if it is present.
    #[inline(never)]
    pub(crate) fn try_frames(&self, range: &Range<Pfn>) -> Option<&'m [Frame]> {
        let first = self.section_of(range.start)?.frames()?.wrapping_add(range.start.index());
        let left = range.end.index().saturating_sub(range.start.index());
        // SAFETY: as in `try_frame`. The section's frames are one array, with at least this many from `first` on.
        Some(unsafe { core::slice::from_raw_parts(first, left.min(self.left_in_section(range.start))) })
    }

    /// Returns the number of frames from `pfn` to the end of its section.
    fn left_in_section(&self, pfn: Pfn) -> usize {
        let place = pfn.raw() - self.geometry.base;
        let end = (place >> SECTION_ORDER << SECTION_ORDER).saturating_add(SECTION_PAGES).min(self.geometry.span);
        (end - place) as usize
    }

    /// Returns the metadata of the pageblock that contains `pfn`.
    ///
    /// # Panics
    /// If the frame's section is not present.
    #[inline(never)]
    pub fn pageblock(&self, pfn: Pfn) -> &'m Pageblock {
        match self.try_frame_and_pageblock(pfn) {
            Some((_, pageblock)) => pageblock,
            None => absent(pfn),
        }
    }

    /// Returns the metadata of `pfn` and of the pageblock that contains it, if the section is present.
    #[inline]
    pub fn try_frame_and_pageblock(&self, pfn: Pfn) -> Option<(&'m Frame, &'m Pageblock)> {
        let section = self.section_of(pfn)?;
        let frames = section.frames()?;
        // The pageblocks were stored before the frames were published, so the pointer is valid.
        let pageblocks = section.pageblocks.load(Ordering::Relaxed).cast_const();
        debug_assert!(
            pageblocks.addr() != ABSENT && pageblocks.is_aligned(),
            "memory map: frame {pfn} was published before its pageblocks at {pageblocks:p}"
        );
        let index = pfn.index();
        let block = index >> self.geometry.pageblock_order.get();
        // SAFETY: as in `try_frame`, with the same bounds. `add_section` stores the pageblocks' pointer, biased in the
        // same way, before that of the frames, which was loaded with Acquire and is not `ABSENT`.
        Some(unsafe { (shared(frames.wrapping_add(index)), shared(pageblocks.wrapping_add(block))) })
    }

    /// Returns the first frame of each pageblock of the sections that are present.
    pub fn pageblocks(&self) -> impl Iterator<Item = Pfn> + use<'m> {
        let step = self.pageblock_order().pages() as usize;
        self.present_sections()
            .flat_map(move |frames| (frames.start..frames.end).step_by(step).map(|pfn| Pfn::new(pfn as u32)))
    }

    /// Returns the frame numbers of each section that is present.
    pub(crate) fn present_sections(&self) -> impl Iterator<Item = Range<u64>> + use<'m> {
        let map = *self;
        (0..map.sections.len())
            .filter(move |&index| map.is_present(index))
            .map(move |index| map.geometry.frames_of(index))
    }
}

/// Turns a pointer into a reference.
///
/// # Safety
/// The pointer refers to a value that lives for `'m` and is shared only as atomics.
#[inline(always)]
unsafe fn shared<'m, T>(pointer: *const T) -> &'m T {
    // SAFETY: the caller promises a pointer to a value, which is not null. The compiler cannot derive this from the
    // pointer arithmetic.
    unsafe { core::hint::assert_unchecked(!pointer.is_null()) };
    // SAFETY: the caller promises that the pointer refers to a value that lives for 'm and is shared only as atomics.
    unsafe { &*pointer }
}

/// Prefetches the cache line of a value.
#[inline(always)]
fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch changes no memory, and the address is that of a live value.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast());
    }
    let _ = value;
}

#[cold]
#[inline(never)]
fn absent(pfn: Pfn) -> ! {
    panic!("frame {pfn} is in a section of memory that is not present")
}

#[cfg(test)]
#[path = "memmap_tests.rs"]
mod tests;
